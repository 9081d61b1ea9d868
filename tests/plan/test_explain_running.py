"""explain on a running query: the engines' own metrics as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Kind, Measurements, Property, Reading, decode, encode, measured, under
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.explain_running import explain_running
from penstock.schema import TimeDomain
from penstock.settings import CHOICES, Settings

STREAM = Input("S", pa.schema([("a", pa.int64()), ("b", pa.int64())]))


def engine_after(query: str, rows: int, method: str = "adaptive") -> Measurements:
    """What an engine publishes after some rows, as its driver reads it."""
    settings = Settings(access_method=method)
    engine = Engine(compile(bind(query, {"S": STREAM}), settings=settings).stages[0].stage)
    arrivals = []
    for number, i in enumerate(engine.stage.inputs):
        rng = np.random.default_rng(number)
        columns = {f.name: pa.array(rng.integers(0, 100, rows)) for f in i.schema}
        batch = pa.RecordBatch.from_pydict({TS: pa.array(np.arange(rows)), **columns})
        arrivals.append(Arrival(i.name, 0, batch, 0, rows))
    engine.step(arrivals)
    return measured(decode(encode(engine.measure())))


FILTERS = "SELECT a FROM S [RANGE 5] WHERE a + 0 < 90 AND b + 0 < 10"


def test_filters_and_their_decisions() -> None:
    found = engine_after(FILTERS, 40_000)
    slow = Measurements(m._replace(value=1.5) if m.property is Property.CPU_SECONDS else m for m in found)
    first, operator, order, costs, decision, source = explain_running(slow).splitlines()
    assert source == "input S: out of order by up to 0 ticks; declared 0 ticks"
    assert first.startswith("stage 1, partition 0: ") and first.endswith(" MB of state")
    assert operator.startswith("  select (S.a + 0) < 90 AND (S.b + 0) < 10: 40,000 in, ")
    assert operator.endswith(" out")
    assert order == "    filters: (S.b + 0) < 10, (S.a + 0) < 90"
    assert costs.startswith("      a-greedy: 1.") and costs.endswith("80.0% of the time on adapting")
    assert decision.startswith("      tuple 0: dropped by (S.a + 0) < 90 ")
    assert decision.endswith("-> (S.b + 0) < 10, (S.a + 0) < 90")


def test_what_adapting_takes_is_not_told_by_a_first_look() -> None:
    text = explain_running(engine_after(FILTERS, 5000))
    assert "1 change of order, too early to say what adapting takes (0." in text
    assert "of the time on adapting" not in text


def test_late_rows_are_told() -> None:
    own = engine_after("SELECT a FROM S [RANGE 5]", 10)
    engines = []
    for partition, rows in enumerate((2, 0, 3)):
        late = measured(under("input/S", Kind.INPUT, [Reading(Property.LATE, rows)]), partition=partition)
        engines.append([*(m._replace(partition=partition) for m in own), *late])
    text = explain_running(Measurements(m for engine in engines for m in engine))
    assert "\nlate: 5 rows of 'S' came too late and were left out: declare" in text
    assert "late" not in explain_running(Measurements(engines[1]))


def test_disorder_is_told_beside_its_bound() -> None:
    disordered = replace(STREAM, options=replace(STREAM.options, skew=60, adaptive=True))
    query = "SELECT COUNT(*) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a"
    engine = Engine(compile(bind(query, {"S": disordered, "T": replace(STREAM, name="T")})).stages[0].stage)
    engine.step([Arrival("S", 0, None, 5, 20, disorder=8), Arrival("T", 0, None, 3, 4)])
    engine.step([Arrival("T", 0, None, 5, 18)])
    text = explain_running(measured(decode(encode(engine.measure()))))
    assert (
        "input S: out of order by up to 8 ticks; auto 10 ticks; 0 ticks behind the furthest input, at most 0"
        in text
    )
    assert (
        "input T: out of order by up to 0 ticks; declared 0 ticks; 2 ticks behind the furthest input, at most"
        in text
    )
    told = explain_running(measured(decode(encode(engine.measure()))), lambda _, n: TimeDomain().length(n))
    assert "input S: out of order by up to 8 SECONDS; auto 10 SECONDS; 0 SECONDS behind" in told


def test_a_silent_input_is_told() -> None:
    """A join whose second stream has sent nothing: nothing goes in, nothing comes out."""
    query = "SELECT COUNT(*) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a"
    engine = Engine(compile(bind(query, {"S": STREAM, "T": replace(STREAM, name="T")})).stages[0].stage)
    columns = {f.name: pa.array([1, 2]) for f in engine.stage.inputs[0].schema}
    batch = pa.RecordBatch.from_pydict({TS: pa.array([1, 2]), **columns})
    engine.step([Arrival("S", 0, batch, 1, 2)])
    text = explain_running(measured(decode(encode(engine.measure()))))
    assert "waiting: 2 rows wait for 'T', which holds the results back until it sends" in text


def test_joins_name_their_inputs() -> None:
    query = (
        "SELECT COUNT(*) FROM S [ROWS 5] AS x, S [ROWS 5] AS y, S [ROWS 5] AS z WHERE x.a = y.a AND y.b = z.b"
    )
    found = engine_after(query, 3000)
    filters = {"x": {"y", "y ⋈ z"}, "y": {"x", "z"}, "z": {"y", "y ⋈ x"}}
    for entity, decision in found.of_kind(Kind.DECISION).by_entity().items():
        assert set(decision.values(Property.STATISTIC)) == filters[entity.split("/")[1]]
    assert "    x: y, z" in explain_running(found)


PAIRS = "SELECT ISTREAM(x.a, y.b) FROM S [ROWS 50] AS x, S [ROWS 500] AS y WHERE x.a = y.a"
BAND = "SELECT ISTREAM(x.a, y.b) FROM S [ROWS 50] AS x, S [ROWS 500] AS y WHERE x.a BETWEEN y.a - 1 AND y.a"


def test_indexes_have_costs_by_the_rates_that_were_measured() -> None:
    lines = explain_running(engine_after(PAIRS, 5000)).splitlines()
    shown = [line for line in lines if line.startswith("    index on ")]
    assert {line.split(":")[0] for line in shown} == {"    index on x by x.a", "    index on y by y.a"}
    assert all(" ns per row, measured at " in line and "; next " in line for line in shown)
    assert "; too few rows for costs" in explain_running(engine_after(PAIRS, 10))


@pytest.mark.parametrize("method", CHOICES["access_method"])
def test_an_access_method_can_be_forced(method: str) -> None:
    name = "none" if method == "scan" else method
    for query, ranges in ((PAIRS, False), (BAND, True)):
        found = engine_after(query, 5000, method)
        used = {m.text for m in found.of(Property.METHOD)}
        chosen = method == "adaptive" or (ranges and method == "hash")
        assert used <= {"b+tree", "t-tree", "none", "hash"} if chosen else used == {name}
        text = explain(compile(bind(query, {"S": STREAM}), settings=Settings(access_method=method)))
        assert ("set by penstock.access_method" in text) != chosen
        assert found.value(Property.PROBES) > 0


def test_costs_are_those_of_the_declared_rates() -> None:
    query = "SELECT ISTREAM(R.a, S.b) FROM R [RANGE 60], S [RANGE 10] WHERE R.a = S.a"
    rates = {"R": 10.0, "S": 2000.0}
    declared = {n: Input(n, STREAM.schema, InputOptions(TimeDomain(), rate=r)) for n, r in rates.items()}
    text = explain(compile(bind(query, declared)))
    assert "into R: hash, " in text and " ns with 600 rows (by the declared rate) and 200 probes per" in text
    assert " ns with 20,000 rows (by the declared rate) and 0.005 probes per arrival" in text
    unknown = explain(compile(bind(query, {n: Input(n, STREAM.schema) for n in rates})))
    assert unknown.count("ns with 1,000 rows (assumed); next") == 2


def test_no_engine_yet() -> None:
    assert explain_running(Measurements()).startswith("no engine of this query has finished a step yet")


def test_budgets_say_what_they_promise_and_what_they_cost() -> None:
    for goal in ("MAXIMIZE RESULTS", "SAMPLE CLUSTER", ""):
        join = "SELECT ISTREAM(x.a) FROM S [RANGE 500] AS x, S [RANGE 500] AS y WHERE x.a = y.a"
        text = explain_running(engine_after(f"{join} WITHIN MEMORY 100 ROWS {goal}", 5000))
        assert f"within memory 100 rows{' ' if goal else ''}{goal.lower().split(' ')[0]}" in text
        assert "rows kept: x " in text
        assert ("results by age: x " in text) == bool(goal)
