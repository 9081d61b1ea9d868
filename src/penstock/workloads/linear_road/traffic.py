"""Cars on expressways, second by second.

A car enters by a ramp, reports every 30 seconds and exits by a ramp. The cars that report in a second are
those that entered in the same second of the period, so the cars are kept in 30 groups, and a second of
traffic is a few array operations on one of them.

- The rate of reports per expressway grows evenly from ``first_rate`` to ``last_rate``: as many cars enter as
  that needs. A share of them, ``downtown``, enters within a few segments around the middle.
- Cars drive the more slowly the more there are in their segment: 60 mph up to 25 cars, 30 mph at 60 cars.
- Two cars collide from time to time: both stand at the same place and report from there until it is cleared.
  Up to four segments before it the other cars drive at half their speed, and some take the next exit.
- A share of the cars that enter has been on the road before, at least five minutes ago.
- One report in a hundred comes with a request for a balance (five of six) or an expenditure; with
  ``travel_times`` half, a tenth, and the rest are requests for travel times.

The same parameters give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.workloads.linear_road.layout import (
    BALANCE,
    COLUMNS,
    ENTRY_LANE,
    EXIT_LANE,
    EXPENDITURE,
    FEET,
    FEET_PER_REPORT,
    HISTORY_SCHEMA,
    PERIOD,
    REPORT,
    SCHEMA,
    SEGMENTS,
    TRAVEL_TIME,
    UNUSED,
)

_LENGTH = SEGMENTS * FEET
_FULL_RATE_S = 3 * 3600
"""The benchmark's length, after which the rate is ``last_rate``."""
_MEAN_TRIP = 8
"""Segments between ramps, in the mean."""
_RETURNING = 0.2
_AWAY_S = 300
"""Of the cars that enter, the share that has been there before, and for how long they stay away at least."""
_ZONE = 4
"""Segments before an accident in which cars slow down."""
_AVOIDING = 0.1
"""Of the reports in such a zone, the share after which the car takes the next exit."""
_REQUESTS = 0.01
_DAYS = 69
_MAX_SPEED = 99


class Cars(NamedTuple):
    """Cars of one group. ``odometer``: feet from the beginning of the expressway in the car's direction.

    A car stands until second ``until`` at ``odometer`` in ``lane`` if that is later than now.
    """

    vid: np.ndarray
    road: np.ndarray
    odometer: np.ndarray
    exit: np.ndarray
    lane: np.ndarray
    until: np.ndarray

    def where(self, mask: np.ndarray) -> Cars:
        return Cars(*(column[mask] for column in self))


def _no_cars() -> Cars:
    return Cars(*(np.zeros(0, np.int32) for _ in Cars._fields))


class _Accident(NamedTuple):
    cells: slice
    until: int


