"""Stages with several roots: each has its own clock, and returns what it returns in an engine of its own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from local_host import Partition
from longer import sized

from penstock.engine.engine import Engine
from penstock.engine.operator import Node
from penstock.engine.operators.source import Source
from penstock.engine.stage import RESULT, TS, Arrival, Stage, StageInput, StepOutput
from penstock.evaluation import plan_of, read_inputs
from penstock.measurement import Kind, Property, measured
from penstock.schema import TimeDomain

QUERIES = (
    "SELECT k, COUNT(*) AS c FROM A [RANGE 5] GROUP BY k",
    "SELECT DISTINCT k FROM A [ROWS 7]",
    "SELECT A.k, B.n FROM A [RANGE 4], B [ROWS 3] WHERE A.k = B.k",
    "SELECT ISTREAM(A.k, B.n) FROM A [RANGE 4], B [RANGE 6] WHERE A.k = B.k",
    "SELECT k, SUM(n) AS s FROM B GROUP BY k",
    "SELECT DSTREAM(n) FROM B [ROWS 4]",
    "SELECT RSTREAM(k) FROM C [ROWS 2]",
    "SELECT COUNT(*) AS c FROM C",
    "SELECT k FROM A [ROWS 5] UNION ALL SELECT k FROM C [RANGE 3]",
    "SELECT COUNT(*) AS c FROM (SELECT DSTREAM(k) FROM A [ROWS 3]) [RANGE 6]",
)
HOW = ("", "", "rebuild", "snapshot rebuild", "whole snapshot rebuild", "snapshot")
Rows = dict[str, list[tuple[int, int, int]]]
"""By stream: (timestamp, k, n)."""


def root_of(query: str) -> Node:
    data = {s: [(0, {"k": 0, "n": 0})] for s in "ABC"}
    finite = read_inputs(data, {}, TimeDomain("integer", "seconds"))
    return with_stores_of(query, plan_of(query, finite.catalog(), [], 1).stages[0].stage.root)


def with_stores_of(query: str, node: Node) -> Node:
    """Stores are named within a query; queries that differ have stores of their own."""
    changed: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Node):
            changed[f.name] = with_stores_of(query, value)
        elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
            changed[f.name] = tuple(with_stores_of(query, v) for v in value)
        elif f.name == "store" and value:
            changed[f.name] = f"{value} of {query}"
    return replace(node, **changed)


def leaves(node: Node) -> set[str]:
    return {node.input} if isinstance(node, Source) else set().union(*(leaves(i) for i in node.inputs))


def stage(**queries: str) -> Stage:
    roots = {name: root_of(q) for name, q in queries.items()}
    read = sorted(set().union(*map(leaves, roots.values())))
    columns = {s: pa.schema([(f"{s}.k", pa.int64()), (f"{s}.n", pa.int64())]) for s in read}
    return Stage(roots, tuple(StageInput(s, columns[s]) for s in read))


def arrivals(stage: Stage, step: Rows) -> list[Arrival]:
    found = []
    for i in stage.inputs:
        ts, k, n = np.array(step.get(i.name, []), np.int64).reshape(-1, 3).T
        batch = pa.record_batch([pa.array(c) for c in (ts, k, n)], names=[TS, *i.schema.names])
        span = (int(ts.min()), int(ts.max())) if len(ts) else (None, None)
        found.append(Arrival(i.name, 0, batch, *span))
    return found


def changes(out: StepOutput, root: str) -> list[Any]:
    return sorted((tuple(r.values()) for r in out.roots[root].batch.to_pylist()), key=repr)


def random_steps(random: np.random.Generator, count: int) -> list[Rows]:
    """A stream is silent in some steps, and its rows are older than those of others then."""
    steps, n, slow = [], 0, random.integers(1, 6, 3)
    for number in range(count):
        step: Rows = {}
        for s, each in zip("ABC", slow, strict=True):
            size = int(random.integers(0, 7)) if random.random() < 0.7 else 0
            ts = np.sort(random.integers(each * number, each * (number + 1), size))
            step[s] = [(int(t), int(random.integers(0, 4)), (n := n + 1)) for t in ts]
        steps.append(step)
    return steps


@pytest.mark.parametrize("seed", range(sized(10, 25)))
@pytest.mark.some(3)
def test_each_root_returns_what_it_returns_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    chosen = random.choice(len(QUERIES), int(random.integers(2, 6)), replace=False)
    queries = {f"q{n}": QUERIES[n] for n in chosen}
    together = Partition(stage(**queries))
    alone = {name: Partition(stage(**{name: q})) for name, q in queries.items()}
    for step in random_steps(random, 14):
        how = HOW[random.integers(len(HOW))]
        if "snapshot" in how:
            together.snapshot("whole" in how)
        if "rebuild" in how:
            together.rebuild()
        out = together.step(arrivals(together.stage, step))
        for name, partition in alone.items():
            expected = partition.step(arrivals(partition.stage, step))
            assert changes(out, name) == changes(expected, name), (queries[name], how)
            assert out.roots[name].progress == expected.only.progress
            assert out.roots[name].first == expected.only.first


@pytest.mark.parametrize("rebuilt", [False, True])
def test_late_rows_are_counted_for_each_root(rebuilt: bool) -> None:
    """A row is late for a root whose clock has passed it; with a slower stream beside it, it is not."""
    partition = Partition(stage(a=QUERIES[0], both=QUERIES[2]))
    for rows in ([(5, 1, 1)], [(3, 1, 2), (9, 1, 3)], [(4, 1, 4), (8, 1, 5)]):
        partition.step(arrivals(partition.stage, {"A": rows, "B": [(2, 1, 0)]}))
        if rebuilt:
            partition.rebuild()
    found = measured(partition.engine.measure())
    assert found.entity("root/a").values(Property.LATE) == {"A": 3}
    assert not any(found.entity("root/both").values(Property.LATE).values())
    assert [m.value for m in found.of_kind(Kind.INPUT).of(Property.LATE) if m.entity == "input/A"] == [3]


def test_a_silent_stream_holds_back_only_what_reads_it() -> None:
    engine = Engine(stage(a=QUERIES[0], both=QUERIES[2], b=QUERIES[4]))
    for t in range(5):
        out = engine.step(arrivals(engine.stage, {"A": [(t, 1, t)]}))
    assert out.roots["a"].progress == 4 and out.roots["a"].batch.num_rows
    assert out.roots["both"].progress < 0 and out.roots["b"].progress < 0
    out = engine.step(arrivals(engine.stage, {"B": [(9, 1, 1)]}))
    assert [out.roots[n].progress for n in ("a", "both", "b")] == [4, 4, 9]


def test_lateness_is_counted_by_root() -> None:
    """A row that is late for the root that reads its stream alone is in time where another stream is slow."""
    engine = Engine(stage(a=QUERIES[0], both=QUERIES[2]))
    engine.step(arrivals(engine.stage, {"A": [(9, 1, 1)], "B": [(2, 1, 2)]}))
    out = engine.step(arrivals(engine.stage, {"A": [(5, 1, 3)]}))
    assert out.roots["a"].late["A"].num_rows == 1
    assert not out.roots["both"].late


def test_equal_nodes_run_once_within_a_clock() -> None:
    engine = Engine(stage(one=QUERIES[0], same=QUERIES[0], other=QUERIES[1]))
    names = [e.node.name for e in engine.entities]
    assert len(engine.groups) == 1
    assert names.count("source") == 1 and names.count("aggregate") == 1
    out = engine.step(arrivals(engine.stage, {"A": [(1, 1, 1), (2, 1, 1)]}))
    assert changes(out, "one") == changes(out, "same") != changes(out, "other")


def test_one_root_is_a_stage_of_today() -> None:
    finite = read_inputs({"A": [(0, {"k": 0})]}, {}, TimeDomain("integer", "seconds"))
    found = plan_of("SELECT k FROM A [RANGE 5]", finite.catalog(), [], 1).stages[0].stage
    assert list(found.roots) == [RESULT] and found.root is found.roots[RESULT]
