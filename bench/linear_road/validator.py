"""What Linear Road must answer, computed from the definition in plain Python over the whole input.

It shares nothing with the engine: no query, no operator, no library. It reads the files, goes through the
rows second by second, and writes down every answer; ``differences`` compares them with files of answers.

The definition, with each rounding:

- Minute m of time t is floor(t / 60) + 1. Reports of all lanes count.
- The mean speed of a car in a segment and minute, the mean of these over cars, and the mean of those over
  the minutes m - 5 to m - 1 that had cars (LAV) are each the exact mean, rounded to a DOUBLE. LAV is told
  rounded down.
- A car has stopped while its last four reports have the same xway, direction, lane, segment and position.
  An accident is in a segment while two cars have stopped at one place of it, as of the end of each
  second.
- In minute m an accident counts that was detected before the minute began and not cleared before then.
- The toll is 2 (cars - 50)^2 if LAV < 40, cars(m - 1) > 50 and no accident counts in the segment or the next
  four downstream; else 0. It is told with the first report from a
  segment, unless from lane 4, and charged with the first report from another segment. A car that reports
  from lane 4 of the segment exits there: it is not charged, and its next report begins a new trip.
- Told with an accident ahead: the segment of the nearest one.
- A balance is the sum of what was charged up to the second of the request, included; expenditures are
  from the history, 0 if it has no row.
"""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from pathlib import Path

Row = tuple[int, ...]
Segment = tuple[int, int, int]
HEADERS = {
    "tolls": ("time", "vid", "lav", "toll"),
    "accidents": ("time", "vid", "segment"),
    "balances": ("time", "qid", "result_time", "balance"),
    "expenditures": ("time", "qid", "amount"),
}


def expected(rows: Iterable[Sequence[int]], history: Iterable[Sequence[int]]) -> dict[str, list[Row]]:
    """All answers by kind; rows are in order of time."""
    tolls = {(vid, day, xway): toll for vid, day, xway, toll in history}
    road = _Road(tolls)
    for time, some in groupby(rows, key=lambda row: row[1]):
        road.second(time, list(some))
    return road.answers


class _Road:
    def __init__(self, history: dict[tuple[int, int, int], int]) -> None:
        self.answers: dict[str, list[Row]] = {kind: [] for kind in HEADERS}
        self._history = history
        self._traffic = _Traffic()
        self._accidents = _Accidents()
        self._where: dict[int, tuple[Segment, bool]] = {}
        self._told: dict[int, int] = {}
        self._balance: Counter[int] = Counter()

    def second(self, time: int, rows: list[Sequence[int]]) -> None:
        """All rows of a second: reports first, since answers are as of its end."""
        minute = time // 60 + 1
        self._accidents.advance(time)
        for row in rows:
            if row[0] == 0:
                self._report(time, minute, row)
        self._accidents.note(time)
        for kind, _, vid, *rest in rows:
            qid, xway, day = rest[6], rest[1], rest[11]
            if kind == 2:
                self.answers["balances"].append((time, qid, time, self._balance[vid]))
            elif kind == 3:
                self.answers["expenditures"].append((time, qid, self._history.get((vid, day, xway), 0)))

    def _report(self, time: int, minute: int, row: Sequence[int]) -> None:
        _, _, vid, speed, xway, lane, direction, segment, position, *_ = row
        here, exits = (xway, direction, segment), lane == 4
        self._traffic.add(minute, here, vid, speed)
        self._accidents.report(vid, (xway, direction, lane, segment, position))
        there = self._where.get(vid)
        self._where[vid] = (here, exits)
        if there == (here, exits):
            return
        told = self._told.pop(vid, 0)
        if there is not None and there[0] != here:
            self._balance[vid] += told
        if exits:
            return
        lav, toll = self._toll(minute, here)
        self._told[vid] = toll
        self.answers["tolls"].append((time, vid, math.floor(lav), toll))
        accident = self._ahead(minute, here)
        if accident is not None:
            self.answers["accidents"].append((time, vid, accident))

    def _toll(self, minute: int, here: Segment) -> tuple[float, int]:
        lav = self._traffic.velocity(minute, here)
        if lav is None:
            return 0, 0
        cars = self._traffic.cars(minute - 1, here)
        free = lav >= 40 or cars <= 50 or self._ahead(minute, here) is not None
        return lav, 0 if free else 2 * (cars - 50) ** 2

    def _ahead(self, minute: int, here: Segment) -> int | None:
        xway, direction, segment = here
        for n in range(5):
            ahead = segment + n if direction == 0 else segment - n
            if (xway, direction, ahead) in self._accidents.minutes[minute]:
                return ahead
        return None


