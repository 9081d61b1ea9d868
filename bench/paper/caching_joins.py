"""Chapter 5 from 5.8 on: windowed stream joins as MJoins, XJoins, and MJoins with caches.

Joins run on one engine, without Spark, over row windows as in 5.8.1: each inserted tuple is deleted later.
Rows come in steps of some thousand, which are shorter than the windows. There are two measures:

* *time*: input tuples per second of CPU. It has all that the engine does, windows and results too. In the
  thesis joins were more than 95 % of it, and a probe took microseconds; here it takes nanoseconds.
* *work*: operations per input tuple, the unit-time cost of 5.5.1 with each operation one unit: a probe of a
  window, a joined tuple made, a key looked up in or added to a cache, a joined tuple read from or added to
  one, a subresult that a tree stores or removes. The thesis prints no ratios of these costs. Adaptive plans
  run a second time with a clock that counts work, so that caches are chosen by the same measure.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from bench.paper.figure import Row
from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.joins import drop_probing, operator
from penstock.engine.joins.adaptive_caching import AdaptiveCaches
from penstock.engine.joins.caching import JoinCaches, Placement
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.segments import segment_of
from penstock.engine.stage import TS, Arrival
from penstock.engine.synopses.cache import Cache
from penstock.plan import compile
from penstock.plan.build import Builder
from penstock.plan.join_trees import Tree
from penstock.settings import Settings
from penstock.streamon.matching import AdaptiveMatching
from penstock.streamon.settings import CACHES, CacheThresholds

Batch = Mapping[str, Mapping[str, np.ndarray]]
"""The new rows of a step: columns by name, by stream; with ``ts`` if they are not spread evenly."""
TICKS = 1 << 20
"""Of a step."""

AS_IN_THE_THESIS = replace(
    CACHES, quota=6, least_gain=0.0, interval=1 << 17, sample=256, allowance_s=0.05, bloom_tuples=1 << 13
)
"""m = 6, W = 10 (5.8.1, 5.8.4); I is counted in tuples."""
UNIT = 1e-6
"""Seconds of an operation by the clock that counts work."""
BY_WORK = replace(AS_IN_THE_THESIS, probe_s=UNIT, read_s=UNIT, update_s=UNIT, call_s=0.0, allowance_s=1.0)


class Work:
    """Counts the operations of a join; as a clock, in seconds of one UNIT each."""

    def __init__(self, inputs: JoinInputs, caches: JoinCaches | None = None) -> None:
        self._inputs, self.caches = inputs, caches
        self._seen: dict[int, Cache] = {}

    def probes(self) -> int:
        return sum(self._inputs.probes)

    def look_ups(self) -> int:
        return sum(c.hits + c.misses for c in self._known())

    def made(self) -> int:
        """Joined tuples that probes made."""
        return sum(self._inputs.matches)

    def _known(self) -> list[Cache]:
        """All caches until now, dropped ones too."""
        if self.caches is not None:
            self._seen.update({id(c.cache): c.cache for c in self.caches.caches.values()})
        return list(self._seen.values())

    def units(self) -> int:
        # What a join stores are subresults: rows of windows are in the windows' stores.
        stored = sum(2 * store.inserted for store in self._inputs.owned)
        return self.probes() + self.made() + stored + sum(c.operations for c in self._known())

    def __call__(self) -> float:
        return UNIT * self.units()


@dataclass
class Plan:
    """A way to run a join: its name, settings, and what is patched while its operators start."""

    name: str
    join: str = "mjoin"
    patches: Sequence[Callable[[], AbstractContextManager[Any]]] = ()
    filters: str = "a-greedy"


def mjoin() -> Plan:
    return Plan("mjoin")


def adaptive(name: str, thresholds: CacheThresholds = AS_IN_THE_THESIS, memory: int = 64 << 20) -> Plan:
    """A-Caching: with quota 0 only caches with the prefix invariant."""

    def new(inputs: Any, later: Any, _: int) -> AdaptiveCaches:
        return AdaptiveCaches(inputs, later, memory, thresholds)

    return Plan(name, "adaptive", [lambda: patch.object(operator, "AdaptiveCaches", new)])


def by_work(name: str, thresholds: CacheThresholds = BY_WORK, memory: int = 64 << 20) -> Plan:
    """A-Caching that goes by counted work."""

    def new(inputs: Any, later: Any, _: int) -> AdaptiveCaches:
        clock = Work(inputs)
        clock.caches = AdaptiveCaches(inputs, later, memory, thresholds, clock)
        return clock.caches

    return Plan(name, "adaptive", [lambda: patch.object(operator, "AdaptiveCaches", new)])


def forced(name: str, placements: Sequence[tuple[int, set[int]]], memory: int = 64 << 20) -> Plan:
    """Caches of some inputs in the pipelines of others, always; orders as they are."""

    class Forced(JoinCaches):
        def __init__(self, inputs: Any, later: Any, _: int) -> None:
            super().__init__(inputs, later, memory)
            found = [(root, segment_of(inputs, {root}, members)) for root, members in placements]
            self.use(frozenset(Placement(root, s) for root, s in found if s is not None))

    return Plan(name, "adaptive", [lambda: patch.object(operator, "AdaptiveCaches", Forced)])


def plain_probes(name: str = "probes") -> Plan:
    """All probes one after the other, in A-Greedy's order: no first matches and no caches."""
    return Plan(name, "mjoin", [lambda: patch.object(drop_probing, "AdaptiveMatching", Always)])


