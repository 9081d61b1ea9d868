"""Windows by their definitions: what is in one at an instant, computed from all elements each time."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

Row = dict[str, Any]
Change = tuple[int, str, Row]

TICKS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "timestamps": 1_000_000}
SECONDS = {
    "microsecond": Fraction(1, 1_000_000), "millisecond": Fraction(1, 1_000), "second": Fraction(1),
    "minute": Fraction(60), "hour": Fraction(3_600), "day": Fraction(86_400),
}  # fmt: skip
NAN = float("nan")


class Undetermined(Exception):
    """A row window over a derived stream whose elements of one instant have no order to choose by."""


@dataclass(frozen=True)
class Window:
    """``kind`` is rows, range, hop, session, relation (an input of changes) or table (always there)."""

    kind: str
    size: int | None = None
    partition_by: tuple[str, ...] = ()
    slide: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether its rows have the columns window_start and window_end."""
        return self.kind in ("hop", "session")


def read_window(text: str, unit: str) -> Window:
    """A window as written between the brackets; none is ROWS UNBOUNDED."""
    forms = r"ROWS\b|RANGE\b|TUMBLE\b|HOP\b|SESSION\b"
    partition = re.search(rf"PARTITION\s+BY\s+(.*?)\s*(?={forms}|$)", text, re.IGNORECASE)
    keys = tuple(k.strip().split(".")[-1].strip('"`') for k in partition[1].split(",")) if partition else ()
    plain = text.replace(partition[0], "") if partition else text
    rest, _, slide = plain.upper().replace("EVERY", "SLIDE").partition("SLIDE")
    kind, *size = rest.split() or ["ROWS", "UNBOUNDED"]
    if kind == "NOW":
        return Window("range", 0)
    if kind == "TUMBLE":
        kind, slide = "HOP", " ".join(size)
    count = int if kind == "ROWS" else lambda t: ticks(t, unit)
    return Window(
        kind.lower(),
        None if size[0] == "UNBOUNDED" else count(" ".join(size)),
        keys,
        count(slide.strip()) if slide else None,
    )


def ticks(text: str, unit: str) -> int:
    """A duration in ticks; a bare number is ticks already."""
    parts = re.findall(r"(\d+)\s*([a-z]*)", text.lower())
    if not parts[0][1]:
        return int(parts[0][0])
    return int(sum(int(n) * SECONDS[u.removesuffix("s")] for n, u in parts) * TICKS[unit])


def content(window: Window, elements: Sequence[tuple], instant: int) -> list[Row]:
    """What is in the window at an instant. Elements come in timestamp order, ties as they arrived."""
    if window.kind == "table":
        return list(elements)
    if window.kind == "range" and window.slide is not None:
        instant = instant // window.slide * window.slide
    if window.kind == "hop":
        return _whole(window, elements, instant)
    if window.kind == "session":
        return [row for end, row in _sessions(window, elements) if end == instant]
    past = [e for e in elements if e[0] <= instant]
    if window.kind == "relation":
        return _folded(past)
    if window.kind == "range":
        return [row for ts, row in past if window.size is None or instant - window.size <= ts]
    groups: dict[tuple, list[Row]] = {}
    for _, row in past:
        groups.setdefault(tuple(value(row, key) for key in window.partition_by), []).append(row)
    return [row for group in groups.values() for row in _last(window, group)]


def _whole(window: Window, elements: Sequence[tuple], instant: int) -> list[Row]:
    """The rows of the last window that ended; windows begin at multiples of the slide."""
    latest = instant - window.size
    start = max(m for m in range(latest - window.slide, latest + 1) if m % window.slide == 0)
    bounds = {"window_start": start, "window_end": start + window.size}
    return [{**row, **bounds} for ts, row in elements if start <= ts < start + window.size]


