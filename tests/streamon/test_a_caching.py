"""A-Caching (thesis 5.5.5): the states of candidates, when caches are chosen and dropped, memory (5.6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from unittest.mock import Mock, patch

import numpy as np
import pyarrow as pa
import pytest
from restless import planned_by

from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.joins import operator
from penstock.engine.joins.adaptive_caching import AdaptiveCaches, Phase
from penstock.engine.joins.cache_profile import Keys
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.plan.explain_running import explain_running
from penstock.settings import Settings
from penstock.streamon import a_caching
from penstock.streamon.a_caching import CacheEvidence, CacheReoptimizer, State
from penstock.streamon.cache_selection import Candidate, Value, select
from penstock.streamon.settings import CACHES

LARGE = Candidate(5, 0, frozenset({0, 1, 2}))
SMALL = Candidate(5, 0, frozenset({0, 1}))
OTHER = Candidate(3, 1, frozenset({0, 1}), "another key")


def evidence(**nets: float) -> CacheEvidence:
    named = {"large": LARGE, "small": SMALL, "other": OTHER}
    return CacheEvidence({named[n]: Value(10.0 + net, 10.0) for n, net in nets.items()}, 1.0, ((1.0, 1.0),))


def reconsider(reoptimizer: CacheReoptimizer, **nets: float) -> bool:
    return reoptimizer.reconsider(evidence(**nets), lambda: None)


def started() -> CacheReoptimizer:
    reoptimizer = CacheReoptimizer(CACHES)
    reoptimizer.propose([LARGE, SMALL, OTHER])
    return reoptimizer


def test_all_start_profiled_and_the_best_are_used() -> None:
    reoptimizer = started()
    assert set(reoptimizer.states.values()) == {State.PROFILED}
    assert reconsider(reoptimizer, large=5, small=2, other=1)
    assert reoptimizer.states == {LARGE: State.USED, SMALL: State.UNUSED, OTHER: State.USED}
    assert reoptimizer.gain == pytest.approx(6.0)


def test_a_losing_cache_is_dropped_at_once() -> None:
    reoptimizer = started()
    reconsider(reoptimizer, large=5, small=2, other=1)
    assert reoptimizer.drop([LARGE])
    assert reoptimizer.plan == {OTHER} and reoptimizer.states[LARGE] is State.UNUSED


def test_only_a_cache_with_an_unused_part_is_profiled_again() -> None:
    """Point b: SMALL cannot be profiled behind LARGE; nothing is behind OTHER."""
    reoptimizer = started()
    reconsider(reoptimizer, large=5, small=2, other=1)
    assert reoptimizer.begin()
    assert reoptimizer.states == {LARGE: State.PROFILED, SMALL: State.PROFILED, OTHER: State.USED}
    assert reoptimizer.plan == {OTHER}


def test_the_selection_runs_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Point c: benefits or costs must change by more than 20 %."""
    selection = Mock(wraps=select)
    monkeypatch.setattr(a_caching, "select", selection)
    reoptimizer = started()
    reconsider(reoptimizer, large=5, small=2, other=1)
    reoptimizer.begin()
    # 15 to 17 and 12 to 13 are less than a fifth. What was set aside is used again.
    assert reconsider(reoptimizer, large=7, small=3, other=1)
    assert selection.call_count == 1
    assert reoptimizer.plan == {LARGE, OTHER}
    reoptimizer.begin()
    reconsider(reoptimizer, large=5, small=9, other=1)
    assert selection.call_count == 2
    assert reoptimizer.plan == {SMALL, OTHER}


def test_a_new_order_drops_the_caches_of_its_pipeline() -> None:
    """Step 5."""
    reoptimizer = started()
    reconsider(reoptimizer, large=5, small=2, other=1)
    new = Candidate(5, 1, frozenset({1, 2}))
    assert reoptimizer.propose([OTHER, new])
    assert reoptimizer.plan == {OTHER}
    assert reoptimizer.states == {OTHER: State.USED, new: State.PROFILED}


def test_intervals_grow_while_nothing_pays() -> None:
    reoptimizer = started()
    intervals = []
    for _ in range(9):
        reconsider(reoptimizer, large=-5, small=-2, other=-1)
        intervals.append(reoptimizer.interval)
        reoptimizer.begin()
    assert intervals[:2] == [2 * CACHES.interval, 4 * CACHES.interval]
    assert intervals[-1] == CACHES.longest_interval
    assert reconsider(reoptimizer, large=5, small=2, other=1)
    assert reoptimizer.interval == CACHES.interval


