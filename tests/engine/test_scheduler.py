"""Schedulers: the queue sizes of thesis 2.3.2, slices, and the queues of a join with many results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from checking import check_manner
from local_host import Manner
from restless import AnyOrder
from strategies import Case

from penstock.engine import entity as entities
from penstock.engine.element import Chunk, Pattern
from penstock.engine.graph import Graph
from penstock.engine.operator import Clock, Node, Operator, StartContext, Unary
from penstock.engine.operators.source import Source
from penstock.engine.scheduler import SCHEDULERS, slices
from penstock.evaluation import evaluate, plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Property, measured
from penstock.schema import TimeDomain
from penstock.settings import CHOICES

SCHEMA = pa.schema([("S.a", pa.int64())])
N = 10
"""Elements that arrive at once."""


class Watch:
    """The time that operators take."""

    now = 0.0


@dataclass(frozen=True)
class Reduce(Unary):
    """Passes on a share of a batch in a unit of time."""

    name = "reduce"
    share: float

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    def start(self, context: StartContext) -> Operator:
        return Reducer(self.share)


class Reducer(Operator):
    def __init__(self, share: float) -> None:
        self._share = share

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        (chunk,) = inputs
        Watch.now += 1
        return chunk.slice(0, round(self._share * len(chunk)))


def batch(elements: int) -> Chunk:
    values = np.arange(elements)
    return Chunk.of(values, pa.record_batch([pa.array(values)], schema=SCHEMA))


def queue_sizes(shares: Sequence[float], scheduler: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The elements in the queues at times 0 to 6, in batches, if one arrives in each."""
    monkeypatch.setattr(entities.time, "perf_counter", lambda: Watch.now)
    plan: Node = Source("S", SCHEMA)
    for share in shares:
        plan = Reduce(plan, share)
    graph, policy = Graph(StartContext()), SCHEDULERS[scheduler]()
    graph.add("result", plan)
    graph.open(Clock(0, 1))
    graph.feed("S", batch(N))
    for entity in graph.entities:  # from which selectivities and costs are known
        graph.run(entity)
    graph.take()
    policy.prepare(graph.entities)
    sizes = []
    for time in range(7):
        if time:
            graph.run(policy.choose(graph.pending()))
        graph.open(Clock(0, 1))
        graph.feed("S", batch(N))
        graph.run(graph.entities[0])  # the source itself takes no time
        sizes.append(round(graph.queued / N, 6))
    return sizes


TWO, THREE = (0.2, 0.0), (0.9, 1.0, 0.0)


