"""Aggregates of one's own: as those of CQL, whatever leaves, however rows are spread, after a restart."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock import cql
from penstock.engine.snapshot import decode, encode
from penstock.engine.synopses.accumulators import Segments, accumulator
from penstock.errors import CatalogError, CQLError, DataError
from penstock.expression import OwnAggregate

SUMS: dict[str, Any] = {
    "returns": "DOUBLE",
    "state": "n BIGINT, total BIGINT",
    "add": lambda x: {"n": pa.array(np.ones(len(x), np.int64)), "total": pc.cast(x, "int64")},
    "merge": lambda a, b: {"n": pc.add(a["n"], b["n"]), "total": pc.add(a["total"], b["total"])},
    "remove": lambda a, b: [pc.subtract(a["n"], b["n"]), pc.subtract(a["total"], b["total"])],
    "finish": lambda s: np.asarray(s["total"]) / np.asarray(s["n"]),
}
WITHOUT = {name: part for name, part in SUMS.items() if name != "remove"}
LONGEST: dict[str, Any] = {
    "returns": "STRING",
    "state": "s STRING",
    "add": lambda s, t: {"s": pc.binary_join_element_wise(s, t, "")},
    "merge": lambda a, b: {"s": pc.if_else(_later(a["s"], b["s"]), a["s"], b["s"])},
    "finish": lambda state: state["s"],
}
QUERIES = (
    "SELECT k, {}(v) AS m, COUNT(*) AS n FROM S [RANGE 3] GROUP BY k",
    "SELECT {}(v) AS m FROM S [ROWS 4]",
    "SELECT k, {}(DISTINCT v) FILTER (WHERE v > 1) AS m FROM S [ROWS 5] GROUP BY k",
    "SELECT {}(v) AS m FROM S",
    "SELECT a.k, {}(a.v + b.v) AS m FROM S [RANGE 2] a, S [ROWS 3] b WHERE a.k = b.k GROUP BY a.k",
)


def _later(a: pa.Array, b: pa.Array) -> pa.Array:
    longer = pc.greater(pc.utf8_length(a), pc.utf8_length(b))
    same = pc.equal(pc.utf8_length(a), pc.utf8_length(b))
    return pc.or_(longer, pc.and_(same, pc.greater(a, b)))


def rows(seed: int) -> list[Any]:
    draw = random.Random(seed)
    ts = sorted(draw.randrange(12) for _ in range(40))
    return [(t, {"k": draw.choice("abc"), "v": draw.choice([None, 0, 1, 2, 3, 9])}) for t in ts]


@pytest.mark.parametrize("parts", (SUMS, WITHOUT), ids=("remove", "recompute"))
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.some(3)
def test_is_what_an_aggregate_of_cql_is(query: str, parts: dict[str, Any]) -> None:
    for seed in range(3):
        inputs, schemas = {"S": rows(seed)}, {"S": "k STRING, v INT"}
        expected = penstock.evaluate(query.format("AVG"), inputs, schemas, until=16)
        for partitions, batches in ((1, 1), (3, 4)):
            how = {"partitions": partitions, "batches": batches, "until": 16, "functions": {"mine": parts}}
            got = penstock.evaluate(query.format("mine"), inputs, schemas, **how)
            assert sorted(map(repr, got)) == sorted(map(repr, expected))


def test_several_arguments_and_no_remove() -> None:
    inputs = {"S": [(1, {"s": "b", "t": "x"}), (2, {"s": "aa", "t": "y"}), (4, {"s": "c", "t": None})]}
    got = penstock.evaluate(
        "SELECT longest(s, t) AS l FROM S [RANGE 2]", inputs, until=9, functions={"longest": LONGEST}
    )
    assert got == [
        (1, "+", {"l": "bx"}), (2, "-", {"l": "bx"}), (2, "+", {"l": "aay"}), (5, "-", {"l": "aay"}),
        (5, "+", {"l": None}),
    ]  # fmt: skip


@pytest.mark.parametrize("parts", (SUMS, WITHOUT), ids=("remove", "recompute"))
def test_survives_a_snapshot_and_forgets_groups(parts: dict[str, Any]) -> None:
    own = cql.define_aggregate("mine", **parts).function
    assert isinstance(own, OwnAggregate)
    one, other = (accumulator("mine", [pa.int64()], pa.float64(), False, own=own) for _ in range(2))
    segments = Segments(np.array([0, 2, 3]), np.array([0, 1]), np.ones(3, np.int8))
    one.room_for(2)
    assert one.update(segments, pa.array([1, 2, 7]))[1].to_pylist() == [1.5, 7.0]
    other.restore(decode(encode(one)))
    other.keep(np.array([1]))
    more = Segments(np.array([0, 1, 2]), np.array([0, 0]), np.array([1, -1], np.int8))
    assert [v.to_pylist() for v in other.update(more, pa.array([9, 7]))] == [[7.0, 8.0], [8.0, 9.0]]


def test_mistakes_are_told() -> None:
    inputs = {"S": [(1, {"v": 1})]}

    def run(query: str = "SELECT mine(v) FROM S", **wrong: Any) -> None:
        penstock.evaluate(query, inputs, functions={"mine": {**SUMS, **wrong}})

    with pytest.raises(CatalogError, match="add=3 cannot be called"):
        run(add=3)
    with pytest.raises(CatalogError, match="state 'n' is not columns with types"):
        run(state="n")
    with pytest.raises(CatalogError, match=r"mine\.add must return the columns n, total of its state"):
        run(add=lambda x: {"n": x})
    with pytest.raises(DataError, match=r"function mine\.finish failed at .*line \d+: ZeroDivisionError"):
        run(finish=lambda s: [1 // 0])
    with pytest.raises(CQLError, match="MINE takes one or more arguments"):
        run("SELECT mine(*) FROM S")
    with pytest.raises(CQLError, match="the aggregate MINE is not allowed in WHERE"):
        run("SELECT v FROM S WHERE mine(v) > 1")


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    how = {"schemas": {"S": "k STRING, v INT"}, "until": 16, "functions": {"mine": SUMS}}
    here = penstock.evaluate(QUERIES[0].format("mine"), {"S": rows(5)}, **how)
    there = penstock.evaluate(QUERIES[0].format("mine"), {"S": rows(5)}, on="spark", partitions=2, **how)
    assert sorted(map(repr, there)) == sorted(map(repr, here)) and here
