"""Plans that change as often as they can: what a query returns may not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from caches import AnyCaches

from penstock.engine import conjunction
from penstock.engine.entity import Entity
from penstock.engine.joins import drop_probing, inputs, k_mon, monitored, operator, pipeline
from penstock.engine.joins.adaptive_caching import AdaptiveCaches
from penstock.engine.operators import w_join
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.scheduler import SCHEDULERS, Scheduler
from penstock.plan.build import Builder
from penstock.plan.join_trees import Tree, divisions
from penstock.settings import Settings
from penstock.streamon.access import AdaptiveAccess
from penstock.streamon.matching import AdaptiveMatching
from penstock.streamon.orderings import ALGORITHMS
from penstock.streamon.pipelined_filters import Evaluate, PipelinedFilters
from penstock.streamon.settings import ADHERENCE, MATCHING, W_JOINS, CacheThresholds, Thresholds
from penstock.streamon.w_join import AdaptiveWJoin

PLANNERS = ("as set", "restless", *ALGORITHMS)
"""Who orders filters and probes: what the query's settings say, a die, or an algorithm that never rests."""
EAGER = Thresholds(
    drop_profiling_probability=1.0,
    profile_window=8,
    alpha=1.0,
    burst=2,
    drift_std_errors=0.1,
    overhead_share=1e9,
    slice_tuples=64,
    drift_sample=1,
)
"""Profiles everything, takes anything for a change of the stream, and has time without limit."""
EAGER_CACHES = CacheThresholds(
    observations=1,
    interval=1,
    least_gain=0.0,
    allowance_s=1e9,
    sample=1,
    least_sample=1,
    bypass_every=3,
    bloom_tuples=4,
    probe_s=-1.0,
    page=512,
)
"""Decides after every step, and takes look-ups for a gain."""
SLICE = 3


class AnyOrder(Scheduler):
    """Any operator that can run: windows may be far ahead of their readers."""

    def __init__(self) -> None:
        self._die = Random(7)

    def choose(self, ready: Sequence[Entity]) -> Entity:
        return self._die.choice(ready)


SCHEDULERS["any order"] = AnyOrder


class Restless(PipelinedFilters):
    """Another order, at random, for every few rows."""

    def __init__(self, n: int, algorithm: str = "static") -> None:
        super().__init__(n, "static")
        self._die = Random(n)

    def run(
        self,
        count: int,
        evaluate: Evaluate,
        alone: Evaluate | None = None,
        keep: Any = None,
        process: Evaluate | None = None,
    ) -> Any:
        kept, go_on = [], process or evaluate
        for at in range(0, count, SLICE):
            self._die.shuffle(self.ordering.order)
            rows = min(SLICE, count - at)
            kept.append(at + super().run(rows, lambda f, some, at=at: go_on(f, some + at)))
        return np.concatenate(kept) if kept else np.empty(0, np.int64)


class RestlessMatching(AdaptiveMatching):
    """A first match or all matches, at random, for every few rows."""

    def __init__(self, n: int) -> None:
        super().__init__(n, replace(MATCHING, sample=1))
        self._die = Random(n)

    def asks_first(self, *_: int) -> bool:
        return self._die.random() < 0.5


class RestlessWJoin(AdaptiveWJoin):
    """Another algorithm, at random, for every step."""

    def __init__(self, algorithms: Sequence[str], *more: Any) -> None:
        super().__init__(algorithms if len(algorithms) == 1 else W_JOINS, *more)
        self._die = Random(len(algorithms))

    def looks(self, rows: int) -> bool:
        self.algorithm = self._die.choice(self.algorithms)
        return self._die.random() < 0.5


class RestlessAccess(AdaptiveAccess):
    """Another access method, at random, after every step."""

    def __init__(self, methods: Sequence[str], chooser: Any = None) -> None:
        super().__init__(methods, chooser)
        self._die = Random(len(methods))

    def reconsider(self, updates: int, window: int) -> str | None:
        before, self.method = self.method, self._die.choice(self.methods)
        return self.method if self.method != before else None


def any_tree(self: Builder, flat: MJoin, inputs: Any) -> Tree | None:
    """A tree at random, without cross products."""
    traffic = self._traffic(flat, inputs)
    if len(flat.moving) < 3 or flat.is_static or not traffic.connected(frozenset(flat.moving)):
        return None
    die = Random(flat.describe())

    def grown(some: tuple[int, ...]) -> Tree:
        if len(some) == 1:
            return some[0]
        ways = [d for d in divisions(some) if all(traffic.connected(frozenset(b)) for b in d)]
        return tuple(map(grown, die.choice(ways)))

    return grown(flat.moving)


EAGER_ADAPTIVE = partial(AdaptiveCaches, thresholds=EAGER_CACHES)


@contextmanager
def _cached_by(chosen: Any) -> Iterator[None]:
    """Joins with caches that ``chosen`` chooses, whatever the settings say."""
    adaptive = property(lambda settings: "adaptive", lambda settings, value: None)
    with patch.object(operator, "AdaptiveCaches", chosen), patch.object(Settings, "join", adaptive):
        yield


JOINS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "as set": nullcontext,
    "any caches": lambda: _cached_by(AnyCaches),
    "eager caches": lambda: _cached_by(EAGER_ADAPTIVE),
    "any tree": lambda: patch.object(Builder, "_tree", any_tree),
}
"""How joins of three or more inputs are planned."""


@contextmanager
def planned_by(planner: str, joins: str = "as set") -> Iterator[None]:
    """Let every operator that starts meanwhile be planned by one of ``PLANNERS`` and ``JOINS``."""
    with JOINS[joins](), _ordered_by(planner), collecting_always():
        yield


@contextmanager
def collecting_always() -> Iterator[None]:
    """Let joins with constraints look for rows to drop after every row, and take little for evidence."""
    eager = {kind: replace(t, window=2, evidence=0, sample=0.2) for kind, t in ADHERENCE.items()}
    with (
        patch.object(k_mon, "COLLECT_ROWS", 0),
        patch.object(k_mon, "COLLECT_SHARE", 0.0),
        patch.object(monitored, "MONITORED_ROWS", 1),
        patch.object(monitored, "MONITORED_SHARE", 0.0),
        patch.object(monitored, "ADHERENCE", eager),
    ):
        yield


@contextmanager
def _ordered_by(planner: str) -> Iterator[None]:
    if planner == "as set":
        yield
        return

    def filters(n: int, _: str = "") -> PipelinedFilters:
        return Restless(n) if planner == "restless" else PipelinedFilters(n, planner, EAGER)

    with (
        patch.object(conjunction, "PipelinedFilters", filters),
        patch.object(drop_probing, "PipelinedFilters", filters),
        patch.object(drop_probing, "AdaptiveMatching", RestlessMatching),
        patch.object(pipeline, "SLICE", SLICE),
        patch.object(inputs, "AdaptiveAccess", RestlessAccess),
        patch.object(w_join, "AdaptiveWJoin", RestlessWJoin),
    ):
        yield