class _Traffic:
    def __init__(self) -> None:
        self._speeds: dict[tuple[int, Segment], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._means: dict[tuple[int, Segment], float | None] = {}
        self._velocities: dict[tuple[int, Segment], float | None] = {}

    def add(self, minute: int, here: Segment, vid: int, speed: int) -> None:
        self._speeds[minute, here][vid].append(speed)

    def cars(self, minute: int, here: Segment) -> int:
        return len(self._speeds[minute, here]) if (minute, here) in self._speeds else 0

    def velocity(self, minute: int, here: Segment) -> float | None:
        """The LAV; None if the last five minutes had no cars."""
        if (minute, here) not in self._velocities:
            several = [self._mean(m, here) for m in range(minute - 5, minute)]
            self._velocities[minute, here] = _mean([s for s in several if s is not None])
        return self._velocities[minute, here]

    def _mean(self, minute: int, here: Segment) -> float | None:
        if (minute, here) not in self._means:
            cars = self._speeds[minute, here].values() if (minute, here) in self._speeds else ()
            self._means[minute, here] = _mean([sum(c) / len(c) for c in cars])
        return self._means[minute, here]


def _mean(values: list[float]) -> float | None:
    return float(sum(map(Fraction, values), Fraction()) / len(values)) if values else None


class _Accidents:
    """``minutes``: by minute the segments with an accident as it began, before its first second's reports."""

    def __init__(self) -> None:
        self.minutes: dict[int, set[Segment]] = defaultdict(set)
        self._last: dict[int, list[Row]] = defaultdict(list)
        self._stopped: dict[Row, set[int]] = defaultdict(set)
        self._now: set[Segment] = set()
        self._noted = 0

    def report(self, vid: int, place: Row) -> None:
        last = self._last[vid]
        was = last[0] if len(last) == 4 and len(set(last)) == 1 else None
        last.append(place)
        del last[:-4]
        now = place if len(last) == 4 and len(set(last)) == 1 else None
        if was != now:
            if was is not None:
                self._stopped[was].discard(vid)
            if now is not None:
                self._stopped[now].add(vid)

    def note(self, time: int) -> None:
        """The reports of a second are in: what there is holds until the next one."""
        places = [place for place, cars in self._stopped.items() if len(cars) >= 2]
        self._now = {(xway, direction, segment) for xway, direction, _, segment, _ in places}
        self._noted = time

    def advance(self, time: int) -> None:
        """Nothing changed since the second that was noted: minutes that began since have what it had."""
        for minute in range(self._noted // 60 + 2, time // 60 + 2):
            self.minutes[minute] = self._now
        self._stopped = defaultdict(set, {place: cars for place, cars in self._stopped.items() if cars})


def read_numbers(path: str | Path, header: bool = False) -> Iterator[Row]:
    """Rows of whole numbers."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        if header:
            next(rows)
        for row in rows:
            if row:
                yield tuple(map(int, row))


def differences(answers: dict[str, list[Row]], directory: str | Path, most: int = 10) -> list[str]:
    """How files of answers differ from the expected ones: missing and surplus rows, at most so many each."""
    found = []
    for kind, header in HEADERS.items():
        path = Path(directory) / f"{kind}.csv"
        with open(path) as file:
            first = file.readline().strip()
        if first != ",".join(header):
            found.append(f"{kind}: the header is {first!r}, not {','.join(header)!r}")
        want, have = Counter(answers[kind]), Counter(read_numbers(path, header=True))
        for what, some in (("missing", want - have), ("surplus", have - want)):
            rows = sorted(some.elements())
            found += [f"{kind}: {what} {row}" for row in rows[:most]]
            if len(rows) > most:
                found.append(f"{kind}: {len(rows) - most} more {what}")
    return found