def drop_probes(name: str = "drop probing") -> Plan:
    """Every probe asks for a first match before all are taken, and no caches."""
    every = partial(Always, True)
    return Plan(name, "mjoin", [lambda: patch.object(drop_probing, "AdaptiveMatching", every)])


class Always(AdaptiveMatching):
    """Asks every filter for a first match, or none."""

    def __init__(self, *given: Any) -> None:
        *first, n = given
        super().__init__(n)
        self.all = bool(first)

    def asks_first(self, f: int, rows: int, tuples: int, length: int = 1) -> bool:
        return self.all


def without_index(plan: Plan) -> Plan:
    """The same plan, where rows of T look through all of S."""

    def scans() -> Any:
        plain = operator.JoinOperator._new_inputs

        def new(self: Any, *args: Any) -> Any:
            inputs = plain(self, *args)
            inputs._chooser = None
            inputs.index(1, [1])
            (access,) = inputs._access.values()
            access.method, access._streamon = "none", None
            return inputs

        return patch.object(operator.JoinOperator, "_new_inputs", new)

    return Plan(plan.name, plan.join, [*plan.patches, scans])


def tree(name: str, shape: Tree) -> Plan:
    return Plan(name, "tree", [lambda: patch.object(Builder, "_tree", lambda *_: shape)])


