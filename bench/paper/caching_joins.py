"""Chapter 5 from 5.8 on: windowed stream joins as MJoins, XJoins, and MJoins with caches.

Joins run on one engine, without Spark, over row windows as in 5.8.1: each inserted tuple is deleted later.
Rows come in steps of some thousand; what is reported is input tuples per second of CPU, and the work: probes,
look-ups and joined rows made. Times of a hash probe are nanoseconds here and were microseconds in the thesis,
so shapes are compared, and the work beside them.
"""

from __future__ import annotations

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
from penstock.engine.joins import operator
from penstock.engine.joins.adaptive_caching import AdaptiveCaches
from penstock.engine.joins.caching import JoinCaches, Placement, segment_of
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.plan.build import Builder
from penstock.plan.join_trees import Tree
from penstock.settings import Settings
from penstock.streamon.settings import CACHES, CacheThresholds

Batch = Mapping[str, Mapping[str, np.ndarray]]
"""The new rows of a step: columns by name, by stream; with ``ts`` if they are not spread evenly."""
TICKS = 1 << 20
"""Of a step."""

AS_IN_THE_THESIS = replace(
    CACHES, quota=6, least_gain=0.0, interval=1 << 17, sample=256, allowance_s=0.05, bloom_tuples=1 << 13
)
"""m = 6, W = 10 (5.8.1, 5.8.4); I is counted in tuples."""


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


def forced(name: str, placements: Sequence[tuple[int, set[int]]], memory: int = 64 << 20) -> Plan:
    """Caches of some inputs in the pipelines of others, always; orders as they are."""

    class Forced(JoinCaches):
        def __init__(self, inputs: Any, later: Any, _: int) -> None:
            super().__init__(inputs, later, memory)
            found = [(root, segment_of(inputs, {root}, members)) for root, members in placements]
            self.use(frozenset(Placement(root, s) for root, s in found if s is not None))

    return Plan(name, "adaptive", [lambda: patch.object(operator, "AdaptiveCaches", Forced)])


def plain_probes(name: str = "probes") -> Plan:
    """All probes one after the other: no drop probing, as in a pipeline with caches, and no caches."""

    class Plain(JoinCaches):
        def run(self, pipeline: Any, tuples: Any) -> Any:
            return [pipeline.through(pipeline.cached_steps(pipeline.order()), tuples)]

    return Plan(name, "adaptive", [lambda: patch.object(operator, "AdaptiveCaches", Plain)])


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
    """What a plan did in the second half of the steps."""

    tuples: int = 0
    seconds: float = 0.0
    results: int = 0
    by_step: list[tuple[int, float]] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.tuples / self.seconds if self.seconds else 0.0

    def work(self) -> tuple[int, int]:
        """Probes of stores and look-ups of caches, in all steps."""
        probes = sum(sum(o._inputs.probes) for o in self.operators)
        caches = [c.cache for o in self.operators if o.caches for c in o.caches.caches.values()]
        return probes, sum(c.hits + c.misses for c in caches)

    def made(self) -> int:
        """Joined tuples that probes made, results and others, in all steps."""
        return sum(sum(o._inputs.matches) for o in self.operators)


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
    runs = {name: Run(operators=joins) for name, (_, joins) in engines.items()}
    steps = list(batches())
    for number, batch in enumerate(steps):
        rows = arrivals(batch, number, ticks)
        count = sum(a.batch.num_rows for a in rows if a.batch is not None)
        results = set()
        first = number % len(engines)
        for name in (*list(engines)[first:], *list(engines)[:first]):
            began = time.process_time()
            results.add(engines[name][0].step(rows).only.batch.num_rows)
            seconds, run = time.process_time() - began, runs[name]
            run.by_step.append((count, seconds))
            if number >= warm * len(steps):
                run.tuples, run.seconds = run.tuples + count, run.seconds + seconds
                run.results += max(results)
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


def rows_of(x: str, at: float, runs: Mapping[str, Run], **more: float | int | str) -> list[Row]:
    """A row per plan for a figure."""
    found: list[Row] = []
    for name, run in runs.items():
        probes, lookups = run.work()
        row: Row = {x: at, "algorithm": name, "rows_per_second": run.rate, "probes": probes}
        found.append({**row, "look_ups": lookups, "tuples_made": run.made(), **more})
    return found


# the three-way join of 5.8.3

RST = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}


def rst(window: int, tail: int) -> str:
    return (
        f"SELECT R.a, T.b FROM R [ROWS {window}], S [ROWS {window}], T [ROWS {tail}] "
        "WHERE R.a = S.a AND S.b = T.b"
    )


def in_order(
    steps: int, each: int, multiplicity: int, fan: int = 1, updates: float = 1.0
) -> Callable[[], Iterator[Batch]]:
    """Values from the same domain in the same order: once in R and S, ``multiplicity`` times in T (5.8.3).

    ``fan``: joined rows of R and S for a value of T. ``updates``: rows of R and S beside those of T.
    """

    def batches() -> Iterator[Batch]:
        at = 0
        for _ in range(steps):
            values = np.arange(at, at + each)
            at += each
            often = updates >= 1
            some = np.repeat(values, round(updates)) if often else values[:: round(1 / updates)]
            r = np.repeat(some, fan)
            yield {"R": {"a": r}, "S": {"a": some, "b": some}, "T": {"b": np.repeat(values, multiplicity)}}

    return batches


CACHED = partial(forced, placements=[(2, {0, 1})])
