"""Load shedding: which tuples a join of two windows drops to stay within its budget.

A tuple that arrives may probe the other window, and may be kept for others to probe. If probes are scarce,
some tuples do not probe but are kept (unless tuples are dropped before the windows); if memory is scarce,
some are not kept but may probe. ``allocation.allocate`` divides the budget by the rates counted so far, in
stream time; the dropped tuples are chosen at random from a seed. So the same input in the same steps loses
the same tuples. A partition's budget is proportional to its share of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from penstock.approx.allocation import Allocation, Budget, allocate
from penstock.approx.settings import (
    LEAST_RATES_S,
    MIN_BURST_PROBES,
    OVERADMISSION,
    RATES_MEMORY_S,
    SLOTS_PER_ROW,
)
from penstock.budget import Within
from penstock.cost.model import Workload
from penstock.engine.joins.budget import Admitted, Arrivals, Results, Rows
from penstock.engine.kernels.shedding import admit
from penstock.engine.operator import Clock
from penstock.engine.snapshot import Stateful
from penstock.measurement import Kind, Property, Reading, under

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Shedding:
    """The budget of a join of two windows that last ``seconds``; ``strategy`` shares it between the sides.

    ``sizes`` are those of row windows, in rows of all partitions.
    """

    within: Within
    strategy: str
    seconds: tuple[float | None, float | None]
    ticks_per_second: int
    seed: int = 0
    sizes: tuple[int | None, int | None] = (None, None)

    def __str__(self) -> str:
        return f"within {self.within} ({self.strategy})"

    sampled = waits = False

    def start(self) -> Shedder:
        return Shedder(self)


class Shedder(Stateful):
    """Decides for each row of both inputs whether it probes and whether it is kept."""

    saved = (
        "_random", "_counts", "_time", "_newest", "_buckets", "_workload", "_allocation", "_share", "_rate",
        "_rows", "_entering", "_seen", "shed",
    )  # fmt: skip
    format = 2
    epoch, monitored = None, True

    def __init__(self, node: Shedding) -> None:
        self._node = node
        seeds = np.random.SeedSequence(node.seed).spawn(6)
        self._random = [np.random.default_rng(s) for s in seeds]
        self._counts, self._time = [0.0, 0.0], 0.0
        self._seen = [0, 0]
        self._newest: int | None = None
        self._buckets: list[np.ndarray | None] = [None, None]
        self._workload = Workload(0.0, 0.0, 0.0, 0.0)
        self._allocation = Allocation(0.0, 0.0, 0.0, 0.0)
        self._share = 1.0
        self._rate, self._rows = node.within.rate, node.within.rows
        self._entering = self._workload
        self.shed = {"rate": [0, 0], "memory": [0, 0]}

    def admit(
        self, arrivals: Sequence[Arrivals], begin: int, slot_bytes: float, clock: Clock
    ) -> list[Admitted]:
        starts = [a.starts for a in arrivals]
        self.arrived(starts, slot_bytes, clock.share)
        probing = [self.probing(i, s) for i, s in enumerate(starts)]
        return [Admitted(p, self.keeping(i, p)) for i, p in enumerate(probing)]

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        return Results(np.ones(len(ids[0]), np.bool_))

    def room(self, slot_bytes: float, clock: Clock) -> int | None:
        self._part(slot_bytes, clock.share)
        return self._rows

    def retain(self, held: Sequence[Rows], new: Sequence[Rows], now: int) -> list[tuple[Bools, Bools]]:
        """All but random rows, if there are still too many."""
        old = [np.ones(len(h), np.bool_) for h in held]
        # Without a limit also rows that have left: their results end with them.
        fresh = [n.ends >= now if self._rows is not None else np.ones(len(n), np.bool_) for n in new]
        sizes = [len(a) + int(b.sum()) for a, b in zip(old, fresh, strict=True)]
        for i, count in enumerate(self.surplus(sizes)):
            if count:
                there = np.concatenate([np.arange(len(old[i])), len(old[i]) + np.flatnonzero(fresh[i])])
                gone = self.choose_dropped(i, there, count)
                old[i][gone[gone < len(old[i])]] = False
                fresh[i][gone[gone >= len(old[i])] - len(old[i])] = False
        return list(zip(old, fresh, strict=True))

    def passed(self, now: int) -> None:
        """Nothing is learned by epochs."""

    def bytes(self) -> int:
        """It keeps no state per row."""
        return 0

    def arrived(self, starts: Sequence[Int64s], slot_bytes: float, share: float = 1.0) -> None:
        """Count arrivals and divide the budget again. ``slot_bytes``: bytes per row.

        ``share``: this partition's share of the budget.
        """
        every = np.concatenate(starts)
        if len(every):
            self._count(starts, int(every.min()), int(every.max()))
        self._part(slot_bytes, share)
        rates = [c / max(self._time, LEAST_RATES_S) for c in self._counts]
        holds = [self._holds(i, rate, share) for i, rate in enumerate(rates)]
        self._workload = Workload(rates[0], rates[1], holds[0], holds[1])
        self._allocation = given = allocate(self._workload, self._budget(share), self._node.strategy)
        early = self._node.within.before_windows
        self._entering = self._workload.regulated(given.rate_a, given.rate_b) if early else self._workload

    def _holds(self, i: int, rate: float, share: float) -> float:
        """The rows of the whole window i: at most all rows so far, which an unbounded one has."""
        size, seconds = self._node.sizes[i], self._node.seconds[i]
        if size is not None:
            return size * share
        return self._seen[i] if seconds is None else min(rate * seconds, self._seen[i])

    def _budget(self, share: float) -> Budget:
        within, least_rows = self._node.within, 0.0
        if self._rows is not None:
            least_rows = self._rows * within.least_memory / (within.rows or within.bytes or 1)
        return Budget(self._rate, self._rows, within.least_rate * share, least_rows, within.before_windows)

    def _part(self, slot_bytes: float, share: float) -> None:
        """The budget of this partition."""
        within = self._node.within
        self._share = share
        self._rate = None if within.rate is None else within.rate * share
        if within.rows is not None:
            self._rows = int(within.rows * share)
        if within.bytes is not None:
            self._rows = max(int(within.bytes * share / (SLOTS_PER_ROW * slot_bytes)), 1)

    def _count(self, starts: Sequence[Int64s], oldest: int, newest: int) -> None:
        since = oldest - 1 if self._newest is None else self._newest
        self._newest = max(newest, since)
        passed = (self._newest - since) / self._node.ticks_per_second
        kept = exp(-passed / RATES_MEMORY_S)
        self._counts = [c * kept + len(s) for c, s in zip(self._counts, starts, strict=True)]
        self._seen = [n + len(s) for n, s in zip(self._seen, starts, strict=True)]
        self._time = self._time * kept + passed

    @property
    def short(self) -> list[str]:
        """The scarce resources."""
        workload, entering = self._workload, self._entering
        found = []
        if self._rate is not None and self._rate < workload.rate_a + workload.rate_b:
            found.append("rate")
        if self._rows is not None and self._rows < entering.window_a + entering.window_b:
            found.append("memory")
        return found

    def probing(self, i: int, starts: Int64s) -> Bools:
        """Which rows that entered window i probe the other."""
        draws = self._random[i].random(len(starts))
        if "rate" not in self.short:
            return np.ones(len(starts), np.bool_)
        allowed = (self._allocation.rate_a, self._allocation.rate_b)[i]
        needed = (self._workload.rate_a, self._workload.rate_b)[i]
        share = OVERADMISSION * allowed / needed if needed else 1.0
        bucket = self._bucket(i, allowed, starts)
        out = admit(bucket, draws, share, allowed / self._node.ticks_per_second, starts)
        self.shed["rate"][i] += int(len(out) - out.sum())
        return out

    def _bucket(self, i: int, allowed: float, starts: Int64s) -> np.ndarray:
        """A bucket with tokens for one second, or a few; initially for one second."""
        most = max(allowed, MIN_BURST_PROBES) if allowed > 0 else 0.0
        bucket = self._buckets[i]
        if bucket is None:
            bucket = self._buckets[i] = np.array([allowed, most, starts.min(initial=0)], np.float64)
        bucket[:2] = min(bucket[0], most), most
        return bucket

    def keeping(self, i: int, probing: Bools) -> Bools:
        """Which rows that entered window i are kept there; ``probing`` are those that probe."""
        draws = self._random[2 + i].random(len(probing))
        enters = probing if self._node.within.before_windows else np.ones(len(probing), np.bool_)
        if "memory" not in self.short:
            return enters
        room = (self._allocation.window_a, self._allocation.window_b)[i]
        needed = (self._entering.window_a, self._entering.window_b)[i]
        out = enters & (draws < (OVERADMISSION * room / needed if needed else 1.0))
        self.shed["memory"][i] += int(enters.sum() - out.sum())
        return out

    def surplus(self, sizes: Sequence[int]) -> tuple[int, int]:
        """How many rows must still leave windows of these sizes: what each has over its share."""
        if self._rows is None:
            return 0, 0
        over = max(sizes[0] + sizes[1] - self._rows, 0)
        extra_a = max(sizes[0] - int(self._allocation.window_a), 0)
        from_a = min(over, extra_a)
        return from_a + max(over - from_a - sizes[1], 0), min(over - from_a, sizes[1])

    def choose_dropped(self, i: int, rows: Int64s, count: int) -> Int64s:
        """Choose ``count`` rows of window i at random."""
        self.shed["memory"][i] += count
        return self._random[4 + i].choice(rows, count, replace=False)

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """The scarce resources, the allocation of each side, the dropped rows, and the expected recall."""
        yield from under("budget", Kind.ADAPTIVE, self._measure_budget())
        given, needed = self._allocation, self._workload
        rates = (needed.rate_a, given.rate_a), (needed.rate_b, given.rate_b)
        for i, room in enumerate((given.window_a, given.window_b)):
            window = [
                Reading(Property.ARRIVAL_RATE, rates[i][0]),
                Reading(Property.EFFECTIVE_RATE, rates[i][1]),
                Reading(Property.ROWS_ALLOTTED, room),
                *(Reading(Property.SHED, n[i], cause) for cause, n in self.shed.items()),
            ]
            yield from under(labels[i], Kind.WINDOW, window)

    def _measure_budget(self) -> Iterator[Reading]:
        given, needed = self._allocation, self._workload
        full = Allocation(needed.rate_a, needed.rate_b, needed.window_a, needed.window_b).output_rate(1.0)
        yield Reading(Property.BUDGET, 0, str(self._node.within))
        yield Reading(Property.BUDGET_SHARE, self._share)
        yield Reading(Property.POLICY, 0, self._node.strategy)
        yield from (Reading(Property.SHORT_OF, 0, what) for what in self.short)
        yield Reading(Property.EXPECTED_RECALL, given.output_rate(1.0) / full if full else 1.0)
