"""Which declarations help if rows are distributed unevenly or arrive late, from a query's measurements.

A key with more than a partition's share of a stream's rows (1 / P of P partitions) keeps that partition busy
while others wait, however many there are. The measurements of all engines are summed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.measurement import Kind, Measurements, Property, name_of
from penstock.streamon.heavy_hitters import NULL
from penstock.streamon.settings import HEAVY_PART, UNEVEN

Length = Callable[[str, int], str]
"""Writes a length of time in ticks of a query, by its run, as CQL does: the driver knows what a tick is."""


def in_ticks(query: str, ticks: int) -> str:
    """A length of time of a query whose unit is not known."""
    return f"{ticks:,} ticks"


@dataclass(frozen=True)
class Skew:
    """How evenly the rows of an input are distributed over the partitions of a stage.

    ``rows`` is the number of rows that each partition received; ``busiest`` is the largest of them relative
    to an even share. ``heavy`` are the most frequent keys, with their share of all rows. ``declare`` is the
    clause that splits those of them that keep a partition busy; empty if rows are distributed evenly.
    """

    query: str
    stage: int
    input: str
    rows: dict[int, int]
    busiest: float
    heavy: dict[str, float]
    declare: str

    @property
    def advice(self) -> str:
        """What to do, as a sentence; empty if there is nothing to do."""
        if not self.declare:
            return ""
        value, part = next(iter(self.heavy.items()))
        most = max(self.rows.values()) / sum(self.rows.values())
        return (
            f"{value} is the key of {part:.0%} of the rows of {self.input!r}, and one partition of "
            f"{len(self.rows)} gets {most:.0%} of them: declare the stream with {self.declare} "
            "and start the query with a new checkpoint; explain then says how the key is split, or why not"
        )


def skew(found: Measurements) -> list[Skew]:
    """For each input of each stage the rows that each partition has received, and the most frequent keys."""
    inputs: dict[tuple[str, int, str], dict[int, Measurements]] = {}
    for (query, stage, partition), engine in found.by_engine().items():
        for entity, own in engine.of_kind(Kind.INPUT).by_entity().items():
            if own.has(Property.RECEIVED):
                inputs.setdefault((query, stage, entity), {})[partition] = own
    return [_skew(*place, partitions) for place, partitions in sorted(inputs.items())]


def _skew(query: str, stage: int, entity: str, partitions: dict[int, Measurements]) -> Skew:
    rows = {p: int(own.value(Property.RECEIVED)) for p, own in partitions.items()}
    total = sum(rows.values())
    busiest = max(rows.values()) * len(rows) / total if total else 1.0
    counts: Counter[str] = Counter()
    for p, own in partitions.items():
        for key, part in own.values(Property.HEAVY_SHARE).items():
            counts[key] += round(part * rows[p])
    heavy = {k: round(n / total, 3) for k, n in counts.most_common() if n > HEAVY_PART * total}
    too_many = [k for k, part in heavy.items() if part > 1 / len(rows) and k != NULL]
    clause = _clause(partitions[min(partitions)], too_many) if too_many and busiest > UNEVEN else ""
    return Skew(query, stage, name_of(entity), rows, round(busiest, 2), heavy, clause)


def _clause(own: Measurements, values: Iterable[str]) -> str:
    quoted = own.value(Property.KEY)
    literals = ["'" + v.replace("'", "''") + "'" if quoted else v for v in values]
    return f"HEAVY {own.text(Property.KEY)} IN ({', '.join(literals)})"


def held_back(found: Measurements) -> dict[tuple[str, str], tuple[float, str]]:
    """By query and input that holds results back: the time it stands at, and a sentence about it."""
    by_input: dict[tuple[str, str], list[Measurements]] = {}
    for (query, stage, _), engine in found.by_engine().items():
        own = engine.of_kind(Kind.ENGINE)
        if stage == 1 and own.has(Property.HELD_BACK_BY) and own.value(Property.WAITING):
            by_input.setdefault((query, own.text(Property.HELD_BACK_BY)), []).append(own)
    return {place: _held_back(place[1], engines) for place, engines in sorted(by_input.items())}


def _held_back(name: str, engines: list[Measurements]) -> tuple[float, str]:
    waiting = sum(int(own.value(Property.WAITING)) for own in engines)
    return max(own.value(Property.STREAM_TIME) for own in engines), (
        f"{waiting:,} row{'s' * (waiting != 1)} wait{'s' * (waiting == 1)} for {name!r}, which holds the "
        "results back until it sends something newer: if it is silent, repair its source, declare it with "
        "IDLE AFTER, or let it send heartbeats"
    )


def late_rows(found: Measurements) -> dict[tuple[str, str], int]:
    """How many rows came too late, per query and input."""
    counts: Counter[tuple[str, str]] = Counter()
    for m in found.of_kind(Kind.INPUT).of(Property.LATE):
        counts[m.query, name_of(m.entity)] += int(m.value)
    return dict(counts)


def late(found: Measurements, length: Length = in_ticks) -> dict[tuple[str, str], str]:
    """A sentence per query and input with late rows."""
    counts, seen = late_rows(found), dict[tuple[str, str], int]()
    for m in found.of(Property.DISORDER):
        seen[m.query, name_of(m.entity)] = int(m.value)
    kept = {m.query for m in found.of(Property.LATE_ROWS_KEPT) if m.value}
    return {
        (query, name): _late(name, rows, query in kept, length(query, seen.get((query, name), 0)))
        for (query, name), rows in sorted(counts.items())
        if rows
    }


def _late(name: str, rows: int, kept: bool, disorder: str) -> str:
    came = "row of {} came too late and was" if rows == 1 else "rows of {} came too late and were"
    others = "read such" if kept else "keep such"
    by = f"ps.late_rows({name!r})" if kept else "SET penstock.late_rows = 'directory'"
    return (
        f"{rows:,} {came.format(repr(name))} left out: declare a larger DISORDER "
        f"(up to {disorder} were seen) or AUTO, or {others} rows by {by}"
    )


def left_out(found: Measurements, length: Callable[[int], str]) -> str:
    """A sentence on what a run that has ended leaves out; "" if nothing. ``length`` gives ticks as CQL."""
    seen = found.of(Property.INCOMPLETE)
    named = {instant for m in seen for instant in m.text.split()}
    least = max([len(named), *(int(m.value) for m in seen if not m.text)])
    if not least:
        return ""
    one, some = least == 1, "" if all(m.text for m in seen) else "at least "
    said = f"{some}{least:,} instant{'' if one else 's'} {'was' if one else 'were'} not complete"
    results = int(found.total(Property.HELD_RESULTS))
    ahead = int(max((m.value for m in found.of(Property.AHEAD)), default=0))
    if results:
        are = "result of it was" if results == 1 else f"results of {'it' if one else 'them'} were"
        said += f", and {results:,} {are} held back"
    how = "penstock run --complete, or SET penstock.at_end = 'complete', shows"
    if ahead:
        how = f"SET penstock.at_end = '{length(ahead)}' shows"
    return f"{said}; {how} {'it' if one else 'them'}"


def violated(found: Measurements) -> dict[tuple[str, str], str]:
    """A sentence per query and declared constraint that rows were seen to violate."""
    counts: Counter[tuple[str, str]] = Counter()
    for m in found.of(Property.VIOLATIONS):
        counts[m.query, m.text] += int(m.value)
    return {place: _violated(place[1], rows) for place, rows in sorted(counts.items()) if rows}


def _violated(constraint: str, rows: int) -> str:
    times = "once" if rows == 1 else f"{rows:,} times"
    return (
        f"a declared constraint was seen violated {times}: {constraint}. Results may be missing; declare "
        "what holds (a larger WITHIN, or no constraint), or SET penstock.constraints = 'off'"
    )