@dataclass
class Run:
    """What a plan did after the first steps."""

    operators: list[Any]
    tuples: int = 0
    seconds: float = 0.0
    results: int = 0
    in_pipelines: float = 0.0
    """Seconds in pipelines, and in updates of caches apart from them."""
    by_step: list[tuple[int, float]] = field(default_factory=list)
    work_by_step: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._joins = [Work(o._inputs, o.caches) for o in self.operators]
        self._first = self._counts()
        for o in self.operators:
            for pipeline in getattr(o, "_pipelines", ()):
                pipeline.run = self._timed(pipeline.run)
            if o.caches is not None:
                o.caches.feed = self._timed(o.caches.feed)

    def _timed(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.process_time()
            found = plain(*args)
            self.in_pipelines += time.process_time() - began
            return found

        return call

    def _counts(self) -> np.ndarray:
        counts = [(w.units(), w.probes(), w.look_ups(), w.made()) for w in self._joins]
        return np.array(counts, np.int64).sum(axis=0)

    def begin(self) -> None:
        """What was until now does not count."""
        self.tuples, self.seconds, self._first = 0, 0.0, self._counts()
        self.results, self.in_pipelines = 0, 0.0

    def add(self, tuples: int, seconds: float, results: int = 0) -> None:
        """A step is over."""
        self.results += results
        self.by_step.append((tuples, seconds))
        self.work_by_step.append(int(self._counts()[0]))
        self.tuples, self.seconds = self.tuples + tuples, self.seconds + seconds

    @property
    def rate(self) -> float:
        return self.tuples / self.seconds if self.seconds else 0.0

    def counts(self) -> tuple[int, int, int, int]:
        """Work in all, probes of stores, look-ups of caches, joined tuples that probes made."""
        units, probes, look_ups, made = (int(n) for n in self._counts() - self._first)
        return units, probes, look_ups, made

    def work(self) -> tuple[int, int]:
        """Probes of stores and look-ups of caches."""
        return self.counts()[1:3]


def engine(query: str, streams: Mapping[str, Sequence[str]], plan: Plan) -> tuple[Engine, list[Any]]:
    """An engine for a query, and its running joins."""
    catalog = {n: Input(n, pa.schema([(c, pa.int64()) for c in cs])) for n, cs in streams.items()}
    joins: list[Any] = []
    plain = operator.JoinOperator.__init__

    def noted(self: Any, *args: Any, **more: Any) -> None:
        plain(self, *args, **more)
        joins.append(self)

    with ExitStack() as stack:
        for change in plan.patches:
            stack.enter_context(change())
        stack.enter_context(patch.object(operator.JoinOperator, "__init__", noted))
        bound = bind(query, catalog)
        made = Engine(compile(bound, 1, Settings(plan.filters, plan.join)).stages[0].stage)
    return made, joins


def compared(
    query: str,
    streams: Mapping[str, Sequence[str]],
    plans: Sequence[Plan],
    batches: Callable[[], Iterator[Batch]],
    warm: float = 0.5,
    ticks: int = TICKS,
) -> dict[str, Run]:
    """Run plans side by side over the same steps, in turns; the first steps fill windows and warm up."""
    engines = {p.name: engine(query, streams, p) for p in plans}
    runs = {name: Run(joins) for name, (_, joins) in engines.items()}
    steps = list(batches())
    gc.freeze()  # what is there now is not looked at again, so that a collection takes next to nothing
    for number, batch in enumerate(steps):
        gc.collect()  # so that none is due while a step is timed
        rows = arrivals(batch, number, ticks)
        count = sum(a.batch.num_rows for a in rows if a.batch is not None)
        results = set()
        first = number % len(engines)
        for name in (*list(engines)[first:], *list(engines)[:first]):
            run = runs[name]
            if number == round(warm * len(steps)):
                run.begin()
            began = time.process_time()
            made = engines[name][0].step(rows).only.batch.num_rows
            run.add(count, time.process_time() - began, made)
            results.add(made)
        assert len(results) == 1, "plans differ in their results"
    return runs


def arrivals(batch: Batch, number: int, ticks: int = TICKS) -> list[Arrival]:
    """Rows of all streams, evenly spread over the ticks of a step unless they say when they come."""
    found = []
    for name, given in batch.items():
        columns = dict(given)
        count = len(next(iter(columns.values())))
        spread = number * ticks + np.arange(count) * ticks // max(count, 1)
        ts = columns.pop("ts", spread)
        rows = {TS: pa.array(ts), **{f"{name}.{c}": pa.array(v) for c, v in columns.items()}}
        found.append(Arrival(name, 0, pa.RecordBatch.from_pydict(rows), number * ticks, (number + 1) * ticks))
    return found


def rows_of(x: str, at: float | str, runs: Mapping[str, Run], **more: float | int | str) -> list[Row]:
    """A row per plan for a figure."""
    found: list[Row] = []
    for name, run in runs.items():
        units, probes, look_ups, made = run.counts()
        each = max(run.tuples, 1)
        row: Row = {x: at, "algorithm": name, "rows_per_second": run.rate, "work": units / each}
        row |= {"probes": probes, "look_ups": look_ups, "tuples_made": made, "results": run.results / each}
        row |= {"of_caches": (units - probes - made) / each, "in_pipelines": run.in_pipelines / each}
        row["looked_up"] = look_ups / each
        found.append({**row, **more})
    return found


# the three-way join of 5.8.3

RST = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}
EACH = 2_000
"""Values of a step."""
WINDOW = 4 * EACH
"""Values that are in the windows of R and S."""


def rst(r: float = WINDOW, s: float = WINDOW, t: float = WINDOW / 2) -> str:
    """By the rows of the windows."""
    return (
        f"SELECT R.a, T.b FROM R [ROWS {round(r)}], S [ROWS {round(s)}], T [ROWS {round(t)}] "
        "WHERE R.a = S.a AND S.b = T.b"
    )


def in_order(
    steps: int, multiplicity: int = 5, fan: float = 1, share: int = 1, each: int = EACH
) -> Callable[[], Iterator[Batch]]:
    """Values from the same domain in the same order: once in R and S, ``multiplicity`` times in T (5.8.3).

    ``fan``: rows of R for a value, below 1 for some of the values. ``share``: T has one in so many values.
    """

    def batches() -> Iterator[Batch]:
        for step in range(steps):
            values = np.arange(step * each, (step + 1) * each)
            r = np.repeat(values, round(fan)) if fan >= 1 else values[:: round(1 / fan)]
            t = np.repeat(values[::share], multiplicity)
            yield {"R": {"a": r}, "S": {"a": values, "b": values}, "T": {"b": t}}

    return batches


CACHED = partial(forced, placements=[(2, {0, 1})])
