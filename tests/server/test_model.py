"""The model of a server: queries, plans, history, decisions, what holds a query back, memory."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

import pytest
from server_backends import JOIN, InProcess

from penstock.errors import CatalogError, CQLError
from penstock.measurement import Property
from penstock.server.backend import Batch
from penstock.server.findings import Silence, findings
from penstock.server.history import Series
from penstock.server.model import Model
from penstock.server.pages.plan import not_measured
from penstock.server.settings import COARSE_S, COARSE_STEP_S, FINE_S
from penstock.server.views import QueryView
from penstock.spark.driver.failures import why
from penstock.streamon.advice import held_back


@pytest.fixture
def model() -> Model:
    backend = InProcess()
    backend.register("q", JOIN)
    model = Model(backend)
    for _ in range(4):
        backend.step()
        model.sample()
    return model


def test_a_query_with_its_numbers(model: Model) -> None:
    (query,) = model.queries()
    assert (query.key, query.state, query.text, query.batch_seconds) == ("q", "running", JOIN, 0.5)
    assert query.rows_in and query.rows_in > 0 and query.rows_out and query.rows_out > 0
    assert query.state_rows > 0 and query.state_bytes > 0 and query.lateness is not None
    with pytest.raises(CatalogError, match="there is no query 'r'; there are: q"):
        model.query("r")


def test_the_plan_of_a_running_query(model: Model) -> None:
    plan = model.plan("q")
    kinds = {n.id: n.kind for n in plan.nodes}
    assert {k for k in kinds.values()} >= {"source", "window", "operator", "store", "index", "result"}
    join = plan.node("1/mjoin.7")
    assert {o.of: o.steps for o in join.orders}.keys() == {"C", "B", "O"}
    assert join.settings == ("filters", "profiling", "access_method") and len(join.parts) == 2
    stores = [n for n in plan.nodes if n.kind == "store"]
    assert len(stores) == 3 and all(n.readers == (join.id,) and n.rows for n in stores)
    ids = set(kinds)
    assert all(e.source in ids and e.target in ids for e in plan.edges)
    assert plan.node("1/input/C").label.endswith("by hash of C.pid") and plan.node("1/input/C").elements == 40
    assert [(s.number, s.partitions, s.scheduler) for s in plan.stages] == [(1, 2, "fifo")]
    one = model.plan("q", partition=0)
    assert one.node(join.id).elements < join.elements and asdict(plan)["nodes"]


def test_the_plan_of_a_text_has_the_names_of_the_running_one(model: Model) -> None:
    planned = model.planned(JOIN)
    assert not planned.running
    assert {n.id for n in planned.nodes if n.kind == "operator"} == {
        n.id for n in model.plan("q").nodes if n.kind == "operator"
    }
    with pytest.raises(CQLError) as caught:
        model.planned("SELECT x FROM C [RANGE 1]")
    assert (caught.value.line, caught.value.column) == (1, 8)


def test_two_stages_are_joined_by_an_exchange() -> None:
    backend = InProcess()
    backend.register("q", "SELECT COUNT(*) AS n FROM C [RANGE 10]")
    model = Model(backend)
    backend.step()
    model.sample()
    plan = model.plan("q")
    (moved,) = [e for e in plan.edges if e.kind == "exchange" and e.source.partition("/")[2] != "input/C"]
    assert (
        moved.source.startswith("1/") and moved.target.startswith("2/") and moved.label == "to one partition"
    )
    assert [n.name for n in plan.nodes if n.kind == "result"] == ["result"]


def test_decisions_history_and_memory(model: Model) -> None:
    made = model.decisions("q")
    assert made and all(d.kind in ("order", "access method") and d.after for d in made)
    assert sorted(made, key=lambda d: d.time) == made
    busy = model.series("q", name="busy")
    assert busy and all(0 <= v <= 1 for s in busy for v in s.values)
    rates = model.series("q", node="1/input/C", name="throughput")
    assert len(rates) == 1 and len(rates[0].times) >= 3
    kept = model.memory("q")
    assert sum(k.bytes for k in kept) <= model.query("q").state_bytes and len(kept) >= 3
    assert any(k.name == "C [RANGE 10]" for k in kept)
    assert model.findings("q")


def test_a_setting_takes_effect_and_is_in_the_time_line(model: Model) -> None:
    with pytest.raises(CatalogError, match="join is fixed when a query is made; SET it, then start"):
        model.set("q", {"join": "tree"})
    model.set("q", {"scheduler": "chain", "slice_rows": "7"})
    model.backend.step()
    model.sample()
    (stage,) = model.plan("q").stages
    assert (stage.scheduler, stage.slice_rows) == ("chain", 7)
    made = [(d.entity, d.before, d.after) for d in model.decisions("q") if d.kind == "setting"]
    assert made == [("scheduler", "", "chain"), ("slice_rows", "", "7")]
    assert {s.name: s.value for s in model.settings("q")}["scheduler"] == "chain"


def test_a_failed_query_says_why_and_what_to_do(model: Model) -> None:
    model.backend.fail("q", "a row of C has no timestamp")  # type: ignore[attr-defined]
    model.sample()
    query = model.query("q")
    assert (query.state, query.error) == ("failed", "a row of C has no timestamp")
    assert query.advice.startswith("Correct the cause") and query.rows_in == 0
    model.backend.fail("q", why(RuntimeError("Python worker failed to connect back.")))  # type: ignore[attr-defined]
    model.sample()
    query = model.query("q")
    assert "the machine is overloaded" in query.error and "Correct the cause" not in query.advice


def test_what_is_gone_is_forgotten(model: Model) -> None:
    assert len(model.history)
    model.backend.drop("q")
    model.sample()
    assert not len(model.history) and model.queries() == []


def test_a_series_is_bounded_and_keeps_an_hour() -> None:
    series = Series()
    for second in range(20_000):
        series.add(float(second), float(second))
    times, values = series.since(0)
    assert len(times) <= FINE_S + COARSE_STEP_S + COARSE_S / COARSE_STEP_S + 2
    assert times[-1] - times[0] >= 3600 and times == sorted(times)
    assert all(abs(t - v) < 1e-6 for t, v in zip(times, values, strict=True))


def test_no_input_is_silent_while_a_long_batch_runs(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    silence, found, now = Silence(), model.measurements("q"), time.monotonic()
    assert held_back(found)
    silence.observe(found)
    monkeypatch.setattr(time, "monotonic", lambda: now + 30)
    assert silence.of("run-q", found, Batch(1, 0.0, 1.0))
    assert not silence.of("run-q", found, Batch(1, 0.0, 20.0))


def test_lateness_has_the_time_of_the_batch(model: Model) -> None:
    """Results are seen when their batch has ended, however soon the engines had them."""
    engines = max(m.value for m in model.measurements("q").of(Property.LATENCY))
    late = model.query("q").lateness
    assert late is not None and 0.4 < late <= 0.5 + engines


def test_a_query_that_keeps_up_is_held_back_by_nothing(model: Model) -> None:
    plan, found = model.plan("q"), model.measurements("q")
    hot = {("1/mjoin.7", 0): 0.99}
    for seconds, ended, kinds in (
        (0.5, time.time(), {"idle"}),
        (5.0, time.time() - 3600, {"idle"}),
        (5.0, time.time(), {"operator"}),
    ):
        told = {f.kind for f in findings(found, plan, hot, Batch(1, ended, seconds), {})}
        assert told == kinds


def test_a_query_of_a_pipeline_has_its_own_rows_and_state() -> None:
    """Two queries of one Spark query, one of which reads one stream and keeps little."""
    backend = InProcess()
    backend.register("p", JOIN)
    model = Model(backend)
    for _ in range(3):
        backend.step()
        model.sample()
    (run,) = backend.runs()
    whole = model.query("p")
    member = replace(run, key="p.small", name="small", kind="member", pipeline="p", root="small")
    small = {"1/input/C", "1/seq-window.1"}
    kept = model._plan("p", None)
    ours = tuple(replace(n, queries=("small",) if n.id in small else ("other",)) for n in kept.nodes)
    model._plans["p", None] = model.version, replace(kept, nodes=ours)
    shown = model._query(member)
    assert 0 < shown.rows_in < whole.rows_in and shown.state_bytes < whole.state_bytes
    assert shown.batch_seconds == whole.batch_seconds


def test_why_nothing_is_measured_is_told_by_state() -> None:
    running = QueryView("q", "q", "query", "running")
    assert "its inputs have no rows yet" in not_measured(running)
    assert "not been measured" in not_measured(replace(running, batch=1))
    assert "It failed before" in not_measured(replace(running, state="failed"))
    assert "It is stopped, and" in not_measured(replace(running, state="stopped"))