@dataclass(frozen=True)
class LinearRoad:
    """Traffic on ``expressways`` for ``seconds``.

    Rates are reports per second and expressway; the benchmark's grow to 1,700 in three hours, and
    ``rate_seconds`` is the time in which they grow. ``accidents`` begin per hour and expressway; ``standing``
    is the shortest and longest time in seconds for which cars stand. ``spread``: the standard deviation in
    segments of where cars enter downtown. ``history``: of how many days tolls are known of every car.
    """

    expressways: int = 1
    seconds: int = _FULL_RATE_S
    seed: int = 1
    first_rate: float = 15.0
    last_rate: float = 1700.0
    rate_seconds: int = _FULL_RATE_S
    downtown: float = 0.4
    spread: float = 8.0
    accidents: float = 3.0
    standing: tuple[int, int] = (300, 900)
    travel_times: bool = False
    history: int = 5

    def batches(self, seconds: int = 60) -> Iterator[pa.RecordBatch]:
        """The rows in order of time, ``seconds`` of them at a time."""
        traffic = _Traffic(self)
        for start in range(0, self.seconds, seconds):
            parts = [traffic.second(t) for t in range(start, min(start + seconds, self.seconds))]
            columns = np.concatenate(parts, axis=1)
            yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=SCHEMA)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(600), SCHEMA)

    def history_of(self, cars: int) -> pa.Table:
        """Tolls of earlier days: of each of the first ``cars`` cars ``history`` days, on some expressway."""
        vid, number = np.repeat(np.arange(cars), self.history), np.tile(np.arange(self.history), cars)
        toll = np.random.default_rng((self.seed, 2)).integers(0, 100, len(vid))
        columns = [vid, *self.earlier(vid, number), toll]
        return pa.table([pa.array(c.astype(np.int32)) for c in columns], schema=HISTORY_SCHEMA)

    def earlier(self, vid: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The day and expressway of a car's toll of this number: a car's days differ."""
        step = max(1, _DAYS // max(1, self.history))
        return (37 * vid + step * number) % _DAYS + 1, (31 * vid + 7 * number) % self.expressways

    def rate(self, second: int) -> float:
        """Reports per second and expressway."""
        return self.first_rate + (self.last_rate - self.first_rate) * min(1.0, second / self.rate_seconds)


class _Traffic:
    """The cars of all groups, and which segments are dense or near an accident.

    A *road* is one direction of an expressway: twice the expressway's number, plus the direction. A *cell* is
    a segment of a road as the cars count them: 0 where the road begins.
    """

    def __init__(self, workload: LinearRoad) -> None:
        self._is, self._die = workload, np.random.default_rng((workload.seed, 1))
        cells = 2 * SEGMENTS * workload.expressways
        self._groups = [_no_cars() for _ in range(PERIOD)]
        self._seen = np.zeros((PERIOD, cells), np.int32)
        self._cars_in = np.zeros(cells, np.int32)
        self._slow = np.zeros(cells, np.bool_)
        self._accidents: list[_Accident] = []
        self._next_accident = self._die.uniform(0.5, 1.5, workload.expressways) * self._between
        self._next_vid, self._next_qid = 0, 1
        self._left: list[tuple[int, np.ndarray]] = []

    @property
    def _between(self) -> float:
        """Seconds between the beginnings of two accidents on an expressway."""
        return 3600 / self._is.accidents if self._is.accidents else float("inf")

    def second(self, t: int) -> np.ndarray:
        """The rows of a second, a row of the array for each column."""
        group = t % PERIOD
        cars, speed = self._driven(self._groups[group], t)
        new = self._entering(cars, t)
        speed = np.concatenate([speed, self._die.integers(15, 40, len(new.vid), dtype=np.int32)])
        cars = Cars(*map(np.concatenate, zip(cars, new, strict=True)))
        cell = _cells(cars)
        here = np.bincount(cell, minlength=len(self._cars_in)).astype(np.int32)
        self._cars_in += here - self._seen[group]
        self._seen[group] = here
        rows = self._rows(cars, speed, t)
        staying = cars.lane != EXIT_LANE
        self._left.append((t, cars.vid[~staying]))
        self._groups[group] = cars.where(staying)
        self._collide(group, t)
        return rows

    def _driven(self, cars: Cars, t: int) -> tuple[Cars, np.ndarray]:
        """Each car where it is now, and its speed."""
        self._clear(t)
        cell, count = _cells(cars), len(cars.vid)
        speed = _speed(self._cars_in[cell]) * self._die.uniform(0.85, 1.15, count)
        near = self._slow[cell]
        speed = np.clip(np.where(near, speed / 2, speed), 5, _MAX_SPEED).astype(np.int32)
        standing = cars.until > t
        speed[standing] = 0
        exit = np.where(near & ~standing & (self._die.random(count) < _AVOIDING), cars.odometer, cars.exit)
        odometer = cars.odometer + speed * FEET_PER_REPORT
        exits = (odometer >= exit) & ~standing
        odometer = np.where(exits, np.minimum(odometer, (exit // FEET + 1) * FEET - 1), odometer)
        entered = cars.lane == ENTRY_LANE
        lane = np.where(entered, self._die.integers(1, EXIT_LANE, count), cars.lane)
        lane[exits] = EXIT_LANE
        return Cars(cars.vid, cars.road, odometer, exit, lane.astype(np.int32), cars.until), speed

    def _entering(self, cars: Cars, t: int) -> Cars:
        wanted = round(self._is.rate(t))
        there = np.bincount(cars.road >> 1, minlength=self._is.expressways)
        number = np.maximum(wanted - there, 0)
        count, die = int(number.sum()), self._die
        road = 2 * np.repeat(np.arange(self._is.expressways, dtype=np.int32), number)
        middle = np.rint(die.normal((SEGMENTS - 1) / 2, self._is.spread, count))
        segment = np.where(die.random(count) < self._is.downtown, middle, die.integers(0, SEGMENTS, count))
        segment = np.clip(segment, 0, SEGMENTS - 1)
        odometer = segment * FEET + die.integers(0, FEET // 2, count)
        last = np.minimum(segment + die.geometric(1 / _MEAN_TRIP, count), SEGMENTS - 1)
        exit = np.maximum(last * FEET + die.integers(0, FEET, count), odometer + 1)
        columns = [
            self._vids(count, t), road + die.integers(0, 2, count), odometer, np.minimum(exit, _LENGTH - 1),
            np.full(count, ENTRY_LANE), np.zeros(count),
        ]  # fmt: skip
        return Cars(*(c.astype(np.int32) for c in columns))

    def _vids(self, count: int, t: int) -> np.ndarray:
        """Numbers of cars, of which some left long ago."""
        back, missing = [], round(count * _RETURNING)
        while missing and self._left and self._left[0][0] <= t - _AWAY_S:
            when, vids = self._left.pop(0)
            back.append(vids[:missing])
            missing -= len(back[-1])
            if not missing:
                self._left.insert(0, (when, vids[len(back[-1]) :]))
        returning = np.concatenate(back) if back else np.zeros(0, np.int32)
        fresh = count - len(returning)
        self._next_vid += fresh
        return np.concatenate([returning, np.arange(self._next_vid - fresh, self._next_vid)])

    def _rows(self, cars: Cars, speed: np.ndarray, t: int) -> np.ndarray:
        count, die = len(cars.vid), self._die
        asking = np.flatnonzero(die.random(count) < _REQUESTS)
        rows = np.full((len(COLUMNS), count + len(asking)), UNUSED, np.int32)
        direction = cars.road & 1
        position = np.where(direction == 0, cars.odometer, _LENGTH - 1 - cars.odometer)
        rows[0, :count], rows[1] = REPORT, t
        rows[2:9, :count] = cars.vid, speed, cars.road >> 1, cars.lane, direction, position // FEET, position
        self._request(rows[:, count:], cars.where(asking))
        return rows

    def _request(self, rows: np.ndarray, cars: Cars) -> None:
        count, die = rows.shape[1], self._die
        shares = (0.5, 0.1, 0.4) if self._is.travel_times else (5 / 6, 1 / 6, 0)
        kind = die.choice((BALANCE, EXPENDITURE, TRAVEL_TIME), count, p=shares)
        rows[0], rows[2], rows[9] = kind, cars.vid, np.arange(self._next_qid, self._next_qid + count)
        self._next_qid += count
        # Half of the days are some of which there are tolls, if there are any.
        number = np.asarray(die.integers(0, max(1, self._is.history), count))
        days, xways = self._is.earlier(cars.vid, number)
        known = die.random(count) < 0.5
        days = np.where(known, days, die.integers(1, _DAYS + 1, count))
        rows[14] = np.where(kind == EXPENDITURE, days, UNUSED)
        xways = np.where(known & (kind == EXPENDITURE), xways, cars.road >> 1)
        rows[4] = np.where(kind == BALANCE, UNUSED, xways)
        drawn = die.integers((0, 0, 1, 0), (SEGMENTS, SEGMENTS, 8, 1440), (count, 4)).T
        rows[10:14] = np.where(kind == TRAVEL_TIME, drawn, UNUSED)

    def _collide(self, group: int, t: int) -> None:
        """Stop two cars at one place on every expressway whose next accident is due, if two are near."""
        for xway in np.flatnonzero(self._next_accident <= t):
            if self._stop_two(group, int(xway), t):
                self._next_accident[xway] = t + self._die.uniform(0.5, 1.5) * self._between

    def _stop_two(self, group: int, xway: int, t: int) -> bool:
        """Stop a car of the group, and at its place one of the next group with a car close behind it."""
        first = self._groups[group]
        driving = (first.road >> 1 == xway) & (first.lane != ENTRY_LANE) & (first.until <= t)
        for one in self._die.permutation(np.flatnonzero(driving))[:5]:
            for later in range(1, PERIOD):
                second = self._groups[(group + later) % PERIOD]
                behind = first.odometer[one] - second.odometer
                near = (second.road == first.road[one]) & (behind >= 0) & (behind < FEET // 2)
                near &= (
                    (second.lane != ENTRY_LANE) & (second.until <= t) & (second.exit > first.odometer[one])
                )
                if near.any():
                    self._stop(first, int(one), second, int(np.flatnonzero(near)[0]), t)
                    return True
        return False

    def _stop(self, first: Cars, one: int, second: Cars, other: int, t: int) -> None:
        until = t + int(self._die.integers(*self._is.standing, endpoint=True))
        first.until[one] = second.until[other] = until
        second.odometer[other] = first.odometer[one]
        second.lane[other] = first.lane[one]
        cell = int(first.road[one]) * SEGMENTS + int(first.odometer[one]) // FEET
        road = cell // SEGMENTS * SEGMENTS
        self._accidents.append(_Accident(slice(max(road, cell - _ZONE), cell + 1), until))
        self._slow[self._accidents[-1].cells] = True

    def _clear(self, t: int) -> None:
        if any(a.until <= t for a in self._accidents):
            self._accidents = [a for a in self._accidents if a.until > t]
            self._slow[:] = False
            for accident in self._accidents:
                self._slow[accident.cells] = True


def _cells(cars: Cars) -> np.ndarray:
    return cars.road * SEGMENTS + cars.odometer // FEET


def _speed(cars: np.ndarray) -> np.ndarray:
    """Miles per hour by the number of cars in a segment."""
    return np.interp(cars, (25, 60, 120, 400), (60, 30, 15, 8))