@pytest.mark.parametrize(
    ("shares", "scheduler", "sizes"),
    [
        (TWO, "fifo", [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0]),
        (TWO, "greedy", [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]),
        (THREE, "fifo", [1.0, 1.9, 2.9, 3.0, 3.9, 4.9, 5.0]),
        (THREE, "greedy", [1.0, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4]),
    ],
)
def test_queue_sizes_of_the_thesis(
    shares: Sequence[float], scheduler: str, sizes: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue_sizes(shares, scheduler, monkeypatch) == sizes


@pytest.mark.parametrize("shares", [TWO, THREE])
def test_chain_is_at_least_as_good_as_both(shares: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
    chain, *others = (queue_sizes(shares, s, monkeypatch) for s in ("chain", "fifo", "greedy"))
    for other in others:
        assert sum(chain) <= sum(other) and max(chain) <= max(other)


def test_slices_are_cut_between_instants() -> None:
    ts = np.array([3, 3, 3, 5, 6, 6, 9, 9])
    rows = {"S": Chunk.of(ts, pa.record_batch([pa.array(ts)], schema=SCHEMA)), "T": batch(0)}
    clock = Clock(2, 12, first=3, instants=np.unique(ts))
    found = list(slices(clock, rows, 2, in_order=True))
    assert [(c.before, c.now, list(p["S"].ts), list(c.instants)) for c, p in found] == [
        (2, 6, [3, 3, 3, 5], [3, 5]),
        (6, 9, [6, 6], [6]),
        (9, 12, [9, 9], [9]),
    ]
    found = list(slices(clock, rows, 3, in_order=False))
    assert [(c.before, c.now, len(p["S"])) for c, p in found] == [(2, 2, 3), (2, 2, 3), (2, 12, 2)]
    assert list(slices(clock, rows, None, in_order=True)) == [(clock, rows)]


def test_results_of_two_partitions_cancel_whatever_the_slices() -> None:
    """Equal rows, one of which leaves when the other enters, reach the second stage from two partitions."""
    rows = [(1, {"a": 1, "b": 1}), (6, {"a": 1, "b": 1}), (7, {"a": 0, "b": 1}), (8, {"a": 1, "b": 1})]
    query = "SELECT ISTREAM(x.b, y.b AS c) FROM U [RANGE 2] AS x, U [NOW] AS y WHERE x.a = y.a"
    case = Case(query, {"U": rows}, {"U": "a INT, b BIGINT"}, 20)
    check_manner(case, Manner(partitions=2, slice_rows=1))


@pytest.mark.parametrize("scheduler", CHOICES["scheduler"])
def test_slices_keep_queues_short(scheduler: str) -> None:
    """A join of which each row finds 100 partners, and a filter above it."""
    rows = [(t, {"k": t // 100, "v": t}) for t in range(2000)]
    inputs = read_inputs({n: rows for n in "ST"}, {}, TimeDomain("integer"))
    query = "SELECT S.k, COUNT(*) FROM S [RANGE 200], T [RANGE 200] WHERE S.k = T.k GROUP BY S.k"
    peaks = []
    for setting in ("", "SET penstock.slice_rows = 100; "):
        script = f"SET penstock.scheduler = '{scheduler}'; {setting}{query}"
        run = InProcessRun(plan_of(script, inputs.catalog(), (), 1), {})
        for step in inputs.slices(1):
            run.step({n: t.combine_chunks().to_batches()[0] for n, t in step.items()})
        readings = measured(run.engines[0][0].measure())
        peaks.append(readings.total(Property.QUEUE_PEAK))
    assert peaks[0] > 100_000
    assert peaks[1] < peaks[0] / 5


@pytest.mark.parametrize(
    "query",
    [
        "SELECT S.v, T.v FROM S [RANGE 20], T [RANGE 30] WHERE S.k = T.k",
        "SELECT S.v, T.v FROM S [ROWS 30], T [ROWS 20] WHERE S.k = T.k",
        "SELECT ISTREAM(S.v, T.v) FROM S [RANGE 20], T [ROWS 20] WHERE S.k = T.k AND S.v < T.v",
        "SELECT A.v, B.v FROM S [RANGE 5] AS A, S [RANGE 30] AS B WHERE A.k = B.k",
        "SELECT k, COUNT(*), MAX(v) FROM S [RANGE 25] GROUP BY k",
        "SELECT S.k FROM S [RANGE 5], S [ROWS 9] AS R, T [RANGE 7] WHERE S.k = R.k AND R.k = T.k",
        "SELECT RSTREAM(k, n) FROM (SELECT k, COUNT(*) AS n FROM T [RANGE 9 SLIDE 5] GROUP BY k) AS G",
    ],
)
def test_results_do_not_depend_on_who_runs_ahead(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows far ahead of their readers: each sees only the rows of the slices that it has processed."""
    monkeypatch.setitem(SCHEDULERS, "greedy", AnyOrder)
    die = Random(3)
    inputs = {
        name: [
            (t, {"k": die.randrange(5), "v": die.randrange(50)})
            for t in sorted(die.choices(range(300), k=400))
        ]
        for name in "ST"
        if f" {name} " in query
    }
    expected = evaluate(query, inputs)
    found = evaluate(f"SET penstock.scheduler = 'greedy'; SET penstock.slice_rows = 20; {query}", inputs)
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
