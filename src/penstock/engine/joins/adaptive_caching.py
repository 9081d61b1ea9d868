"""The caches of a join chosen while it runs: executor and profiler of A-Caching (thesis 5.5, figure 5.10).

A join is in one of four phases:

* *idle*: it does what it does, with the caches in use, until an interval is over. Without caches nothing is
  measured but counts of tuples.
* *watching*: its slices are timed as they are. Candidates that cannot pay by that, were every look-up a hit,
  are left out, and if no other is left the join is idle again, for twice as long. That is all that most joins
  ever spend on caches.
* *counting*: for the others whose key the rows of a pipeline have, a Bloom filter counts the keys that come
  again. Again those are left out that cannot pay.
* *profiling*: some tuples of a slice go through all probes one after the other, without caches, each probe
  timed, until there are enough observations. Then the caches are chosen.

While there are caches some tuples bypass them, to know what they save. Profiled and bypassing tuples give the
same results as others and take longer: what they take more is kept within a share of the join's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.joins.cache_memory import Pages
from penstock.engine.joins.cache_profile import JoinProfile, Keys, PipelineProfile, ProfilingBudget, Slice
from penstock.engine.joins.caching import JoinCaches, Placement, named
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.segments import Segment, SegmentCache, keyed, segment_of
from penstock.engine.joins.steps import Filter, PipelineStep, Probe, Verify
from penstock.engine.joins.tuples import Tuples
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.a_caching import CacheEvidence, CacheProfiler, CacheReoptimizer, CacheSet, State
from penstock.streamon.cache_selection import Candidate, Value, with_global, without_worse
from penstock.streamon.framework import StreaMon
from penstock.streamon.plan_log import PlanLog
from penstock.streamon.settings import CACHES, PATIENCE, RARE, WHOLE_SLICE, CacheThresholds

if TYPE_CHECKING:
    from penstock.engine.joins.pipeline import Pipeline


KeyPlace = tuple[int, int, tuple[int, ...]]
"""Where keys are counted: a pipeline, a position in it, and the classes of the key. Candidates share it."""


class Phase(Enum):
    """What the join is doing about its caches."""

    IDLE = 0
    WATCHING = 1
    COUNTING = 2
    PROFILING = 3


class AdaptiveCaches(JoinCaches):
    """The caches that A-Caching chooses."""

    def __init__(
        self,
        inputs: JoinInputs,
        later: Collection[int],
        memory: int,
        thresholds: CacheThresholds = CACHES,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """``clock``: what processing has taken so far; the thread's CPU seconds, or units of work."""
        super().__init__(inputs, later, memory)
        self._clock = clock
        self.thresholds = thresholds
        self.reoptimizer = CacheReoptimizer(thresholds)
        self.log = PlanLog[CacheSet](thresholds.plan_log_size)
        self._streamon = StreaMon(
            _Use(self.place), CacheProfiler(), self.reoptimizer, self.log, lambda _, evidence: evidence.price
        )
        self.profile = JoinProfile(len(inputs), thresholds)
        self.budget = ProfilingBudget(thresholds)
        self.phase = Phase.WATCHING
        self._orders: list[tuple[int, ...]] = []
        self._stale = False
        self._keys: dict[KeyPlace, Keys] = {}
        # Recent seconds that the caches' updates took, and the tuples of the join meanwhile.
        self._feeding: dict[Segment, float] = {}
        self._fed = self._kept = 0.0
        self._tuples = self._began = self._next = 0
        self._patience = 1
        self._usual = [0.0] * len(inputs)
        """Seconds per tuple of each pipeline without caches, as it was when the join was last watched."""
        self._roots: frozenset[int] = frozenset()
        self._slices = [0] * len(inputs)
        self._pages = Pages(thresholds.page)
        self._segments: dict[tuple[frozenset[int], ...], Segment | None] = {}

    # executor

    def place(self, plan: CacheSet) -> None:
        """Use the caches of a plan."""
        self.use(frozenset(Placement(c.root, _segment(c)) for c in plan))
        self._roots = frozenset(c.root for c in plan)
        self._feeding = dict.fromkeys(self.caches, 0.0)
        self._fed = 0.0
        for root in self._roots:
            self.profile[root].cached.clear()

    def run(self, pipeline: Pipeline, tuples: Tuples) -> list[Tuples]:
        root, count = pipeline.root, len(tuples)
        profile = self.profile[root]
        self._tuples += count
        self._fed += count
        profile.tuples += count
        if self.phase is Phase.IDLE and root not in self._roots:
            self.budget.busy += count * self._usual[root]
            return [pipeline.through(pipeline.steps(), tuples)]
        order = tuple(pipeline.order())
        if self._orders and order != self._orders[root]:
            self._stale = True
        sample = self._sample(profile)
        if count < sample:
            return [pipeline.through(self._steps(pipeline, order), tuples)]
        if self.phase is not Phase.IDLE:
            self._note_keys(root, tuples)
        rest = _part(tuples, slice(sample, None)) if count > sample else None
        if self._to_profile(root):
            found = [self._profiled(pipeline, order, _part(tuples, slice(sample)))]
        elif rest is not None and self._to_bypass(root):
            if count <= WHOLE_SLICE * sample:
                return [self._bypassing(pipeline, tuples)]
            found = [self._bypassing(pipeline, _part(tuples, slice(sample)))]
        else:
            return [self._timed(pipeline, order, tuples)]
        return found if rest is None else [*found, self._timed(pipeline, order, rest)]

    def _steps(self, pipeline: Pipeline, order: Sequence[int]) -> Iterator[PipelineStep]:
        if pipeline.root not in self._roots:
            return pipeline.steps()
        return pipeline.cached_steps(self.elements(pipeline.root, order))

    @contextmanager
    def updating(self, j: int, rows: Int64s) -> Iterator[None]:
        self.profile[j].entered += len(rows)
        with super().updating(j, rows):
            yield

    def add(self, cache: SegmentCache, tuples: Tuples) -> None:
        with self._keeping(cache):
            super().add(cache, tuples)

    def feed(self, cache: SegmentCache, j: int, rows: Int64s) -> None:
        with self._keeping(cache):
            super().feed(cache, j, rows)

    @contextmanager
    def _keeping(self, cache: SegmentCache) -> Iterator[None]:
        """What is done meanwhile keeps a cache up to date, whoever's slice it is in."""
        began = self._clock()
        yield
        seconds = self._clock() - began
        self._feeding[cache.segment] += seconds
        self._kept += seconds

    def _now(self) -> float:
        """The clock without what updates of caches have taken."""
        return self._clock() - self._kept

    # profiler

    def _sample(self, profile: PipelineProfile) -> int:
        """The tuples of a slice that are profiled or bypass caches: fewer where each takes long."""
        t = self.thresholds
        return min(t.sample, max(int(t.sample_s / max(profile.uncached, 1e-9)), t.least_sample))

    def _timed(self, pipeline: Pipeline, order: Sequence[int], tuples: Tuples) -> Tuples:
        """Process tuples as usual, and note what they take."""
        count, profile = len(tuples), self.profile[pipeline.root]
        began = self._now()
        found = pipeline.through(self._steps(pipeline, order), tuples)
        seconds = self._now() - began
        self.budget.busy += seconds
        if count >= self._sample(profile):
            if pipeline.root not in self._roots:
                profile.plain.append(Slice(seconds, count, len(found)))
            elif self._filled(pipeline.root):
                profile.cached.append(Slice(seconds, count, len(found)))
        return found

    def _filled(self, root: int) -> bool:
        """Whether the caches of a pipeline have been looked up often enough to have the keys that come again:
        before that, slices tell what it takes to fill them.
        """
        caches = [self.caches[p.segment].cache for p in self.plan if p.root == root]
        return all(c.hits + c.misses >= self.thresholds.bloom_tuples for c in caches)

    def _to_bypass(self, root: int) -> bool:
        """Whether some tuples do without the caches of their pipeline."""
        if root not in self._roots:
            return False
        self._slices[root] += 1
        return not self._slices[root] % self.thresholds.bypass_every and self.budget.allows()

    def _bypassing(self, pipeline: Pipeline, tuples: Tuples) -> Tuples:
        profile, count = self.profile[pipeline.root], len(tuples)
        began = self._now()
        found = pipeline.through(pipeline.steps(), tuples)
        seconds = self._now() - began
        profile.plain.append(Slice(seconds, count, len(found)))
        self.budget.spent += max(count * profile.saved, 0.0)
        return found

    def _to_profile(self, root: int) -> bool:
        """Whether tuples of a pipeline are to be profiled now."""
        if self.phase is not Phase.PROFILING or not self.budget.allows():
            return False
        return len(self.profile[root].joins) < self._wanted().get(root, 0)

    def _wanted(self) -> dict[int, int]:
        """For each pipeline that profiled candidates depend on, the observations that they need."""
        profiled, t = self.reoptimizer.profiled(), self.thresholds
        found = dict.fromkeys((j for c in profiled for j in c.inputs), max(t.observations // 4, 1))
        return {**found, **dict.fromkeys((c.root for c in profiled), t.observations)}

    def _profiled(self, pipeline: Pipeline, order: Sequence[int], tuples: Tuples) -> Tuples:
        """Take tuples through all probes, and note how many reach each and how long they take."""
        root, bound = pipeline.root, {pipeline.root}
        seen = np.zeros((2, len(order) + 1))
        count, started = len(tuples), self._now()
        tuples = pipeline.through([Filter(self.inputs, ())], tuples)
        fits = self._orders and order == self._orders[root]
        behind = [place for place in self._keys if place[0] == root and place[1]] if fits else []
        for position, j in enumerate(order):
            seen[0, position] = len(tuples)
            if not len(tuples):
                break
            for place in (p for p in behind if p[1] == position):
                self._keys[place].add(keyed(self.inputs, place[2], tuples, bound)[1])
            began = self._now()
            tuples = pipeline.through((Probe(self.inputs, root, j, None), Filter(self.inputs, bound)), tuples)
            seen[1, position] = self._now() - began
            bound = {*bound, j}
        seen[0, -1] = len(tuples)
        self.profile[root].joins.append(seen)
        found = pipeline.through([Verify(self.inputs)], tuples)
        usual = count * self.profile[root].uncached
        self.budget.spent += max(self._now() - started - usual, 0.0)
        return found

    def _place(self, c: Candidate) -> KeyPlace:
        """At the head of a pipeline if its rows have the key, else at the first join of the segment."""
        classes = _segment(c).classes
        at_head = all(c.root in self.inputs.column[k] for k in classes)
        return c.root, 0 if at_head else c.first, classes

    def _note_keys(self, root: int, tuples: Tuples) -> None:
        """The keys that the rows of a pipeline have."""
        some = [p for p, k in self._keys.items() if p[:2] == (root, 0) and not k.enough]
        if not some or not self.budget.allows():
            return
        began = self._clock()
        for place in some:
            self._keys[place].add(keyed(self.inputs, place[2], tuples, {root})[1])
        self.budget.spent += self._clock() - began

    def _watch_keys(self, some: Iterable[Candidate]) -> None:
        places = {self._place(c) for c in some}
        self._keys = {p: self._keys.get(p) or Keys(self.thresholds) for p in places}

    def _propose(self) -> None:
        """The candidates of the current orders; caches that do not fit them are dropped (step 5)."""
        self._stale = False
        before, self._orders = self._orders, [tuple(p.order()) for p in self.pipelines]
        for root, order in enumerate(self._orders):
            if before and order != before[root]:
                self.profile[root].clear()
        found = with_global(self._orders, self.thresholds.quota, self._key)
        lost = self.reoptimizer.propose([*found, *self._kept_whole(found)])
        if lost:
            self._use_fewer("the order of probes changed")
        if self.phase is Phase.IDLE and lost:
            self._next = min(self._next, self._tuples + self.thresholds.interval)
        elif self.phase is Phase.COUNTING:
            self._watch_keys(self._promising(lambda c: 0.0))
        elif self.phase is Phase.PROFILING:
            self._profile_promising()

    def _kept_whole(self, some: Iterable[Candidate]) -> Iterator[Candidate]:
        """For each X ⋉ Y the same X without Y. Updates are computed apart from the pipelines here, so that
        needs no prefix invariant, and rows of Y need not update it; but more is read.
        """
        for c in (c for c in some if c.beside):
            before = {c.root, *self._orders[c.root][: c.first]}
            yield Candidate(c.root, c.first, c.inputs, self._key(before, c.inputs, ()))

    def _others(self) -> list[Candidate]:
        """The candidates that are not in use."""
        return [c for c, s in self.reoptimizer.states.items() if s is not State.USED]

    def _key(
        self, before: Collection[int], members: Collection[int], beside: Collection[int]
    ) -> Segment | None:
        asked = frozenset(before), frozenset(members), frozenset(beside)
        if asked not in self._segments:
            self._segments[asked] = segment_of(self.inputs, *asked)
        return self._segments[asked]

    # re-optimizer

    def settle(self) -> None:
        """A step is over: drop caches that do not pay, and reconsider the others when it is time."""
        if self._tuples < self._next and not self.caches:
            return
        if self._stale or not self._orders:
            self._propose()
        self._drop_losing()
        if self.phase is Phase.WATCHING and self._watched():
            self._screen()
        elif self.phase is Phase.COUNTING and self._counted():
            self._profile()
        elif self.phase is Phase.PROFILING and self._observed():
            self._decide()
        elif self.phase is Phase.IDLE and self._tuples >= self._next:
            if self.caches:
                self._patience = 1
            self._propose()
            self._watch()
        if self.phase is not Phase.IDLE:
            self._next = self._tuples + self.thresholds.sample
        self._pages.allot(self._memory, self.caches, self._priority)
        self._age()

    def _watch(self) -> None:
        """Look at slices as they are."""
        self.phase, self._began = Phase.WATCHING, self._tuples
        for root, p in enumerate(self.profile.pipelines):
            p.joins.clear()
            if root not in self._roots:
                p.plain.clear()
        self._keys = {}

    def _late(self) -> bool:
        """Whether a phase has lasted for so long that what is not known now is left out."""
        return self._tuples - self._began > self.thresholds.interval

    def _busy(self, roots: Collection[int]) -> list[int]:
        """The pipelines with a part of the tuples that matters. A cache for another would not pay, and
        updates from it are taken to cost what its tuples take.
        """
        return [r for r in roots if self.profile.rate(r) * RARE * len(roots) > 1.0]

    def _watched(self) -> bool:
        roots = self._busy({c.root for c in self._others()})
        needed = max(self.thresholds.observations // 2, 1)
        known = all(len(self.profile[r].plain) >= needed for r in roots)
        return (bool(roots) and known) or self._late()

    def _screen(self) -> None:
        """Count the keys of candidates that pay if all look-ups are hits; without any nothing more is done
        for a while.
        """
        self._began = self._tuples
        some = self._promising(lambda c: 0.0)
        if not some:
            self._profile()
            return
        self.phase = Phase.COUNTING
        self._watch_keys(some)

    def _counted(self) -> bool:
        """Whether enough keys were counted of those that the rows of a pipeline have."""
        return all(k.enough for place, k in self._keys.items() if not place[1]) or self._late()

    def _profile(self) -> None:
        """Profile the candidates that may pay, if there are any."""
        self.phase, self._began = Phase.PROFILING, self._tuples
        if not self._profile_promising():
            self._decide()

    def _promising(self, miss: Callable[[Candidate], float]) -> set[Candidate]:
        """The candidates that may pay by what plain slices take, if this share of their look-ups misses."""
        values = {c: self.profile.bound(c, miss(c), self._shown(c)) for c in self._others()}
        least = self.thresholds.least_gain * self.profile.work()
        groups: dict[object, float] = {}
        for c, value in values.items():
            groups[c.group] = groups.get(c.group, -value.cost) + max(value.benefit, 0.0)
        return {c for c, v in values.items() if v.benefit > 0 and groups[c.group] > least}

    def _profile_promising(self) -> bool:
        """Leave out the candidates that cannot pay; returns whether others do."""
        promising = self._promising(lambda c: self._miss(c, 0.0))
        if self.reoptimizer.begin(promising.__contains__):
            self._use_fewer("a part of a cache is to be profiled")
        self._watch_keys(self.reoptimizer.profiled())
        return bool(promising)

    def _observed(self) -> bool:
        """Whether every statistic of the profiled candidates has enough observations."""
        wanted = self._wanted()
        roots = self._busy(wanted)
        return all(len(self.profile[r].joins) >= wanted[r] for r in roots) or self._late()

    def _decide(self) -> None:
        self._streamon.adapt(self._tuples, self.evidence())
        self.phase, self._keys = Phase.IDLE, {}
        self._usual = [p.uncached for p in self.profile.pipelines]
        self._next = self._tuples + self._patience * self.reoptimizer.interval

    def evidence(self) -> CacheEvidence:
        """Benefit and cost of every used and profiled candidate (5.5.1)."""
        states = self.reoptimizer.states.items()
        values = {c: self._value(c) for c, s in states if s is not State.UNUSED}
        return CacheEvidence(without_worse(values), self.profile.work(), self.profile.traffic())

    def _value(self, c: Candidate) -> Value:
        if c in self.reoptimizer.plan:
            measured = self._measured_benefit(c.root)
            if measured is not None:
                return Value(measured, self._measured_cost(_segment(c)))
            if (before := self.reoptimizer.judged(c)) is not None:
                return before
        return self.profile.value(c, self._orders, self._miss(c, 1.0), self._shown(c))

    def _shown(self, c: Candidate) -> set[int]:
        """The inputs of a candidate whose pipelines show what their new rows join: updates without probes."""
        if c.beside:
            return set()
        return {j for j in c.inputs if self.pipelines[j].shows(c.inputs, self._orders[j])}

    def _miss(self, c: Candidate, unknown: float) -> float:
        """The share of look-ups that miss, as observed of a cache in use, else as the keys say."""
        cache = self.caches.get(_segment(c))
        if cache is not None and cache.cache.hits + cache.cache.misses > self.thresholds.bloom_tuples // 8:
            return cache.cache.misses / (cache.cache.hits + cache.cache.misses)
        keys = self._keys.get(self._place(c))
        estimated = keys.miss_probability if keys else None
        return unknown if estimated is None else estimated

    def _drop_losing(self) -> None:
        """Point a: what caches in use save and cost is measured; those that lose are dropped at once."""
        losing = set[Candidate]()
        for segment in self.caches:
            users = [c for c in self.reoptimizer.plan if _segment(c) == segment]
            # As long as it is not known what a cache saves, at most all that its pipeline takes.
            known = [(self._measured_benefit(c.root), self._most_saved(c.root)) for c in users]
            saved = sum(most if benefit is None else benefit for benefit, most in known)
            if saved < self._measured_cost(segment):
                losing.update(users)
        if losing and self.reoptimizer.drop(losing):
            self._use_fewer("what was dropped cost more than it saved")
            self._patience = min(2 * self._patience, PATIENCE)
            self._next = self._tuples + self._patience * self.reoptimizer.interval

    def _use_fewer(self, reason: str) -> None:
        """Caches have been dropped: record why, and do without them."""
        evidence, plan = self.evidence(), self.reoptimizer.plan
        statistics = CacheProfiler().statistics(evidence)
        self.log.add(self._tuples, statistics, plan, price=evidence.price, reason=reason)
        self.place(plan)

    def _measured_benefit(self, root: int) -> float | None:
        """What the caches of a pipeline save per tuple of the join; None while too little is known."""
        profile = self.profile[root]
        if len(profile.cached) < self.thresholds.observations or not profile.plain:
            return None
        return self.profile.rate(root) * profile.saved

    def _most_saved(self, root: int) -> float:
        """What the tuples of a pipeline take per tuple of the join; infinite as long as it is unknown."""
        profile = self.profile[root]
        return self.profile.rate(root) * profile.uncached if profile.plain else float("inf")

    def _measured_cost(self, segment: Segment) -> float:
        return self._feeding[segment] / max(self._fed, 1.0)

    def _age(self) -> None:
        """Let what is recent count twice what was before."""
        if self.profile.recent < self.thresholds.interval // 4:
            return
        self.profile.age()
        self._feeding = {s: seconds / 2 for s, seconds in self._feeding.items()}
        self._fed /= 2

    # memory

    def _resized(self) -> None:
        self._pages.fit(self._memory, self.caches, self._priority)

    def _priority(self, segment: Segment) -> float:
        """Net benefit per byte."""
        users = [c.root for c in self.reoptimizer.plan if _segment(c) == segment]
        saved = sum(self._measured_benefit(root) or 0.0 for root in users)
        return (saved - self._measured_cost(segment)) / max(self.caches[segment].cache.nbytes(), 1)

    # measurements

    def worth(self, segment: Segment) -> Iterator[Reading]:
        users = [c.root for c in self.reoptimizer.plan if _segment(c) == segment]
        yield Reading(Property.BENEFIT, sum(self._measured_benefit(root) or 0.0 for root in users))
        yield Reading(Property.MAINTENANCE, self._measured_cost(segment))

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        yield from super().measure(labels)
        states = list(self.reoptimizer.states.values())
        if not states:
            return
        own = [Reading(Property.STATE, states.count(s), str(s)) for s in State]
        own += [Reading(Property.CHANGES, self.log.count), Reading(Property.TUPLES, self._tuples)]
        names = [f"{what} {label}" for label in labels for what in ("share of", "seconds of")]
        own += self.log.measure(names, lambda plan: described(plan, labels), self._tuples)
        yield from under("caches", Kind.ADAPTIVE, own)


class _Use:
    """The executor's side of the contract."""

    def __init__(self, use: Callable[[CacheSet], None]) -> None:
        self.use = use


def _part(tuples: Tuples, some: slice) -> Tuples:
    """Tuples before the first step of a pipeline, some of them."""
    rows = {i: r[some] for i, r in tuples.rows.items()}
    return replace(tuples, rows=rows, starts=tuples.starts[some], ends=tuples.ends[some])


def described(plan: CacheSet, labels: Sequence[str]) -> str:
    """A set of caches in words."""
    ordered = sorted(plan, key=lambda c: (c.root, c.first))
    shown = [f"{named(c.inputs, _segment(c).beside, labels)} for {labels[c.root]}" for c in ordered]
    return ", ".join(shown) or "none"


def _segment(c: Candidate) -> Segment:
    assert isinstance(c.key, Segment)
    return c.key
