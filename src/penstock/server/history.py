"""History of measurements in bounded memory: recent samples one by one, older ones as means.

Values are totals over partitions, in the same way as a plan shows them.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping

from penstock.measurement import Kind, Measurements, Property
from penstock.server.plans import combined, node_id
from penstock.server.settings import COARSE_S, COARSE_STEP_S, FINE_S, MOST_SERIES
from penstock.server.views import SeriesView

BUSY = "busy"
"""The share of wall time that an operator ran: of the partition where it ran most."""
_CHARTED = {
    Kind.ENGINE: (
        Property.BYTES, Property.ROWS, Property.WAITING, Property.QUEUE_PEAK, Property.STEP_SECONDS,
        Property.LATENCY, Property.OVERFLOWED,
    ),
    Kind.INPUT: (Property.THROUGHPUT, Property.LATE, Property.BEHIND),
    Kind.OPERATOR: (Property.THROUGHPUT, Property.SELECTIVITY, Property.BYTES, Property.MATCHES_PER_PROBE),
    Kind.ROOT: (Property.THROUGHPUT, Property.LATENCY),
    Kind.STORE: (Property.ROWS, Property.BYTES),
    Kind.CACHE: (Property.HITS, Property.MISSES, Property.BYTES),
    Kind.ADAPTIVE: (Property.MEASURED_RECALL, Property.EXPECTED_RECALL, Property.CHANGES, Property.PROFILED),
}  # fmt: skip
"""What is kept of each kind of entity."""


class Series:
    """Times and values; means take the place of samples that are older than ``FINE_S``."""

    def __init__(self) -> None:
        self._times, self._values = array("d"), array("d")
        self._old_times, self._old_values = array("d"), array("d")

    def add(self, time: float, value: float) -> None:
        """Add the next sample; one that is not later than the last is left out."""
        if self._times and time <= self._times[-1]:
            return
        self._times.append(time)
        self._values.append(value)
        if time - self._times[0] >= FINE_S + COARSE_STEP_S:
            self._fold()

    def _fold(self) -> None:
        """Replace the oldest samples by their mean."""
        upto = max(1, bisect_left(self._times, self._times[0] + COARSE_STEP_S))
        self._old_times.append(sum(self._times[:upto]) / upto)
        self._old_values.append(sum(self._values[:upto]) / upto)
        del self._times[:upto], self._values[:upto]
        gone = bisect_left(self._old_times, self._times[-1] - COARSE_S)
        del self._old_times[:gone], self._old_values[:gone]

    def since(self, time: float) -> tuple[list[float], list[float]]:
        """The samples after a time."""
        times, values = [*self._old_times, *self._times], [*self._old_values, *self._values]
        first = bisect_left(times, time)
        return times[first:], values[first:]

    @property
    def last(self) -> float:
        return self._values[-1] if self._values else 0.0


class History:
    """Series by query, node and property (with the text after ``:`` where a property has several)."""

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, str, str], Series] = OrderedDict()
        self._seconds: dict[tuple[str, str, int], tuple[float, float]] = {}
        self._busy: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
        self._lock = threading.Lock()

    def observe(self, run: str, found: Measurements) -> None:
        """Take in the latest measurements of a query's engines."""
        with self._lock:
            self._observe_busy(run, found)
            values: dict[tuple[str, str], tuple[Property, list[float]]] = {}
            for m in found:
                if m.property in _CHARTED.get(m.kind, ()):
                    name = f"{m.property}:{m.text}" if m.text else str(m.property)
                    place = node_id(m.stage, m.entity), name
                    values.setdefault(place, (m.property, []))[1].append(m.value)
            time = max((m.time for m in found), default=0) / 1e6
            for (node, name), (prop, each) in values.items():
                self._at(run, node, name).add(time, combined(prop, each))

    def _observe_busy(self, run: str, found: Measurements) -> None:
        """Compare the seconds that operators ran with those that have passed."""
        most: dict[str, tuple[float, float]] = {}
        for m in found:
            if m.property is not Property.SECONDS or m.kind is not Kind.OPERATOR:
                continue
            place, time = (run, node_id(m.stage, m.entity), m.partition), m.time / 1e6
            before = self._seconds.get(place)
            if before is not None and before[0] >= time:
                continue
            self._seconds[place] = time, m.value
            if before is not None and m.value >= before[1]:
                share = min(1.0, (m.value - before[1]) / (time - before[0]))
                self._busy[run][place[1], m.partition] = share
                most[place[1]] = time, max(share, most.get(place[1], (0.0, 0.0))[1])
        for node, (time, share) in most.items():
            self._at(run, node, BUSY).add(time, share)

    def note(self, run: str, node: str, name: str, time: float, value: float) -> None:
        """Add a sample that is no measurement of an engine."""
        with self._lock:
            self._at(run, node, name).add(time, value)

    def _at(self, run: str, node: str, name: str) -> Series:
        key = run, node, name
        if key not in self._series:
            while len(self._series) >= MOST_SERIES:
                self._series.popitem(last=False)
            self._series[key] = Series()
        self._series.move_to_end(key)
        return self._series[key]

    def busy(self, run: str) -> Mapping[tuple[str, int], float]:
        """By node and partition, the share of wall time that it ran of late."""
        with self._lock:
            return dict(self._busy.get(run, {}))

    def series(self, run: str, since: float = 0.0, node: str = "", name: str = "") -> list[SeriesView]:
        """The series of a query after a time, of one node or property if given."""
        with self._lock:
            return list(self._selected(run, since, node, name))

    def _selected(self, run: str, since: float, node: str, name: str) -> Iterator[SeriesView]:
        for (own, place, prop), series in self._series.items():
            if own == run and node in ("", place) and name in ("", prop, prop.partition(":")[0]):
                yield SeriesView(place, prop, _unit(prop), *series.since(since))

    def forget(self, runs: set[str]) -> None:
        """Keep only what belongs to these runs."""
        with self._lock:
            for key in [k for k in self._series if k[0] not in runs]:
                del self._series[key]
            self._seconds = {k: v for k, v in self._seconds.items() if k[0] in runs}
            for run in [r for r in self._busy if r not in runs]:
                del self._busy[run]

    def __len__(self) -> int:
        return len(self._series)


def _unit(name: str) -> str:
    base = name.partition(":")[0]
    return next((p.unit for p in Property if p == base), "share" if base == BUSY else "seconds")
