"""explain on a running query: the engines' own metrics as text."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pyarrow as pa

from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile, explain_budget
from penstock.plan.explain_running import explain_running

STREAM = Input("S", pa.schema([("a", pa.int64()), ("b", pa.int64())]))


def engine_after(query: str, rows: int) -> Engine:
    engine = Engine(compile(bind(query, {"S": STREAM})).stages[0].stage)
    arrivals = []
    for number, i in enumerate(engine._stage.inputs):
        rng = np.random.default_rng(number)
        columns = {f.name: pa.array(rng.integers(0, 100, rows)) for f in i.schema}
        batch = pa.RecordBatch.from_pydict({TS: pa.array(np.arange(rows)), **columns})
        arrivals.append(Arrival(i.name, 0, batch, 0, rows))
    engine.step(arrivals)
    return engine


def test_filters_and_their_decisions() -> None:
    query = "SELECT a FROM S [RANGE 5] WHERE a + 0 < 90 AND b + 0 < 10"
    metrics = json.loads(json.dumps(engine_after(query, 40_000).metrics()))
    (filters,) = [o["streamon"]["filters"] for o in metrics["operators"] if o["name"] == "select"]
    filters["seconds"] = 1.5
    text = explain_running([metrics])
    first, operator, order, costs, decision = text.splitlines()
    assert first.startswith("stage 1, partition 0: ") and first.endswith(" MB of state")
    assert operator.startswith("  select (S.a + 0) < 90 AND (S.b + 0) < 10: 40,000 in, ")
    assert order == "    filters: (S.b + 0) < 10, (S.a + 0) < 90"
    assert costs.startswith("      a-greedy: 1.") and costs.endswith("of the time on adapting")
    assert decision.startswith("      tuple 0: dropped by (S.a + 0) < 90 ")
    assert decision.endswith("-> (S.b + 0) < 10, (S.a + 0) < 90")


def test_what_adapting_takes_is_not_told_by_a_first_look() -> None:
    query = "SELECT a FROM S [RANGE 5] WHERE a + 0 < 90 AND b + 0 < 10"
    text = explain_running([engine_after(query, 5000).metrics()])
    assert "1 change of order, too early to say what adapting takes (0." in text
    assert "of the time on adapting" not in text


def test_late_rows_are_told() -> None:
    metrics = [
        {**engine_after("SELECT a FROM S [RANGE 5]", 10).metrics(), "late": {"S": n}} for n in (2, 0, 3)
    ]
    assert "\nlate: 5 rows of 'S' came too late and were left out: declare" in explain_running(metrics)
    assert "late" not in explain_running(metrics[1:2])


def test_joins_name_paths() -> None:
    query = (
        "SELECT COUNT(*) FROM S [ROWS 5] AS x, S [ROWS 5] AS y, S [ROWS 5] AS z WHERE x.a = y.a AND y.b = z.b"
    )
    metrics = engine_after(query, 3000).metrics()
    (join,) = [o for o in metrics["operators"] if o["name"] == "mjoin"]
    assert set(join["streamon"]["x"]["order"]) == {"y", "y ⋈ z"}
    assert "    x: y, z" in explain_running([metrics])


def test_no_engine_yet() -> None:
    assert explain_running([]).startswith("no engine of this query has finished a step yet")


def test_budgets_say_what_they_promise_and_what_they_cost() -> None:
    assert doctest.testmod(explain_budget).failed == 0
    for goal in ("MAXIMIZE RESULTS", "SAMPLE CLUSTER", ""):
        join = "SELECT ISTREAM(x.a) FROM S [RANGE 500] AS x, S [RANGE 500] AS y WHERE x.a = y.a"
        metrics = engine_after(f"{join} WITHIN MEMORY 100 ROWS {goal}", 5000).metrics()
        text = explain_running([json.loads(json.dumps(metrics, default=str))])
        assert f"within memory 100 rows{' ' if goal else ''}{goal.lower().split(' ')[0]}" in text
        assert "rows kept: x " in text
