"""The caches of a join chosen while it runs: executor and profiler of A-Caching (thesis 5.5.3, figure 5.10).

What a slice of tuples takes is known for each way to process it:

* without caches, by drop probing: the normal way, and one in some slices where there are caches;
* with the caches in use;
* *profiled*: all probes one after the other, without caches and without drop probing, each of them timed.
  That gives the tuples d and the cost c of each join of a pipeline.

Slices are profiled only until there are enough observations. All of them give the same results, so the cost
of profiling is what a profiled slice takes more than a normal one. How many look-ups of a candidate would
miss is estimated by a Bloom filter over the keys that reach it.

Units: seconds per tuple of the whole join, so that rates are shares of its tuples.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.joins.caching import JoinCaches, Placement, Segment, keyed, segment_of
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.steps import Filter, Probe, Verify
from penstock.engine.joins.tuples import Tuples
from penstock.engine.kernels.caching import mark
from penstock.measurement import Kind, Property, Reading, under
from penstock.streamon.a_caching import CacheEvidence, CacheProfiler, CacheReoptimizer, CacheSet, State
from penstock.streamon.cache_selection import Candidate, Value, benefit, with_global
from penstock.streamon.framework import PlanLog, StreaMon
from penstock.streamon.settings import CACHES, PATIENCE, RARE, CacheThresholds

if TYPE_CHECKING:
    from penstock.engine.joins.pipeline import Pipeline


class Keys:
    """How many different keys reach a candidate: a Bloom filter over windows of tuples (5.5.3)."""

    def __init__(self, thresholds: CacheThresholds) -> None:
        self._bits = np.zeros(thresholds.bloom_tuples * thresholds.bloom_bits, np.bool_)
        self._most = thresholds.bloom_tuples
        self._tuples = self._marked = 0
        self._shares: deque[float] = deque(maxlen=thresholds.observations)

    def add(self, words: np.ndarray) -> None:
        self._marked += mark(self._bits, words)
        self._tuples += len(words)
        if self._tuples >= self._most:
            self._shares.append(self._marked / self._tuples)
            self._bits[:] = False
            self._tuples = self._marked = 0

    @property
    def miss_probability(self) -> float:
        """The share of tuples whose key is the first of its kind; 1 while there are too few."""
        if self._shares:
            return fmean(self._shares)
        return self._marked / self._tuples if self._tuples > self._most // 8 else 1.0


class PipelineProfile:
    """What is known of the pipeline of one input: the last observations of each statistic."""

    def __init__(self, joins: int, size: int) -> None:
        self.tuples = self.entered = 0.0
        """Recent tuples, and recent rows that entered the input."""
        self.slices = 0
        # (seconds, tuples) of slices
        self.plain: deque[tuple[float, int]] = deque(maxlen=size)
        self.cached: deque[tuple[float, int]] = deque(maxlen=size)
        self.joins: deque[np.ndarray] = deque(maxlen=size)
        self._none = np.ones((2, joins + 1))

    def clear(self) -> None:
        self.joins.clear()
        self.cached.clear()

    @property
    def uncached(self) -> float:
        """Seconds of a tuple without caches."""
        return _mean(self.plain)

    def slice_size(self) -> float:
        """Tuples of a profiled slice."""
        return fmean(seen[0, 0] for seen in self.joins) if self.joins else 1.0

    def probes(self) -> tuple[np.ndarray, np.ndarray]:
        """For each join the tuples that reach it per tuple of the input, and what each of those takes; at the
        end, the tuples that all joins return.
        """
        total = np.sum(self.joins, axis=0) if self.joins else self._none
        tuples, seconds = total
        return tuples / max(tuples[0], 1.0), seconds / np.maximum(tuples, 1.0)


class AdaptiveCaches(JoinCaches):
    """The caches that A-Caching chooses."""

    def __init__(
        self,
        inputs: JoinInputs,
        later: Collection[int],
        memory: int,
        thresholds: CacheThresholds = CACHES,
    ) -> None:
        super().__init__(inputs, later, memory)
        self.thresholds = thresholds
        self.reoptimizer = CacheReoptimizer(thresholds)
        self.log = PlanLog[CacheSet](thresholds.plan_log_size)
        self._streamon = StreaMon(_Use(self.place), CacheProfiler(), self.reoptimizer, self.log)
        size = thresholds.observations
        self._profiles = [PipelineProfile(len(inputs) - 1, size) for _ in range(len(inputs))]
        self._orders: list[tuple[int, ...]] = [()] * len(inputs)
        self._keys: dict[Candidate, Keys] = {}
        # Recent seconds that the caches' updates took, and the tuples of the join meanwhile.
        self._feeding: dict[Segment, float] = {}
        self._fed = 0.0
        self._tuples = 0
        self._next = 0
        self._patience = 1
        self._seen: dict[Segment, tuple[int, int]] = {}
        self._stale = False
        self._segments: dict[tuple[frozenset[int], frozenset[int]], Segment | None] = {}

    # executor

    def place(self, plan: CacheSet) -> None:
        """Use the caches of a plan."""
        self.use(frozenset(Placement(c.root, _segment(c)) for c in plan))
        self._feeding = dict.fromkeys(self.caches, 0.0)
        self._fed = 0.0
        for root in {c.root for c in plan}:
            self._profiles[root].cached.clear()
            # What slices take without the caches is measured again beside those with them.
            self._profiles[root].plain.clear()

    def run(self, pipeline: Pipeline, tuples: Tuples) -> Tuples:
        root, count = pipeline.root, len(tuples)
        order = tuple(pipeline.order())
        if order != self._orders[root]:
            self._reordered(root, order)
        profile = self._profiles[root]
        self._tuples += count
        self._fed += count
        profile.tuples += count
        profile.slices += 1
        large = count >= self.thresholds.least_slice
        if large:
            self._note_keys(root, tuples)
        if large and self._to_profile(root):
            return self._profiled(pipeline, order, tuples)
        elements = self.elements(root, order)
        cached = any(not isinstance(e, int) for e in elements)
        bypassed = cached and profile.slices % self._bypass_every(profile) == 0
        began = time.thread_time()
        steps = pipeline.cached_steps(elements) if cached and not bypassed else pipeline.steps()
        found = pipeline.through(steps, tuples)
        if large:
            seen = profile.cached if cached and not bypassed else profile.plain
            seen.append((time.thread_time() - began, count))
        return found

    def _bypass_every(self, profile: PipelineProfile) -> int:
        """Every other slice does without caches until it is known what they save, then few do."""
        t = self.thresholds
        return 2 if len(profile.plain) < t.observations else t.bypass_every

    def updated(self, j: int, rows: Int64s) -> None:
        self._profiles[j].entered += len(rows)
        if not self.caches:
            return
        for segment, cache in self.caches.items():
            if j in segment.inputs and len(rows):
                began = time.thread_time()
                self.feed(cache, j, rows)
                self._feeding[segment] += time.thread_time() - began

    # profiler

    def _to_profile(self, root: int) -> bool:
        """Whether the next slice of a pipeline is to be profiled."""
        profile = self._profiles[root]
        wanted = self._wanted().get(root, 0)
        return len(profile.joins) < wanted and not profile.slices % self.thresholds.profile_every

    def _wanted(self) -> dict[int, int]:
        """For each pipeline that profiled candidates depend on, the observations that they need."""
        profiled, t = self.reoptimizer.profiled(), self.thresholds
        found = dict.fromkeys((j for c in profiled for j in c.inputs), max(t.observations // 4, 1))
        return {**found, **dict.fromkeys((c.root for c in profiled), t.observations)}

    def _profiled(self, pipeline: Pipeline, order: Sequence[int], tuples: Tuples) -> Tuples:
        """Take tuples through all probes, and note how many reach each and how long they take."""
        root, bound = pipeline.root, {pipeline.root}
        seen = np.zeros((2, len(order) + 1))
        tuples = Filter(self.inputs, ()).run(tuples)
        waiting = [c for c in self._keys if c.root == root and c.first]
        for position, j in enumerate(order):
            seen[0, position] = len(tuples)
            for c in (c for c in waiting if c.first == position):
                classes = _segment(c).classes
                # In a cycle an input of the segment may be the first of a class: then there is no key yet.
                if all(bound & self.inputs.column[k].keys() for k in classes):
                    self._keys[c].add(keyed(self.inputs, classes, tuples, bound)[1])
            began = time.thread_time()
            tuples = Filter(self.inputs, bound).run(Probe(self.inputs, root, j, None).run(tuples))
            seen[1, position] = time.thread_time() - began
            bound = {*bound, j}
        seen[0, -1] = len(tuples)
        self._profiles[root].joins.append(seen)
        return Verify(self.inputs).run(tuples)

    def _note_keys(self, root: int, tuples: Tuples) -> None:
        """The keys of candidates that stand first in a pipeline: all of its tuples have them."""
        for c, keys in self._keys.items():
            if c.root == root and not c.first:
                keys.add(keyed(self.inputs, _segment(c).classes, tuples, {root})[1])

    def _reordered(self, root: int, order: tuple[int, ...]) -> None:
        """The order of a pipeline has changed: its caches fit no more, and there are other candidates."""
        self._orders[root] = order
        self._profiles[root].clear()
        self._stale = True

    def _propose(self) -> None:
        """The candidates of the current orders."""
        self._stale = False
        found = with_global(self._orders, self.thresholds.quota, self._key)
        if self.reoptimizer.propose(found):
            self.place(self.reoptimizer.plan)
        self._watch_keys()

    def _key(self, before: Collection[int], members: Collection[int]) -> Segment | None:
        asked = frozenset(before), frozenset(members)
        if asked not in self._segments:
            self._segments[asked] = segment_of(self.inputs, before, members)
        return self._segments[asked]

    def _watch_keys(self) -> None:
        profiled = self.reoptimizer.profiled()
        self._keys = {c: self._keys.get(c) or Keys(self.thresholds) for c in profiled}

    def _profile_again(self) -> None:
        self._watch_keys()
        for profile in self._profiles:
            profile.joins.clear()

    # re-optimizer

    def settle(self) -> None:
        """A step is over: drop caches that do not pay, and reconsider the others when it is time."""
        if self._stale and all(self._orders):
            self._propose()
        self._drop_losing()
        if self.reoptimizer.profiled():
            if self._observed():
                self._decide()
        elif self.reoptimizer.states and self._tuples >= self._next:
            if self.caches:
                self._patience = 1
            if self.reoptimizer.begin():
                self.place(self.reoptimizer.plan)
            self._profile_again()
        self._allot()
        self._age()

    def _age(self) -> None:
        """Let what is recent count twice what was before."""
        if self._recent() < self.thresholds.interval // 4:
            return
        for profile in self._profiles:
            profile.tuples, profile.entered = profile.tuples / 2, profile.entered / 2
        self._feeding = {s: seconds / 2 for s, seconds in self._feeding.items()}
        self._fed /= 2

    def _recent(self) -> float:
        return max(sum(p.tuples for p in self._profiles), 1.0)

    def _observed(self) -> bool:
        """Whether every statistic of the profiled candidates has enough observations.

        A pipeline with few tuples may have fewer: then a cache for it does not pay, and updates from it are
        taken to cost what its tuples take.
        """
        wanted = self._wanted()
        busy = [r for r in wanted if self._profiles[r].tuples * RARE * len(wanted) > self._recent()]
        return bool(busy) and all(len(self._profiles[r].joins) >= wanted[r] for r in busy)

    def _decide(self) -> None:
        evidence = self.evidence()
        self._streamon.adapt(self._tuples, evidence)
        self._keys = {}
        self._next = self._tuples + self._patience * self.reoptimizer.interval

    def evidence(self) -> CacheEvidence:
        """Benefit and cost of every used and profiled candidate (5.5.1)."""
        whole = self._recent()
        traffic = tuple((p.tuples / whole, p.uncached) for p in self._profiles)
        states = self.reoptimizer.states.items()
        values = {c: self._value(c, whole) for c, s in states if s is not State.UNUSED}
        return CacheEvidence(values, sum(share * cost for share, cost in traffic), traffic)

    def _value(self, c: Candidate, whole: float) -> Value:
        profile, t = self._profiles[c.root], self.thresholds
        measured = self._measured_benefit(c.root) if c in self.reoptimizer.plan else None
        if measured is not None:
            return Value(measured, self._measured_cost(_segment(c)))
        rate = profile.tuples / whole
        if len(profile.joins) < t.observations:
            return Value(0.0, self._cost(c, whole))
        tuples, seconds = profile.probes()
        at, stop = c.first, c.first + len(c.inputs)
        entry = tuples[stop] / max(tuples[at], 1e-9)
        looked_up = profile.slice_size() * tuples[at]
        probe = t.probe_s + t.read_s * entry + t.call_s / max(looked_up, 1.0)
        joins = tuples[at:stop].tolist(), seconds[at:stop].tolist()
        saved = benefit(*joins, tuples[stop], probe, t.update_s, self._miss_probability(c))
        # Caches are in the place of drop probing too, which takes more or less than all probes do.
        dearer = float(tuples[:-1] @ seconds[:-1]) - profile.uncached
        return Value(rate * (saved - dearer), self._cost(c, whole))

    def _miss_probability(self, c: Candidate) -> float:
        """As observed of a cache in use, else as its keys say."""
        cache = self.caches.get(_segment(c))
        if cache is not None and cache.cache.hits + cache.cache.misses > self.thresholds.bloom_tuples // 8:
            return cache.cache.misses / (cache.cache.hits + cache.cache.misses)
        return self._keys[c].miss_probability if c in self._keys else 1.0

    def _cost(self, c: Candidate, whole: float) -> float:
        """Probes and insertions for new rows of the candidate's inputs."""
        total = 0.0
        for j in c.inputs:
            profile = self._profiles[j]
            if not profile.joins:  # so few rows that they were not profiled
                total += profile.entered / whole * profile.uncached
                continue
            tuples, seconds = profile.probes()
            inside = [p for p, k in enumerate(self._orders[j]) if k in c.inputs]
            work = sum(tuples[p] * seconds[p] for p in inside)
            total += profile.entered / whole * (work + tuples[inside[-1] + 1] * self.thresholds.update_s)
        return total

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
            self.log.add(
                self._tuples, CacheProfiler().statistics(self.evidence()), self.reoptimizer.plan, 0.0
            )
            self.place(self.reoptimizer.plan)
            self._patience = min(2 * self._patience, PATIENCE)
            self._next = self._tuples + self._patience * self.reoptimizer.interval

    def _measured_benefit(self, root: int) -> float | None:
        """What the caches of a pipeline save per tuple of the join; None while too little is known."""
        profile, whole = self._profiles[root], self._recent()
        least = self.thresholds.observations
        if min(len(profile.cached), len(profile.plain)) < least:
            return None
        return profile.tuples / whole * (profile.uncached - _mean(profile.cached))

    def _most_saved(self, root: int) -> float:
        """What the tuples of a pipeline take per tuple of the join; infinite as long as it is unknown."""
        profile = self._profiles[root]
        return profile.tuples / self._recent() * profile.uncached if profile.plain else float("inf")

    def _measured_cost(self, segment: Segment) -> float:
        return self._feeding[segment] / max(self._fed, 1.0)

    # memory

    def _allot(self) -> None:
        """Give caches that are full more pages, as far as there are any or others use theirs less (5.6)."""
        page = self.thresholds.page
        for segment in sorted(self.caches, key=self._priority, reverse=True):
            cache = self.caches[segment].cache
            evicted, limit = self._seen.get(segment, (0, 0))
            self._seen[segment] = cache.evicted, cache.limit
            if cache.evicted == evicted or limit != cache.limit:
                continue
            wanted = max(cache.limit // page, 1) * page
            free = self._memory - sum(c.cache.limit for c in self.caches.values())
            granted = min(wanted, free) + self._taken(segment, max(wanted - free, 0))
            if granted > 0:
                cache.resize(cache.limit + granted, self.caches[segment].bases())

    def _taken(self, segment: Segment, wanted: int) -> int:
        """Take memory from the caches that save less per byte, those that save least first."""
        own, taken = self._priority(segment), 0
        for other in sorted(self.caches, key=self._priority):
            cache = self.caches[other]
            if taken >= wanted or self._priority(other) >= own:
                break
            part = min(wanted - taken, cache.cache.limit - self.thresholds.page)
            if part > 0:
                cache.cache.resize(cache.cache.limit - part, cache.bases())
                taken += part
        return taken

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
        own += self.log.measure(names, lambda plan: described(plan, labels))
        yield from under("caches", Kind.ADAPTIVE, own)


class _Use:
    """The executor's side of the contract."""

    def __init__(self, use: Callable[[CacheSet], None]) -> None:
        self.use = use


def _mean(seen: Collection[tuple[float, int]]) -> float:
    """Seconds per tuple of some slices."""
    return sum(s for s, _ in seen) / sum(n for _, n in seen) if seen else 0.0


def described(plan: CacheSet, labels: Sequence[str]) -> str:
    """A set of caches in words."""
    ordered = sorted(plan, key=lambda c: (c.root, c.first))
    shown = [f"{' ⋈ '.join(labels[m] for m in sorted(c.inputs))} for {labels[c.root]}" for c in ordered]
    return ", ".join(shown) or "none"


def _segment(c: Candidate) -> Segment:
    assert isinstance(c.key, Segment)
    return c.key