def test_what_saves_little_is_not_used() -> None:
    reoptimizer = started()
    assert not reconsider(reoptimizer, large=0.01, small=0.0, other=0.0)
    assert reoptimizer.plan == frozenset()


def test_misses_are_counted_by_a_bloom_filter() -> None:
    """Keys that the first half of a window had do not count: a cache in use would have them."""
    few, many = (Keys(replace(CACHES, bloom_tuples=1000, bloom_bits=64)) for _ in range(2))
    assert few.miss_probability is None and not few.enough
    random = np.random.default_rng(0)
    for at in range(0, 1000, 250):
        few.add(random.integers(0, 50, (250, 1)))
        many.add(np.concatenate([random.integers(0, 10, (125, 1)), 100 + at + np.arange(125)[:, None]]))
    assert few.enough and few.miss_probability == 0.0
    assert many.miss_probability == pytest.approx(0.5, abs=0.02)


# the running join

SPEC = {"R": "a", "S": "ab", "T": "b"}
FAST = replace(
    CACHES,
    observations=2,
    interval=2000,
    allowance_s=1.0,
    sample=64,
    bypass_every=4,
    bloom_tuples=512,
    probe_s=2e-8,
    read_s=1e-8,
    update_s=2e-8,
    call_s=0.0,
)
"""Times as in ``work_clock``."""


class Running:
    """R(a) ⋈ S(a, b) ⋈ T(b); rows of T have few different keys, each with many joined rows of R and S."""

    clock = staticmethod(time.thread_time)

    def __init__(self, join: str = "adaptive", thresholds: object = FAST) -> None:
        catalog = {n: Input(n, pa.schema([(c, pa.int64()) for c in cs])) for n, cs in SPEC.items()}
        query = "SELECT R.a, T.b FROM R [ROWS 300], S [ROWS 300], T [ROWS 50] WHERE R.a = S.a AND S.b = T.b"
        plan = compile(bind(query, catalog), 1, Settings("static", join))
        with patch.object(operator, "AdaptiveCaches", partial(self._new, thresholds=thresholds)):
            self.engine = Engine(plan.stages[0].stage)
        self.now = 0
        self.random = np.random.default_rng(0)

    def _new(self, *args: object, thresholds: object) -> AdaptiveCaches:
        self.caches = AdaptiveCaches(*args, thresholds, self.clock)
        return self.caches

    def step(self, r: int = 40, s: int = 40, t: int = 600) -> int:
        arrivals = []
        for (name, columns), count in zip(SPEC.items(), (r, s, t), strict=True):
            ts = np.sort(self.random.integers(self.now, self.now + 10, count))
            keys = {c: pa.array(self.random.integers(0, 15, count)) for c in columns}
            batch = pa.RecordBatch.from_pydict(
                {TS: pa.array(ts), **{f"{name}.{c}": k for c, k in keys.items()}}
            )
            arrivals.append(Arrival(name, 0, batch, self.now, self.now + 10))
        self.now += 10
        return self.engine.step(arrivals).only.batch.num_rows


