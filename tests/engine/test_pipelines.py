"""Queries that come and go in a running engine: what each sees, what they share, what is left of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions
from penstock.cql.query import bind
from penstock.cql.statements import parse
from penstock.engine import rehearsal
from penstock.engine.command import Command
from penstock.engine.engine import Engine
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.stage import TS, Arrival, StepOutput
from penstock.errors import PipelineError
from penstock.measurement import Property, measured
from penstock.plan.admission import admit, explain_pipeline
from penstock.plan.pipeline import PipelinePlan, plan_pipeline
from penstock.schema import TimeDomain
from penstock.settings import Settings

SECONDS = InputOptions(TimeDomain("integer", "seconds"))
CATALOG = {
    "S": Input("S", pa.schema([("k", pa.int64()), ("v", pa.int64())]), SECONDS),
    "R": Input("R", pa.schema([("k", pa.int64()), ("w", pa.int64())]), SECONDS),
    "Q": Input("Q", pa.schema([("k", pa.int64())]), SECONDS, "relation"),
}


def bound(cql: str) -> Any:
    (query,) = parse(cql)
    return bind(query, CATALOG)


class Pipeline:
    """One partition of a pipeline over S and R."""

    def __init__(self, partitions: int = 1, split: Any = None, **queries: str) -> None:
        first = {name: bound(cql) for name, cql in queries.items()}
        self.plan: PipelinePlan = plan_pipeline([CATALOG["S"], CATALOG["R"]], first, partitions, split)
        self.engine = Engine(self.plan.stage.stage)
        self._commands: list[Command] = []
        self._sequence = 0
        for name, cql in queries.items():
            self.register(name, cql)

    def register(self, name: str, cql: str, sharing: str = "on", history: bool = False) -> None:
        admitted = admit(self.plan, name, bound(cql), Settings(sharing=sharing))
        self._add("register", {"query": name, "plan": admitted.plan.encoded(), "history": history})

    def set(self, name: str, value: Any) -> None:
        self._add("setting", {"name": name, "value": value})

    def drop(self, name: str) -> None:
        self._add("drop", {"query": name})

    def _add(self, kind: str, payload: dict[str, Any]) -> None:
        self._sequence += 1
        self._commands.append(Command(self._sequence, kind, payload))

    def step(self, **rows: list[tuple[int, int, int]]) -> StepOutput:
        arrivals = []
        for source in self.plan.sources:
            ts, *columns = np.array(rows.get(source.stream.name, []), np.int64).reshape(-1, 3).T
            names = [name for name, _ in source.columns]
            batch = pa.record_batch([pa.array(c) for c in (ts, *columns)], [TS, *names])
            first, last = (int(ts.min()), int(ts.max())) if len(ts) else (None, None)
            arrivals.append(Arrival(source.name, 0, batch, first, last))
        commands, self._commands = self._commands, []
        return self.engine.step(arrivals, commands)

    @property
    def windows(self) -> int:
        return sum(isinstance(e.node, SeqWindow) for e in self.engine.entities)


def shown(out: StepOutput, name: str) -> list[tuple[Any, ...]]:
    batch = out.roots[name].batch
    return sorted(tuple(row.values()) for row in batch.to_pylist())


COUNT = "SELECT COUNT(*) AS n FROM S [RANGE 10]"
JOIN = "SELECT S.v, R.w FROM S [RANGE 10], R [RANGE 10] WHERE S.k = R.k"


def test_a_query_registered_later_sees_later_rows_whatever_it_shares() -> None:
    pipeline = Pipeline(a=JOIN)
    pipeline.step(S=[(1, 1, 10), (2, 1, 20)], R=[(1, 1, 100), (2, 2, 0)])
    pipeline.register("b", JOIN)
    out = pipeline.step(S=[(3, 1, 30), (5, 0, 0)], R=[(4, 1, 400), (5, 0, 0)])
    later = [(4, 1, v, 400) for v in (10, 20, 30)]
    assert shown(out, "a") == [(2, 1, 20, 100), (3, 1, 30, 100), *later]
    assert shown(out, "b") == [(4, 1, 30, 400)]
    assert pipeline.windows == 2  # one of S, one of R: both queries read them


def test_a_query_registered_later_has_its_own_count_of_late_rows() -> None:
    pipeline = Pipeline(a=COUNT)
    pipeline.step(S=[(9, 1, 1)])
    pipeline.step(S=[(3, 1, 2), (10, 1, 3)])
    pipeline.register("b", COUNT)
    pipeline.step(S=[(4, 1, 4), (5, 1, 5), (12, 1, 6)])
    found = measured(pipeline.engine.measure())
    assert [found.entity(f"root/{n}").total(Property.LATE) for n in "ab"] == [3, 2]


def test_equal_queries_run_once() -> None:
    alone, together = Pipeline(a=JOIN), Pipeline(a=JOIN, b=JOIN)
    for pipeline in (alone, together):
        pipeline.step(S=[(1, 1, 10), (2, 0, 0)], R=[(1, 1, 100), (2, 0, 0)])
    first, second = ([e.id for e in p.engine.entities] for p in (alone, together))
    assert first == second


def test_queries_that_differ_in_names_alone_run_once() -> None:
    again = "SELECT x.v, y.w FROM S [RANGE 10] AS x, R [RANGE 10] AS y WHERE x.k = y.k"
    twice = "SELECT x.v, y.v AS w FROM S [RANGE 10] AS x, S [RANGE 5] AS y WHERE x.k = y.k"
    for one, other in ((JOIN, again), (twice, twice.replace("x", "R").replace("y", "S"))):
        alone, together = Pipeline(a=one), Pipeline(a=one, b=other)
        for pipeline in (alone, together):
            out = pipeline.step(S=[(1, 1, 10), (2, 0, 0)], R=[(1, 1, 100), (2, 0, 0)])
        first, second = ([e.id for e in p.engine.entities] for p in (alone, together))
        assert first == second
        assert shown(out, "a") == shown(out, "b") != []


def test_sharing_can_be_turned_off() -> None:
    pipeline = Pipeline(a=JOIN)
    pipeline.register("b", JOIN, sharing="off")
    out = pipeline.step(S=[(1, 1, 10), (2, 0, 0)], R=[(1, 1, 100), (2, 0, 0)])
    assert pipeline.windows == 4 and shown(out, "a") == shown(out, "b") == [(1, 1, 10, 100)]


def test_queries_with_other_names_share_windows() -> None:
    again = "SELECT x.v, y.w FROM S [RANGE 10] AS x, R [RANGE 10] AS y WHERE y.k = x.k AND x.v < y.w"
    pipeline = Pipeline(a=JOIN, b=again)
    pipeline.step(S=[(1, 1, 10), (2, 0, 0)], R=[(1, 1, 100), (2, 0, 0)])
    assert pipeline.windows == 2


def test_windows_of_different_sizes_share_a_store() -> None:
    pipeline = Pipeline(short="SELECT v FROM S [RANGE 1]", long="SELECT v FROM S [RANGE 100]")
    pipeline.step(S=[(t, t, t) for t in range(50)])
    held = [e.operator.rows() for e in pipeline.engine.entities if isinstance(e.node, SeqWindow)]
    assert sorted(held) == [0, 49]
    pipeline.drop("long")
    pipeline.step(S=[(51, 0, 0), (60, 0, 0)])
    assert sum(e.operator.rows() for e in pipeline.engine.entities) < 5


def test_row_windows_of_all_sizes_and_filters_share_a_store() -> None:
    long, short, odd = (
        f"SELECT v FROM S [ROWS {n}] {w}" for n, w in ((50, ""), (2, ""), (10, "WHERE v > 44"))
    )
    pipeline = Pipeline(short=short, long=long, odd=odd)
    out = pipeline.step(S=[(t, t, t) for t in range(60)])
    windows = [e.operator for e in pipeline.engine.entities if isinstance(e.node, SeqWindow)]
    assert sorted(w.rows() for w in windows) == [0, 0, 50]
    entered, left = [(t, 1, t) for t in range(45, 59)], [(t, -1, t - 10) for t in range(55, 59)]
    assert shown(out, "odd") == sorted([*entered, *left])
    told = {(m.property, m.text): m.value for m in pipeline.engine.measure() if m.property == "queries"}
    assert told["queries", "short, long, odd"] == 3
    pipeline.drop("long")
    pipeline.step(S=[(t, t, t) for t in range(61, 64)])
    assert sum(e.operator.rows() for e in pipeline.engine.entities if isinstance(e.node, SeqWindow)) == 10
    pipeline.drop("odd")
    out = pipeline.step(S=[(64, 64, 64), (65, 65, 65)])
    assert shown(out, "short") == [(63, -1, 61), (63, 1, 63), (64, -1, 62), (64, 1, 64)]


def test_sharing_is_switched_while_queries_run() -> None:
    """Every query goes on with what it had, apart and together again, also after a rebuild in between."""
    rows = "SELECT v FROM S [ROWS 3]"
    steps = [[(t, t % 2, t), (t, 0, t + 100)] for t in range(1, 12)]
    outputs = []
    for switched in (False, True):
        pipeline = Pipeline(a=JOIN, b=JOIN, c=COUNT, d=rows)
        found: dict[str, list[Any]] = {}
        for number, step in enumerate(steps):
            if switched and number in (3, 7):
                pipeline.set("sharing", "off" if number == 3 else "on")
            if switched and number == 5:
                snapshot = pipeline.engine.snapshot()
                pipeline.engine = Engine(pipeline.plan.stage.stage)
                pipeline.engine.restore(snapshot.data)
            out = pipeline.step(S=step, R=step)
            for name in out.roots:
                found.setdefault(name, []).extend(shown(out, name))
            if switched and number == 4:
                assert pipeline.windows == 2 + 2 + 1 + 1
        assert pipeline.windows == 4
        outputs.append(found)
    assert outputs[0] == outputs[1]


def test_a_dropped_query_leaves_nothing() -> None:
    pipeline = Pipeline(a=COUNT, b=JOIN, c="SELECT k, SUM(w) AS s FROM R GROUP BY k")
    pipeline.step(S=[(1, 1, 1), (2, 2, 2)], R=[(1, 1, 1), (2, 2, 2)])
    assert pipeline.engine.state_bytes() > 0
    for name in "abc":
        pipeline.drop(name)
    out = pipeline.step(S=[(3, 1, 1)], R=[(3, 1, 1)])
    assert not out.roots and not pipeline.engine.groups and pipeline.engine.state_bytes() == 0
    assert out.needs_from == 2  # the log needs nothing of what was


def test_a_query_that_raises_is_dropped_and_the_others_go_on() -> None:
    pipeline = Pipeline(good=COUNT, bad="SELECT SUM(v) AS s FROM S [RANGE 10]")
    out = pipeline.step(S=[(1, 1, 1), (2, 1, 5)])
    assert set(out.roots) == {"good", "bad"}
    out = pipeline.step(S=[(3, 1, 1 << 62), (3, 1, 1 << 62), (4, 1, 1)])
    assert set(out.roots) == {"good"} and "too large for BIGINT" in out.failed["bad"]
    out = pipeline.step(S=[(5, 1, 1), (6, 1, 1)])
    assert set(out.roots) == {"good"} and not out.failed
    assert shown(out, "good")[-1] == (5, 1, 6)


def test_registering_again_under_a_name_that_was_dropped() -> None:
    pipeline = Pipeline(a=COUNT)
    pipeline.step(S=[(1, 1, 1), (2, 1, 1)])
    pipeline.drop("a")
    pipeline.register("a", "SELECT v FROM S [RANGE 10]")
    out = pipeline.step(S=[(3, 1, 33), (4, 1, 44)])
    assert shown(out, "a") == [(3, 1, 33)]


@pytest.mark.parametrize(
    "cql",
    [
        COUNT,
        JOIN,
        "SELECT S.v, COUNT(*) AS n FROM S [RANGE 5], R [RANGE 5] WHERE S.k = R.k GROUP BY S.v",
        "SELECT DISTINCT v FROM S [ROWS 4] WHERE v < 3",
    ],
)
def test_a_query_is_rehearsed_in_all_of_its_stages(cql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []

    class Watched(Engine):
        def step(self, *given: Any) -> StepOutput:
            out = super().step(*given)
            came.extend(root.batch.num_rows for root in out.roots.values())
            return out

    monkeypatch.setattr(rehearsal, "Engine", Watched)
    plan = Pipeline(2, q=cql).plan
    admitted = admit(plan, "q", bound(cql)).plan
    rehearsal.rehearse([s.stage for s in plan.stages], "q", admitted)
    assert len(came) == 2 * (1 if admitted.second is None else 2) and came[len(plan.stages) - 1] > 0


class TestSplits:
    """The first queries decide by what the streams are split."""

    def test_a_query_that_fits_no_split_is_refused_with_what_to_do(self) -> None:
        pipeline = Pipeline(2, a="SELECT k, COUNT(*) AS n FROM S [RANGE 10] GROUP BY k")
        admit(pipeline.plan, "b", bound("SELECT k, MAX(v) AS m FROM S [RANGE 5] GROUP BY k"))
        wanted = r"S to 2 partitions by hash of v.*split=\{'S': \[\['v'\]\]\}"
        with pytest.raises(PipelineError, match=wanted):
            admit(pipeline.plan, "c", bound("SELECT v, COUNT(*) AS n FROM S [RANGE 5] GROUP BY v"))

    def test_a_split_by_a_part_of_a_key_will_do(self) -> None:
        queries = {
            "a": "SELECT ISTREAM(k, v) FROM S [NOW]",
            "b": "SELECT k, v, COUNT(*) AS n FROM S GROUP BY k, v",
        }
        pipeline = Pipeline(2, **queries, c="SELECT S.v, R.w FROM S, R WHERE S.k = R.k")
        assert [i.name for i in pipeline.plan.sources] == ["S by k", "R by k"]

    def test_a_query_that_any_split_fits_takes_the_most_parallel_one(self) -> None:
        queries = {
            "filter": "SELECT k FROM S WHERE v > 3",
            "rows": "SELECT COUNT(*) AS n FROM S [ROWS 5]",
            "by_v": "SELECT v, COUNT(*) AS n FROM S [RANGE 10] GROUP BY v",
        }
        plan = Pipeline(2, **queries).plan
        assert [i.name for i in plan.sources if i.alias == "S"] == ["S by v", "S whole"]
        spread = {name: admit(plan, name, bound(cql)).spread for name, cql in queries.items()}
        assert spread == {"filter": True, "rows": False, "by_v": True}
        whole = Pipeline(2, rows=queries["rows"], filter=queries["filter"]).plan
        assert [i.name for i in whole.sources if i.alias == "S"] == ["S whole"]

    def test_named_splits(self) -> None:
        pipeline = Pipeline(2, {"S": [["k"], ["v"], []]})
        assert [i.name for i in pipeline.plan.sources if i.alias == "S"] == ["S by k", "S by v", "S whole"]
        admit(pipeline.plan, "c", bound("SELECT v, COUNT(*) AS n FROM S [RANGE 5] GROUP BY v"))
        with pytest.raises(PipelineError, match="S has no column x"):
            Pipeline(2, {"S": [["x"]]})
        with pytest.raises(PipelineError, match="split names Z, which is not a stream"):
            Pipeline(2, {"Z": [["x"]]})

    def test_a_second_stage_brings_together_what_no_split_does(self) -> None:
        crossed = "SELECT S.v, COUNT(*) AS n FROM S [RANGE 5], R [RANGE 5] WHERE S.k = R.k GROUP BY S.v"
        plan = Pipeline(2, a="SELECT MAX(v) AS m FROM S [RANGE 5]", b=crossed).plan
        assert plan.second is not None and [i.name for i in plan.sources] == ["S by k", "R by k"]
        by_v, by_k = (f"SELECT {c}, COUNT(*) AS n FROM S [RANGE 7] GROUP BY {c}" for c in "vk")
        later = [admit(plan, "d", bound(cql)).plan for cql in (by_v, by_k, crossed)]
        assert [p.by for p in later] == [("S.v",), (), ("S.v",)] and later[1].second is None
        assert "stage 2, elements of stage 1 by hash of S.v" in explain_pipeline(
            plan, {"b": admit(plan, "b", bound(crossed))}
        )

    def test_without_a_second_stage_such_a_query_is_told_how_to_have_one(self) -> None:
        plan = Pipeline(2, a="SELECT k, COUNT(*) AS n FROM S [RANGE 10] GROUP BY k").plan
        assert plan.second is None
        with pytest.raises(PipelineError, match=r"split=\{'S': \[\[\]\]\}.* or with stages=2"):
            admit(plan, "b", bound("SELECT MAX(v) AS m FROM S [RANGE 5]"))

    def test_only_the_named_columns_are_sent(self) -> None:
        first = {"a": bound("SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k")}
        streams = [CATALOG["S"], CATALOG["R"]]
        plan = plan_pipeline(streams, first, 2, columns={"S": ["k"]})
        assert [i.schema.names for i in plan.stage.stage.inputs] == [["S.k"], ["R.k", "R.w"]]
        with pytest.raises(PipelineError, match=r"c reads S.v, which .* columns=\{'S': \['k', 'v'\]\}"):
            admit(plan, "c", bound("SELECT k, MAX(v) AS m FROM S [RANGE 5] GROUP BY k"))
        with pytest.raises(PipelineError, match="S has no column x to be read"):
            plan_pipeline(streams, first, 2, columns={"S": ["x"]})

    def test_other_streams_are_refused(self) -> None:
        with pytest.raises(PipelineError, match="does not read Q; its streams are S, R"):
            admit(Pipeline().plan, "q", bound("SELECT k FROM Q"))


def test_explain_says_who_shares_what() -> None:
    queries = {
        "a": COUNT,
        "b": JOIN,
        "c": "SELECT MAX(v) AS m FROM S [RANGE 10]",
        "d": "SELECT v FROM S [RANGE 3]",
    }
    pipeline = Pipeline(**queries)
    found = {name: admit(pipeline.plan, name, bound(cql)) for name, cql in queries.items()}
    text = explain_pipeline(pipeline.plan, found)
    assert "S whole: to one partition; read by a, b, c, d" in text
    assert "seq-window [RANGE 10]  = shared with c  = store shared with d" in text
    assert "seq-window [RANGE 3]  = store shared with a, c" in text
    assert "shared with b" not in text  # it has another clock, that of both streams


def test_explain_says_when_results_are_shown() -> None:
    """A join that alone would show its results at once waits, since it may share its windows."""
    now = "SELECT ISTREAM(k) FROM S [NOW]"
    pipeline = Pipeline(b=JOIN, c=now)
    found = {name: admit(pipeline.plan, name, bound(cql)) for name, cql in (("b", JOIN), ("c", now))}
    lines = explain_pipeline(pipeline.plan, found).splitlines()
    shown = {line.split()[1]: line.split("shown ")[1] for line in lines if line.startswith("query ")}
    assert shown == {"b:": "when an instant is complete", "c:": "at once, as results are found"}


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_history_does_not_depend_on_the_batches_that_commands_come_in(batches: int) -> None:
    """A query serves those that are registered before it is dropped, and no later ones."""
    pipeline = Pipeline(a="SELECT v, COUNT(*) AS n FROM S [RANGE 10] GROUP BY v")
    pipeline.step(S=[(t, 1, t) for t in range(20)])
    found = []
    for number, command in enumerate((
        lambda: pipeline.register("b", "SELECT COUNT(*) AS n FROM S [RANGE 5]", history=True),
        lambda: pipeline.drop("a"),
        lambda: pipeline.register("a", "SELECT v FROM S [RANGE 10]"),
        lambda: pipeline.drop("b"),
        lambda: pipeline.register("b", "SELECT MAX(v) AS m FROM S [RANGE 5]", history=True),
        lambda: pipeline.register("c", "SELECT v FROM S [RANGE 30]", history=True),
    )):  # fmt: skip
        command()
        if batches == 3 or (batches == 2 and number % 2):
            pipeline.step()
            found.append(number)
    pipeline.step(S=[(21, 1, 21)])
    history = pipeline.engine.queries.registry.queries
    assert {name: dict(history[name].history) for name in "abc"} == {"a": {}, "b": {}, "c": {}}


def test_a_query_that_is_dropped_in_the_same_batch_has_served_a_history() -> None:
    pipeline = Pipeline(a="SELECT v, COUNT(*) AS n FROM S [RANGE 10] GROUP BY v")
    pipeline.step(S=[(t, 1, t) for t in range(20)])
    pipeline.register("b", "SELECT COUNT(*) AS n FROM S [RANGE 20]", history=True)
    pipeline.drop("a")
    pipeline.register("c", "SELECT COUNT(*) AS n FROM S [RANGE 20]", history=True)
    out = pipeline.step(S=[(21, 1, 21)])
    history = pipeline.engine.queries.registry.queries
    assert (history["b"].history, history["b"].begin) == ({"S whole": 9}, 19)
    assert history["c"].history == {}
    assert shown(out, "b") == [(19, 1, 11)]


def test_a_query_with_history_begins_with_what_the_windows_of_others_have() -> None:
    pipeline = Pipeline(a="SELECT v, COUNT(*) AS n FROM S [RANGE 10] GROUP BY v")
    pipeline.step(S=[(t, 1, t) for t in range(20)])  # complete: 18; the window has 9 to 19
    pipeline.register("b", "SELECT COUNT(*) AS n FROM S [RANGE 20]", history=True)
    pipeline.register("plain", "SELECT COUNT(*) AS n FROM S [RANGE 20]")
    pipeline.register("other", "SELECT k, COUNT(*) AS n FROM S [RANGE 20] GROUP BY k", history=True)
    pipeline.register("rows", "SELECT ISTREAM(v) FROM S [ROWS 2]", history=True)
    out = pipeline.step(S=[(21, 1, 21)])
    history = pipeline.engine.queries.registry.queries
    assert (history["b"].history, history["b"].begin) == ({"S whole": 9}, 19)
    assert history["plain"].history == {} and history["plain"].since == 20
    assert history["other"].history == {}  # nobody keeps k
    assert shown(out, "b") == [(19, 1, 11)]
    assert shown(out, "plain") == [(20, 1, 0)]
    assert shown(out, "rows") == [(19, 1, 18), (19, 1, 19)]
    out = pipeline.step(S=[(50, 1, 50)])
    assert shown(out, "b")[:2] == [(21, -1, 11), (21, 1, 12)]


def test_a_later_query_shares_what_is_above_windows_as_soon_as_that_is_exact() -> None:
    pipeline = Pipeline(a=JOIN)
    pipeline.step(S=[(1, 1, 10), (2, 0, 0)], R=[(1, 1, 100), (2, 0, 0)])
    pipeline.register("b", JOIN)
    pipeline.register("c", JOIN.replace("S.v, R.w", "COUNT(*) AS n"))
    pipeline.step(S=[(5, 1, 50), (6, 0, 0)], R=[(5, 1, 500), (6, 9, 0)])
    alone = len(pipeline.engine.entities)
    out = pipeline.step(S=[(20, 0, 0)], R=[(20, 9, 0)])  # the rows up to 2 have left
    assert shown(out, "b")[-1] == (16, -1, 50, 500)
    pipeline.step(S=[(22, 0, 0)], R=[(22, 9, 0)])
    assert len(pipeline.engine.entities) < alone
    assert pipeline.engine.groups["R whole + S whole"].graph.root("a") is pipeline.engine.groups[
        "R whole + S whole"
    ].graph.root("b")
    out = pipeline.step(S=[(30, 1, 1), (31, 0, 0)], R=[(30, 1, 2), (31, 9, 0)])
    assert shown(out, "a") == shown(out, "b") == [(30, 1, 1, 2)]
    assert shown(out, "c") == [(30, -1, 0), (30, 1, 1)]
