"""Row windows over derived streams with ties: the rows they hold do not depend on the plan."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from local_host import Manner, run
from oracle_windows import Undetermined, Window, settle
from restless import PLANNERS, planned_by
from strategies import Case

import penstock
from penstock.catalog import Input
from penstock.cql.query import bind
from penstock.cql.statements import parse
from penstock.engine.element import Chunk
from penstock.engine.ties import in_tie_order
from penstock.plan.compile import compile

JOINED = "SELECT ISTREAM(S.a, T.b) FROM S [RANGE 3], T [RANGE 3] WHERE S.a = T.a"
QUERIES = [
    f"SELECT ISTREAM(x.a, COUNT(*) AS n, SUM(x.b) AS s) FROM ({JOINED}) [ROWS 3 SLIDE 5] AS x GROUP BY x.a",
    f"SELECT ISTREAM(x.b, COUNT(*) AS n) FROM ({JOINED}) [PARTITION BY a ROWS 2] AS x GROUP BY x.b",
    "SELECT x.m FROM (SELECT DSTREAM(S.b AS k, T.b AS m) FROM S [RANGE 1], T [ROWS 3], S [RANGE 2] AS U "
    "WHERE S.a = T.a AND T.a = U.a) [ROWS 2 SLIDE 3] AS x",
]


def tied(seed: int) -> dict[str, list[Any]]:
    random = Random(seed)
    return {
        name: [(ts, {"a": random.choice([1, 1, 2]), "b": random.choice([0, 1, 2, None])}) for ts in stamps]
        for name, stamps in (("S", [0, 0, 1, 1, 1, 4]), ("T", [0, 1, 1, 2, 2, 4, 4]))
    }


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_plan_gives_the_oracles_answer(query: str, seed: int) -> None:
    case = Case(query, tied(seed), dict.fromkeys("ST", "a INT, b INT"), 10)
    expected = oracle.evaluate(case.cql, case.inputs, case.schemas, until=10)
    assert expected
    for planner in PLANNERS:
        with planned_by(planner):
            for partitions, before in ((1, ""), (3, "rebuild")):
                found = run(case, Manner(partitions, (0.3, 0.55), (before,) * 4))
                oracle.assert_same(found, expected, (planner, partitions))


def last(query: str, rows: list[Any]) -> list[Any]:
    return [row["b"] for _, _, row in penstock.evaluate(query, {"S": [(1, {"b": b}) for b in rows]})]


def test_ties_of_a_filter_are_in_order_of_arrival() -> None:
    assert last("SELECT b FROM (SELECT b FROM S WHERE b > 0) [ROWS 1]", [2, 3, 1]) == [1]


@pytest.mark.parametrize(
    ("rows", "largest"), [([2, 3, 1], 3), ([2, None], 2), ([1.0, float("inf"), 2.0], float("inf"))]
)
def test_other_ties_are_in_order_of_their_columns(rows: list[Any], largest: Any) -> None:
    assert last("SELECT b FROM (SELECT RSTREAM(b) FROM S [RANGE 1]) [ROWS 1]", rows) == [largest]


def test_the_oracle_sees_ties_of_several_instants() -> None:
    """Turned together, what one instant loses the other gains: each is turned by itself."""
    elements = [(ts, {"a": a}) for ts in (1, 2) for a in "xy"]
    with pytest.raises(Undetermined):
        settle(Window("rows", 2, (), 3), elements, [1, 2])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, None, 1, 1]),
        pa.array(["b", None, "a", "a"]),
        pa.array(["b", None, "a", "a"]).dictionary_encode(),
        pa.array([[2], None, [1], [1]]),
        pa.array([float("nan"), None, -1.0, -1.0]),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_any_type_order_ties(column: pa.Array) -> None:
    chunk = Chunk.of(np.full(4, 7), pa.record_batch([column, pa.array(range(4))], names=["a", "n"]))
    assert in_tie_order(chunk, ["a"]).column("n").to_pylist() == [1, 2, 3, 0]


def test_only_inputs_of_row_windows_have_columns_for_ties() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    ties = pa.schema([("#file", pa.string())])
    catalog = {name: Input(name, schema, ties=ties) for name in "ST"}
    for window, ordered in (("ROWS 2", {"S"}), ("ROWS 1 SLIDE 2", {"S"}), ("RANGE 2", set()), ("NOW", set())):
        query = f"SELECT S.v FROM S [{window}], T [RANGE 3] WHERE S.k = T.k"
        plan = compile(bind(parse(query)[0], catalog), 2)
        assert {i.name for i in plan.stages[0].stage.inputs if i.ties is not None} == ordered
