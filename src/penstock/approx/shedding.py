"""Load shedding: which tuples a join of two windows drops to stay within its budget.

A tuple that arrives may probe the other window, and may be kept for others to probe. If probes are scarce,
some tuples do not probe but are kept (unless tuples are dropped before the windows); if memory is scarce,
some are not kept but may probe. ``allocation.allocate`` divides the budget, once per epoch of stream time, by
the rates of the epochs before. Within an epoch tuples are decided on one after the other: each has a random
number from a seed, takes a probe from those that its side has saved up, and takes the place of the kept tuple
with the least number if there is no other. So the same input loses the same tuples, whatever the steps. A
partition's budget is proportional to its share of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from penstock.approx.allocation import Allocation, Budget, allocate
from penstock.approx.known_tuples import KnownTuples, among, earlier_tuples
from penstock.approx.policies import NO_AGES
from penstock.approx.settings import (
    EPOCHS_PER_WINDOW,
    LEAST_RATES_S,
    MIN_BURST_PROBES,
    OVERADMISSION,
    RATES_MEMORY_S,
    SHEDDING_EPOCH_S,
)
from penstock.budget import Within
from penstock.cost.model import Workload
from penstock.engine.joins.budget import Admitted, Arrivals, Results, Rows
from penstock.engine.kernels.keeping import keep_within
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

    sampled = False

    @property
    def epoch(self) -> int:
        """A part of the longer window, and at most as much as rates need to change."""
        known = [s for s in self.seconds if s is not None]
        part = max(known) / EPOCHS_PER_WINDOW if known else SHEDDING_EPOCH_S
        return max(int(min(part, SHEDDING_EPOCH_S) * self.ticks_per_second), 1)

    def start(self) -> Shedder:
        return Shedder(self)


class Shedder(Stateful):
    """Decides for each row of both inputs whether it probes and whether it is kept.

    ``_known`` are the rows that are kept within a memory, with the time until which they are.
    """

    saved = (
        "_random", "_counts", "_time", "_since", "_buckets", "_workload", "_allocation", "_share", "_rate",
        "_rows", "_entering", "_arrived", "_seen", "_known", "shed",
    )  # fmt: skip
    format = 3
    monitored = True

    def __init__(self, node: Shedding) -> None:
        self._node = node
        self.epoch = node.epoch
        seeds = np.random.SeedSequence(node.seed).spawn(6)
        self._random = [np.random.default_rng(s) for s in seeds]
        self._counts, self._time = [0.0, 0.0], 0.0
        self._arrived, self._seen = [0, 0], [0, 0]
        self._since: int | None = None
        self._buckets: list[np.ndarray | None] = [None, None]
        self._workload = Workload(0.0, 0.0, 0.0, 0.0)
        self._allocation = Allocation(0.0, 0.0, 0.0, 0.0)
        self._share = 1.0
        self._rate, self._rows = node.within.rate, node.within.rows
        self._entering = self._workload
        self._known = (KnownTuples(), KnownTuples())
        self.shed = {"rate": [0, 0], "memory": [0, 0]}

    @property
    def _limited(self) -> bool:
        """Whether there is a memory to keep to."""
        return self._node.within.rows is not None or self._node.within.bytes is not None

    def admit(
        self, arrivals: Sequence[Arrivals], begin: int, row_bytes: float, clock: Clock
    ) -> list[Admitted]:
        self._part(row_bytes, clock.share)
        if self._since is None:
            self._since = begin
        for i, new in enumerate(arrivals):
            self._arrived[i] += len(new.ids)
        probing = [self.probing(i, a.starts) for i, a in enumerate(arrivals)]
        kept = [self.keeping(i, p) for i, p in enumerate(probing)]
        if self._limited:
            self._take(arrivals, kept, begin)
        return [Admitted(p, k) for p, k in zip(probing, kept, strict=True)]

    def _take(self, arrivals: Sequence[Arrivals], kept: Sequence[Bools], begin: int) -> None:
        """Keep new rows, each in the place of another if there is no more room."""
        old = [len(known) for known in self._known]
        for i, (new, stay) in enumerate(zip(arrivals, kept, strict=True)):
            until = np.where(stay, new.ends, new.starts)
            draw = self._random[4 + i].random(len(new.ids))
            self._known[i].add(len(new.ids), seq=new.ids, ts=new.starts, end=new.ends, until=until, draw=draw)
        assert self._rows is not None
        if sum(map(len, self._known)) <= self._rows:
            return
        a, b = self._known
        rooms = np.array([self._allocation.window_a, self._allocation.window_b])
        before = [known.until.copy() for known in self._known]
        keep_within(
            (a.ts, b.ts), (a.end, b.end), (a.until, b.until), (a.monitored, b.monitored), (a.draw, b.draw),
            (NO_AGES, NO_AGES), np.zeros(2), np.array(old), rooms if rooms.any() else np.ones(2), self._rows,
            begin,
        )  # fmt: skip
        for i, known in enumerate(self._known):
            self.shed["memory"][i] += int((known.until != before[i]).sum())

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """All pairs whose earlier row is kept."""
        if not self._limited:
            return Results(np.ones(len(ids[0]), np.bool_))
        return Results(earlier_tuples(self._known, ids, times).kept)

    def room(self, row_bytes: float, clock: Clock) -> int | None:
        self._part(row_bytes, clock.share)
        return self._rows

    def retain(self, held: Sequence[Rows], new: Sequence[Rows], now: int) -> list[tuple[Bools, Bools]]:
        """The rows that are kept after ``now``; without a limit all, since their results end with them."""
        if not self._limited:
            return [
                (np.ones(len(h), np.bool_), np.ones(len(n), np.bool_)) for h, n in zip(held, new, strict=True)
            ]
        found = []
        for i, known in enumerate(self._known):
            known.keep((known.until >= now) & (known.end > now))
            found.append((among(held[i].ids, known.seq), among(new[i].ids, known.seq)))
        return found

    def passed(self, now: int) -> None:
        """Divide the budget by the rates up to now."""
        assert self._since is not None
        passed = (now - self._since) / self._node.ticks_per_second
        kept, self._since = exp(-passed / RATES_MEMORY_S), now
        self._counts = [c * kept + n for c, n in zip(self._counts, self._arrived, strict=True)]
        self._seen = [s + n for s, n in zip(self._seen, self._arrived, strict=True)]
        self._time, self._arrived = self._time * kept + passed, [0, 0]
        rates = [c / max(self._time, LEAST_RATES_S) for c in self._counts]
        holds = [self._holds(i, rate, self._share) for i, rate in enumerate(rates)]
        self._workload = Workload(rates[0], rates[1], holds[0], holds[1])
        self._allocation = given = allocate(self._workload, self._budget(self._share), self._node.strategy)
        early = self._node.within.before_windows
        self._entering = self._workload.regulated(given.rate_a, given.rate_b) if early else self._workload

    def bytes(self) -> int:
        """What it knows of the rows that are kept within a memory."""
        return sum(known.nbytes() for known in self._known)

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

    def _part(self, row_bytes: float, share: float) -> None:
        """The budget of this partition."""
        within = self._node.within
        self._share = share
        self._rate = None if within.rate is None else within.rate * share
        if within.rows is not None:
            self._rows = int(within.rows * share)
        if within.bytes is not None:
            self._rows = max(int(within.bytes * share / row_bytes), 1)

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
        if self._rate is None:
            return np.ones(len(starts), np.bool_)
        allowed, share = self._allowed(i)
        bucket = self._bucket(i, allowed)
        out = admit(bucket, draws, share, allowed / self._node.ticks_per_second, starts)
        self.shed["rate"][i] += int(len(out) - out.sum())
        return out

    def _allowed(self, i: int) -> tuple[float, float]:
        """How many rows of window i may probe in a second, and which share of them is let through.

        Where probes are not scarce, the sides have equal parts of those to spare: more rows may come.
        """
        assert self._rate is not None
        needed = (self._workload.rate_a, self._workload.rate_b)
        if "rate" not in self.short:
            return needed[i] + (self._rate - sum(needed)) / 2, 1.0
        allowed = (self._allocation.rate_a, self._allocation.rate_b)[i]
        return allowed, OVERADMISSION * allowed / needed[i] if needed[i] else 1.0

    def _bucket(self, i: int, allowed: float) -> np.ndarray:
        """A bucket with tokens for one second, or a few; initially all there are: no rates are known yet."""
        assert self._rate is not None
        most = max(allowed, MIN_BURST_PROBES) if allowed > 0 else 0.0
        bucket = self._buckets[i]
        if bucket is None:
            bucket = self._buckets[i] = np.array([self._rate, most, self._since or 0], np.float64)
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