def _sessions(window: Window, elements: Sequence[tuple]) -> list[tuple[int, Row]]:
    """The rows of every session, each with the session's end."""
    keys = {tuple(normalise(value(row, k) for k in window.partition_by)) for _, row in elements}
    found: list[tuple[int, Row]] = []
    for key in keys:
        mine = [e for e in elements if tuple(normalise(value(e[1], k) for k in window.partition_by)) == key]
        while mine:
            count = 1
            while count < len(mine) and mine[count][0] < mine[count - 1][0] + window.size:
                count += 1
            bounds = {"window_start": mine[0][0], "window_end": mine[count - 1][0] + window.size}
            found += [(bounds["window_end"], {**row, **bounds}) for _, row in mine[:count]]
            mine = mine[count:]
    return found


def _last(window: Window, rows: list[Row]) -> list[Row]:
    """The last rows of a partition, as of the last multiple of the slide."""
    arrived = len(rows) if window.slide is None else len(rows) // window.slide * window.slide
    first = 0 if window.size is None else max(arrived - window.size, 0)
    return rows[first:arrived]


def _folded(changes: Sequence[Change]) -> list[Row]:
    bag: Counter = Counter()
    for _, sign, row in changes:
        bag[tuple(zip(row, normalise(row.values()), strict=True))] += 1 if sign == "+" else -1
    if any(count < 0 for count in bag.values()):
        raise ValueError(f"a row leaves that is not there: {bag}")
    return [dict(items) for items in bag.elements()]


def moves(window: Window, elements: Sequence[tuple], start: int, end: int) -> set[int]:
    """The instants from start to end at which the content may change."""
    if window.kind == "table":
        return set()
    if window.kind == "session":
        ends = {ts + window.size for ts, _ in elements}
        return {t for e in ends for t in (e, e + 1) if t <= end}
    if window.kind == "hop":
        return {t for t in range(start, end + 1) if (t - window.size) % window.slide == 0}
    if window.kind == "range" and window.slide is not None:
        return set(range(-(-start // window.slide) * window.slide, end + 1, window.slide))
    stamps = {e[0] for e in elements}
    if window.kind == "range" and window.size is not None:
        stamps |= {ts + window.size + 1 for ts in stamps}
    return {t for t in stamps if t <= end}


def by_columns(elements: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Elements of equal timestamps in the order of their columns, NULLs first and NaN last."""

    def rank(found: Any) -> tuple:
        return (0,) if found is None else (2,) if found != found else (1, found)

    return sorted(elements, key=lambda e: (e[0], *map(rank, normalise(e[1].values()))))


def settle(window: Window, elements: list[tuple[int, Row]], instants: Iterable[int]) -> None:
    """Refuse a row window whose content depends on the order of elements that have none.

    Of each instant's elements, sorted, every rotation is tried, one instant at a time: if they differ and
    some are in the window, one of the rotations has others in it.
    """
    if window.kind != "rows" or (window.size is None and window.slide is None):
        return
    there = sorted(elements, key=lambda e: (e[0], repr(tuple(e[1].values()))))
    ties = [list(tied) for _, tied in groupby(there, key=lambda e: e[0])]
    rotations = [
        [e for tied in (*ties[:at], some[by:] + some[:by], *ties[at + 1 :]) for e in tied]
        for at, some in enumerate(ties)
        for by in range(len(some))
    ]
    for instant in instants:
        bags = [_bag(content(window, rotated, instant)) for rotated in rotations]
        if any(bag != bags[0] for bag in bags):
            raise Undetermined(f"{window} at {instant}")


def _bag(rows: Iterable[Row]) -> Counter:
    return Counter(normalise(row.values()) for row in rows)


def value(row: Row, name: str) -> Any:
    """A column's value, its name in any case."""
    if name not in row:
        row = {k.lower(): v for k, v in row.items()}
        name = name.lower()
    found = row.get(name)
    return NAN if isinstance(found, float) and math.isnan(found) else found


def normalise(values: Iterable[Any]) -> tuple:
    """Values in one form, whoever computed them: one NaN, no minus zero, times without a zone."""
    return tuple(map(_normal, values))


def _normal(value: Any) -> Any:
    if isinstance(value, list):
        return normalise(value)
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dt.datetime):  # all times are in UTC
        return value.replace(tzinfo=None)
    return value
