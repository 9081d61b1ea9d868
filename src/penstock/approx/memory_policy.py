"""Decides which tuples of a join's two windows stay in memory: for the most results, or for a sample.

A small part of the memory is for *watched* tuples, which are kept until they expire, to learn and to measure.
Once per epoch the models are updated from them, and then the plan: an instance of StreaMon in which the
policy is the executor, ``WindowModels`` is the profiler, and each goal has its re-optimizer. Random numbers
are a hash of the seed, a tuple's key and its number, so they are reproducible, and differ between partitions,
which share no keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.approx.known_tuples import KnownTuples, among
from penstock.approx.models.window import WindowModel
from penstock.approx.settings import (
    EPOCHS_PER_WINDOW,
    FEW_WATCHED_SHARE,
    FEW_WATCHED_TUPLES,
    MAX_WATCHED_SHARE,
    MAX_WATCHED_TUPLES,
    MIN_WATCHED_TUPLES,
    MIN_WINDOW_WATCHED_SHARE,
    MODEL_MEMORY_WINDOWS,
    NEGLIGIBLE_SHARE,
    PLAN_LOG_SIZE,
    QUALITY_POINTS,
    RESULTS_FIT_TOLERANCE,
    WATCHED_FILL,
    WATCHED_SHARE,
)
from penstock.budget import Sample, Within
from penstock.engine.joins.budget import Admitted, Arrivals, Results, Rows
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.kernels.keeping import watch
from penstock.engine.operator import Clock
from penstock.engine.snapshot import State, Stateful
from penstock.measurement import Kind, Property, Reading, curve, under
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog, Statistics

Plan = TypeVar("Plan")
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNLIMITED = 1 << 62


@dataclass(frozen=True)
class MemoryBudget:
    """The budget and goal of a join of windows of ``lengths`` ticks; ``keyed`` if it has an equality
    predicate.

    ``aggregated``: whether its results are aggregated; ``constant``: whether the aggregated value comes from
    one side.
    """

    within: Within
    lengths: tuple[int, int]
    keyed: bool
    aggregated: bool = False
    constant: bool = False
    seed: int = 0

    @property
    def sampled(self) -> bool:
        """Whether results carry weights."""
        return isinstance(self.within.goal, Sample)

    def __str__(self) -> str:
        return f"within {self.within}"

    @property
    def epoch(self) -> int:
        """A part of the longer window."""
        return max(max(self.lengths) // EPOCHS_PER_WINDOW, 1)

    def start(self) -> MemoryPolicy[Any]:
        from penstock.approx.maximize import Maximizer
        from penstock.approx.sampler import Sampler

        return Sampler(self) if self.sampled else Maximizer(self)


class WindowModels:
    """The profiler of a budget: the models of both windows, learned from the tuples that are watched.

    ``tolerance``: by how much, per result, the log likelihood of the frequency-based model may be below that
    of the age-based one.
    """

    STATISTICS = ("rate of 1", "rate of 2", "need of 1", "need of 2", "memory")

    def __init__(self, node: MemoryBudget, memory: float, tolerance: float) -> None:
        self.windows = tuple(WindowModel(n, node.keyed, memory) for n in node.lengths)
        self._keyed, self._tolerance = node.keyed, tolerance

    @property
    def by_value(self) -> bool:
        """Whether the frequency-based model predicts results better than the age-based one, or nearly so."""
        fit, judged = sum(w.fit for w in self.joining), sum(w.judged for w in self.joining)
        return self._keyed and fit > -self._tolerance * judged

    @property
    def joining(self) -> list[WindowModel]:
        """The windows whose tuples join later ones; often those of one window join none."""
        given = [w.rate.value * w.curve.total for w in self.windows]
        return [w for w, n in zip(self.windows, given, strict=True) if n > NEGLIGIBLE_SHARE * sum(given)]

    def statistics(self, evidence: float) -> Statistics:
        """Rates and needs of the windows; the evidence is the number of rows that the plan may use."""
        a, b = self.windows
        return np.array([a.rate.value, b.rate.value, a.need, b.need, evidence], np.float64)


class BudgetPlanner(ABC, Generic[Plan]):
    """The re-optimizer of a budget. Its evidence is the number of rows that the plan may use."""

    plan: Plan
    gain = 0.0

    @abstractmethod
    def reconsider(self, evidence: float, recall: Callable[[], Plan | None]) -> bool:
        """Plan for this many rows; returns whether the plan changed."""


class MemoryPolicy(Stateful, ABC, Generic[Plan]):
    """The common part of both goals: known tuples, models, memory, and a plan for each epoch.

    The plan decides which rows are kept, so it is state, like the models.
    """

    saved: ClassVar[tuple[str, ...]] = (
        "_known", "_windows", "_old", "_since", "_rows", "_watch", "shed", "_all", "_found",
    )  # fmt: skip
    tolerance = RESULTS_FIT_TOLERANCE
    monitored = False
    at_rows: ClassVar[Property]
    at_bytes: ClassVar[Property]
    """What the quality with other memories is published as."""

    def __init__(self, node: MemoryBudget) -> None:
        self._node = node
        self.epoch = node.epoch
        self._memory = MODEL_MEMORY_WINDOWS * max(node.lengths)
        self._known = (KnownTuples(), KnownTuples())
        self._models = WindowModels(node, self._memory, self.tolerance)
        self._windows = self._models.windows
        self._planner = self._start_planning()
        self._streamon = StreaMon(self, self._models, self._planner, PlanLog[Plan](PLAN_LOG_SIZE))
        self.use(self._planner.plan)
        self._old = [0, 0]
        self._since: int | None = None
        self._rows = node.within.rows or UNLIMITED
        self._watch = [0, 0]
        self._row_bytes = 1.0
        self.shed = {"not taken in": [0, 0], "given up": [0, 0]}
        self._all = self._found = 0.0
        self._by_memory: list[Reading] | None = None

    def _load(self, state: dict[str, State]) -> None:
        super()._load(state)
        self._planner.plan = self._saved_plan(state["plan"])
        self.use(self._planner.plan)

    @abstractmethod
    def _saved_plan(self, state: list[State]) -> Plan:
        """The plan from its list in a snapshot."""

    @abstractmethod
    def _decide(self, begin: int) -> None:
        """Set how long new tuples are kept."""

    @abstractmethod
    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """Decide on pairs that join."""

    @abstractmethod
    def _start_planning(self) -> BudgetPlanner[Plan]:
        """The goal's re-optimizer."""

    @abstractmethod
    def use(self, plan: Plan) -> None:
        """Decide on tuples by this plan."""

    def _replan(self, now: int) -> None:
        """Plan with the updated models."""
        self._streamon.adapt(now, self.memory(self._rows))
        self._by_memory = None

    @abstractmethod
    def _quality(self, rows: float) -> float:
        """The recall, or the error, to expect with room for this many tuples."""

    def _quality_by_memory(self) -> list[Reading]:
        """The quality with other memories, for ALLOC and explain; computed once per epoch, as models are."""
        if self._by_memory is None:
            self._by_memory = list(self._new_quality_by_memory())
        return self._by_memory

    def _new_quality_by_memory(self) -> Iterator[Reading]:
        within, need = self._node.within, sum(w.need for w in self._windows)
        if not need:
            return
        rows = np.linspace(0.0, need, QUALITY_POINTS)
        quality = np.array([self._quality(n) for n in rows])
        rows, quality = rows[np.isfinite(quality)], quality[np.isfinite(quality)]
        yield from curve(self.at_rows, quality.tolist(), rows.tolist())
        if within.shared and within.bytes is not None:
            yield Reading(Property.SHARED_MEMORY, within.bytes)
            yield Reading(Property.WEIGHT, within.weight)
            yield from curve(self.at_bytes, quality.tolist(), (rows * self._row_bytes).tolist())

    @abstractmethod
    def _measure_goal(self) -> Iterator[Reading]:
        """The goal's measurements of the budget."""

    @abstractmethod
    def _measure_window(self, i: int) -> Iterator[Reading]:
        """The goal's measurements of a window."""

    def memory(self, rows: float) -> float:
        """The number of tuples that the goal can keep, without the watched ones."""
        watched, need = self._watched(rows)
        return max(rows - watched, 0.0) / (1 - watched / need) if watched < need else rows

    def _watched(self, rows: float) -> tuple[float, float]:
        """About how many tuples are watched with this much room, and the tuples of whole windows."""
        needs = [w.need for w in self._windows]
        rooms = _shares(needs, watch_room(rows))
        return sum(min(WATCHED_FILL * r, n) for r, n in zip(rooms, needs, strict=True)), sum(needs)

    def _share_watch(self) -> None:
        """How many tuples of each window are watched: by the windows' needs."""
        a, b = _shares([w.need for w in self._windows], int(watch_room(self._rows)))
        self._watch = [round(a), round(a + b) - round(a)]

    def admit(
        self, arrivals: Sequence[Arrivals], begin: int, row_bytes: float, clock: Clock
    ) -> list[Admitted]:
        """Decide on new rows. All of them probe; ``results`` and ``release`` use how long each is kept."""
        self._set_rows(row_bytes, clock)
        if self._since is None:
            self._since = begin - begin % self.epoch
            self._share_watch()
            self._replan(begin)
        self._old = [len(h) for h in self._known]
        for i, new in enumerate(arrivals):
            self._take(i, new)
            self._windows[i].arrived(new.keys)
        self._decide(begin)
        every = [np.ones(len(a.ids), np.bool_) for a in arrivals]
        return [Admitted(e, e) for e in every]

    def _set_rows(self, row_bytes: float, clock: Clock) -> None:
        """Set the number of rows that this partition may hold now."""
        within = self._node.within
        self._row_bytes = row_bytes
        before = self._rows
        if within.rows is not None:
            self._rows = int(within.rows * clock.share)
        if within.bytes is not None:
            available = (within.bytes if clock.memory is None else clock.memory) * clock.share
            self._rows = max(int(available / within.parts / self._row_bytes), 1)
        if self._rows < before and self._since is not None:
            self._watch_fewer()

    def _watch_fewer(self) -> None:
        """Leave the newest of the tuples that are watched to the goal: there is room for fewer."""
        self._share_watch()
        for known, most in zip(self._known, self._watch, strict=True):
            known.monitored[np.flatnonzero(known.monitored)[most:]] = False

    def _take(self, i: int, new: Arrivals) -> None:
        known, own, other = self._known[i], self._windows[i], self._windows[1 - i]
        count = len(new.ids)
        seeds = np.full(count, np.uint64(self._node.seed * 2 + i))
        hash_integers(new.keys, seeds)
        hash_integers(new.ids, seeds)
        share = other.counts.shares(new.keys) if self._node.keyed else np.zeros(count)
        known.add(
            count, seq=new.ids, ts=new.starts, end=new.ends, until=new.ends, key=new.keys, seed=seeds,
            draw=((seeds >> np.uint64(11)) + 0.5) / 2.0**53, share=share,
            likely=share * other.rate.value * own.length,
        )  # fmt: skip
        wanted = known.monitored.copy()
        again = np.zeros(count, np.uint64)
        hash_integers(seeds.view(np.int64), again)
        wanted[self._old[i] :] = (again >> np.uint64(11)) / 2.0**53 < self._watched_part(i)
        known.monitored = watch(known.ts, known.end, wanted, self._old[i], self._watch[i])

    def _watched_part(self, i: int) -> float:
        """The share of arrivals to watch: as many as fit over a window, less a margin."""
        need = self._windows[i].need
        return WATCHED_FILL * self._watch[i] / need if need else 1.0

    def _note(self, earlier: Int64s, places: Int64s, times: Int64s, kept: Bools) -> None:
        """Learn from the pairs of watched tuples, and measure the recall on them.

        ``earlier``: the window of each pair's earlier tuple; ``places``: where it is.
        """
        for i, known in enumerate(self._known):
            here = np.flatnonzero(earlier == i)
            seen = here[known.monitored[places[here]]]
            self._windows[i].add_results(known, places[seen], times[seen], self._windows[1 - i].rate.value)
            self._all += len(seen)
            self._found += float(kept[seen].sum())

    def room(self, row_bytes: float, clock: Clock) -> int | None:
        self._set_rows(row_bytes, clock)
        return self._rows

    def retain(self, held: Sequence[Rows], new: Sequence[Rows], now: int) -> list[tuple[Bools, Bools]]:
        """The rows that are needed after ``now``; what is known of the others is forgotten."""
        found = []
        for i, known in enumerate(self._known):
            needed = ((known.until >= now) | known.monitored) & (known.end > now)
            kept = known.seq[needed]
            found.append((among(held[i].ids, kept), among(new[i].ids, kept)))
            # The models still learn from monitored tuples that have expired.
            self._count_shed(i, known, ~needed & ~known.monitored)
            known.keep(needed | known.monitored)
        return found

    def _count_shed(self, i: int, known: KnownTuples, gone: Bools) -> None:
        early = gone & (known.until < known.end)
        self.shed["not taken in"][i] += int((early & (known.until <= known.ts)).sum())
        self.shed["given up"][i] += int((early & (known.until > known.ts)).sum())

    def passed(self, now: int) -> None:
        """Learn from past epochs, drop expired tuples, and plan again."""
        assert self._since is not None
        rates = [w.rate.value for w in self._windows]
        for i, (known, window) in enumerate(zip(self._known, self._windows, strict=True)):
            window.passed(known, self._since, now, rates[1 - i])
            kept = (known.end > now) & ((known.until > now) | known.monitored)
            self._count_shed(i, known, ~kept)
            known.keep(kept)
        decay = float(np.exp(-(now - self._since) / self._memory))
        self._all, self._found, self._since = self._all * decay, self._found * decay, now
        self._share_watch()
        self._replan(now)

    def bytes(self) -> int:
        """Memory used by known tuples and models."""
        return sum(h.nbytes() for h in self._known) + sum(w.nbytes() for w in self._windows)

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """Rows kept and lost, and the expected recall."""
        budget = [
            Reading(Property.BUDGET, 0, str(self._node.within)),
            Reading(Property.MODEL, 0, "frequency" if self._models.by_value else "age"),
            Reading(Property.MONITORED_RESULTS, self._all),
            *self._measure_goal(),
            *self._quality_by_memory(),
            Reading(Property.CHANGES, self._streamon.log.count),
            *self._streamon.log.measure(WindowModels.STATISTICS, str),
        ]
        yield from under("budget", Kind.ADAPTIVE, budget)
        for i, w in enumerate(self._windows):
            window = [
                *curve(Property.RESULTS_BY_AGE, w.curve.results, range(len(w.curve.results))),
                Reading(Property.ARRIVALS_PER_TICK, w.rate.value),
                Reading(Property.ROWS_NEEDED, w.need),
                Reading(Property.MONITORED_ROWS, int(self._known[i].monitored.sum())),
                *(Reading(Property.SHED, n[i], cause) for cause, n in self.shed.items()),
                *self._measure_window(i),
            ]
            yield from under(labels[i], Kind.WINDOW, window)


def watch_room(rows: float) -> float:
    """How many of this many tuples may be watched."""
    wanted = max(WATCHED_SHARE * rows, MIN_WATCHED_TUPLES)
    few = min(FEW_WATCHED_TUPLES, FEW_WATCHED_SHARE * rows)
    return min(max(MAX_WATCHED_SHARE * rows, few), wanted, MAX_WATCHED_TUPLES)


def _shares(needs: Sequence[float], room: float) -> tuple[float, float]:
    """The room of each window, in proportion to its need, with a minimum for each."""
    part = needs[0] / sum(needs) if sum(needs) else 0.5
    first = room * min(max(part, MIN_WINDOW_WATCHED_SHARE), 1 - MIN_WINDOW_WATCHED_SHARE)
    return first, room - first