@pytest.fixture
def work_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that counts what is done: a probe is 10 ticks, a tuple made one, a look-up two."""
    work = [0.0]

    from penstock.engine.joins import cache_update, caching, steps

    def counted(owner: object, name: str, price: float, made: float = 1.0) -> None:
        plain = getattr(owner, name)

        def call(self: object, tuples: object) -> object:
            before = len(tuples)
            out = plain(self, tuples)
            work[0] += price * before + made * len(out)
            return out

        monkeypatch.setattr(owner, name, call)

    counted(steps.Probe, "run", 10.0)
    counted(caching.CacheLookup, "run", 2.0)
    counted(cache_update.CacheUpdate, "run", 2.0)
    monkeypatch.setattr(Running, "clock", staticmethod(lambda: work[0] * 1e-8))
    yield


@pytest.mark.usefixtures("work_clock")
@pytest.mark.slow
def test_a_cache_that_pays_is_found_and_kept() -> None:
    running, plain = Running(), Running("mjoin")
    for _ in range(30):
        assert running.step() == plain.step()
    caches = running.caches
    assert (2, {0, 1}) in [(c.root, set(c.inputs)) for c in caches.reoptimizer.plan]
    cache = next(c for s, c in caches.caches.items() if s.inputs == (0, 1))
    assert cache.cache.hits > 20 * cache.cache.misses
    found = measured(running.engine.measure())
    assert "R ⋈ S for T" in found.of_kind(Kind.CACHE).texts(Property.DESCRIPTION)
    made = [m.text for m in found.of_kind(Kind.DECISION).of(Property.DECIDED_AT) if "caches" in m.entity]
    assert "R ⋈ S for T" in made[-1]


@pytest.mark.usefixtures("work_clock")
def test_a_cache_is_not_judged_while_it_fills() -> None:
    running = Running()
    for _ in range(20):
        running.step()
    caches = running.caches
    cache = next(c.cache for s, c in caches.caches.items() if s.inputs == (0, 1))
    for found in (False, True):
        cache.hits, cache.misses = (FAST.bloom_tuples if found else -(10**6)), 0
        caches.profile[2].cached.clear()
        running.step()
        assert bool(caches.profile[2].cached) == found


@pytest.mark.usefixtures("work_clock")
@pytest.mark.slow
def test_a_cache_of_which_too_little_is_known_stays() -> None:
    """Few slices have gone through it when the next interval is over: what it was chosen for still counts."""
    running = Running(thresholds=replace(FAST, observations=16, interval=4000))
    for _ in range(60):
        running.step()
    caches = running.caches
    assert any(c.root == 2 for c in caches.reoptimizer.plan)
    assert caches.log.count == 1


@pytest.mark.slow
@pytest.mark.usefixtures("work_clock")
@pytest.mark.long
def test_a_burst_of_updates_drops_it_and_it_comes_back() -> None:
    running, plain = Running(), Running("mjoin")
    for _ in range(20):
        assert running.step() == plain.step()
    assert running.caches.caches
    for _ in range(25):
        assert running.step(600, 600, 20) == plain.step(600, 600, 20)
    assert not any(c.root == 2 for c in running.caches.reoptimizer.plan)
    for _ in range(60):
        assert running.step() == plain.step()
    assert any(c.root == 2 for c in running.caches.reoptimizer.plan)


@pytest.mark.usefixtures("work_clock")
@pytest.mark.slow
def test_profiled_and_bypassing_slices_use_no_cache() -> None:
    running = Running()
    for _ in range(20):
        running.step()
    caches, profile = running.caches, running.caches.profile[2]
    cache = caches.caches.copy().popitem()[1]
    while caches.phase is not Phase.IDLE:
        running.step()
    assert caches.budget.spent > 0
    tuples, looked, plain = caches._tuples, cache.cache.hits + cache.cache.misses, list(profile.plain)
    for _ in range(8):
        running.step()
    used = cache.cache.hits + cache.cache.misses - looked
    assert 0 < used < caches._tuples - tuples
    assert list(profile.plain) != plain


@pytest.mark.usefixtures("work_clock")
@pytest.mark.slow
def test_what_is_learned_is_paid_from_a_budget() -> None:
    """Without an allowance nothing is profiled, and no cache is found; results are the same."""
    running, plain = Running(thresholds=replace(FAST, allowance_s=-1.0, overhead_share=0.0)), Running("mjoin")
    for _ in range(20):
        assert running.step() == plain.step()
    caches = running.caches
    assert not caches.caches and caches.budget.spent == 0.0
    assert not any(p.joins for p in caches.profile.pipelines)


@pytest.mark.usefixtures("work_clock")
def test_candidates_that_cannot_pay_are_not_profiled() -> None:
    """A look-up that takes as long as the pipeline itself: plain slices tell, and that is all."""
    running = Running(thresholds=replace(FAST, probe_s=1e-3))
    for _ in range(20):
        running.step()
    caches = running.caches
    assert caches.phase is Phase.IDLE and caches.reoptimizer.interval > FAST.interval
    assert not any(p.joins for p in caches.profile.pipelines)
    assert set(caches.reoptimizer.states.values()) == {State.UNUSED}


def test_dear_look_ups_are_never_used() -> None:
    running, plain = Running(thresholds=replace(FAST, probe_s=1.0)), Running("mjoin")
    for _ in range(12):
        assert running.step() == plain.step()
    assert not running.caches.caches and running.caches.reoptimizer.interval > FAST.interval


def test_memory_goes_to_the_cache_that_saves_most_per_byte() -> None:
    running = Running()
    caches = running.caches
    for _ in range(3):
        running.step()
    found = [c for c in caches.reoptimizer.states if len(c.inputs) == 2][:2]
    caches.place(frozenset(found))
    caches._memory = caches._most_memory = 4 * FAST.page
    caches.share(dict.fromkeys(caches.caches, 1.0))
    rich, poor = caches.caches
    with patch.object(AdaptiveCaches, "_priority", lambda self, s: 2.0 if s == rich else 1.0):
        pages = caches._pages
        pages.allot(caches._memory, caches.caches, caches._priority)
        caches.caches[rich].cache.evicted += 1
        pages.allot(caches._memory, caches.caches, caches._priority)
        limits = {s: c.cache.limit for s, c in caches.caches.items()}
        assert limits[rich] > limits[poor] >= FAST.page
        assert sum(limits.values()) <= caches._memory
        # Less memory: the cache that saves less gives its back first.
        caches.allow(limits[rich])
        assert caches.caches[poor].cache.limit == 0 and caches.caches[rich].cache.limit == limits[rich]
        caches.allow(1000)
        assert caches.caches[rich].cache.limit == 1000
        caches.allow(1 << 30)
    assert sum(c.cache.limit for c in caches.caches.values()) <= caches._memory == 4 * FAST.page


@pytest.mark.usefixtures("work_clock")
@pytest.mark.slow
def test_explain_of_caches_and_of_why_they_changed() -> None:
    running = Running()
    for _ in range(30):
        running.step()
    lines = explain_running(measured(running.engine.measure())).splitlines()
    (cache,) = [line for line in lines if "cache R ⋈ S for T" in line]
    assert "% hits, " in cache and " MB; saves " in cache and cache.endswith(" ns per tuple")
    assert any("a-caching: 1 used" in line for line in lines)
    assert any("caches R ⋈ S for T; expected to save " in line for line in lines)
    caches = running.caches
    caches.reoptimizer.drop(list(caches.reoptimizer.plan))
    caches._use_fewer("what was dropped cost more than it saved")
    running.step()
    lines = explain_running(measured(running.engine.measure())).splitlines()
    assert any(line.endswith("caches none; what was dropped cost more than it saved") for line in lines)
    assert any(
        "since the log began: adapting saved " in line and "over always R ⋈ S" in line for line in lines
    )


@pytest.mark.slow
def test_candidates_of_a_cyclic_join_do_not_stay_profiled() -> None:
    """Orders change all the time, so that some candidates have no observations: they are left out then."""
    spec = {"R": "ac", "S": "ab", "T": "bc"}
    catalog = {n: Input(n, pa.schema([(c, pa.int64()) for c in cs])) for n, cs in spec.items()}
    where = "R.a = S.a AND S.b = T.b AND T.c = R.c"
    query = f"SELECT R.a FROM R [ROWS 200], S [ROWS 200], T [ROWS 200] WHERE {where}"
    made: list[AdaptiveCaches] = []

    def new(*args: object) -> AdaptiveCaches:
        made.append(AdaptiveCaches(*args, FAST))
        return made[0]

    with patch.object(operator, "AdaptiveCaches", new), planned_by("restless"):
        engine = Engine(compile(bind(query, catalog), 1, Settings("static", "adaptive")).stages[0].stage)
        random, phases = np.random.default_rng(3), set()
        for step in range(60):
            arrivals = []
            for name, columns in spec.items():
                batch = {f"{name}.{c}": pa.array(random.integers(0, 8, 40)) for c in columns}
                ts = pa.array(np.full(40, step))
                arrivals.append(
                    Arrival(name, 0, pa.RecordBatch.from_pydict({TS: ts, **batch}), step, step + 1)
                )
            engine.step(arrivals)
            phases.add(made[0].phase)
    assert Phase.IDLE in phases
    assert made[0].phase is not Phase.IDLE or State.PROFILED not in made[0].reoptimizer.states.values()
