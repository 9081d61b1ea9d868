"""The picture of a plan: what is in it, that nothing overlaps, and that no text of a query becomes markup."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_backends import JOIN, InProcess

from penstock import cql
from penstock.catalog import Catalog, Input
from penstock.cli.script import bound_queries
from penstock.engine.engine import Engine
from penstock.measurement import Measurements, measured
from penstock.plan import compile
from penstock.plan.admission import admit
from penstock.plan.pipeline import plan_pipeline
from penstock.server.model import Model
from penstock.server.picture import Picture, picture
from penstock.server.picture.layout import layout
from penstock.server.picture.settings import THINNEST, WIDEST
from penstock.server.picture.values import values_of, width_of
from penstock.server.plans import plan_view, planned_measurements
from penstock.server.views import PlanView

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def running() -> PlanView:
    backend = InProcess()
    backend.register("q", JOIN)
    model = Model(backend)
    for _ in range(3):
        backend.step()
        model.sample()
    return model.plan("q")


def rectangles(drawn: Picture) -> dict[str, tuple[float, float, float, float]]:
    found = {}
    for group in ElementTree.fromstring(drawn.svg).iter(f"{SVG}g"):
        if "data-box" in group.attrib:
            x, y = map(float, re.findall(r"-?[\d.]+", group.attrib["transform"]))
            face = next(r for r in group.iter(f"{SVG}rect") if r.attrib["class"] == "face")
            found[group.attrib["data-box"]] = (
                x,
                y,
                float(face.attrib["width"]),
                float(face.attrib["height"]),
            )
    return found


def assert_nothing_overlaps(drawn: Picture) -> None:
    boxes = list(rectangles(drawn).items())
    for n, (name, (x, y, w, h)) in enumerate(boxes):
        assert 0 <= x and x + w <= drawn.width and 0 <= y and y + h <= drawn.height, name
        for other, (x2, y2, w2, h2) in boxes[n + 1 :]:
            apart = x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
            assert apart, f"{name} overlaps {other}"


def eight_way() -> PlanView:
    names = "abcdefgh"
    streams = "".join(
        f"CREATE STREAM {n} (k BIGINT, v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '{n}';"
        for n in names
    )
    windows = ", ".join(f"{n} [RANGE 1 MINUTE]" for n in names)
    equal = " AND ".join(f"a.k = {n}.k" for n in names[1:])
    (query,) = bound_queries(f"{streams} SELECT a.v, COUNT(*) AS n FROM {windows} WHERE {equal} GROUP BY a.v")
    plan = compile(query.query, 4, query.settings)
    return plan_view("eight", planned_measurements(plan.stages), plan.stages, running=False)


def fifty_queries() -> PlanView:
    catalog = Catalog()
    for name in "abc":
        (made,) = cql.parse(
            f"CREATE STREAM {name} (k BIGINT, v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '{name}'"
        )
        assert isinstance(made, cql.CreateInput)
        catalog.add(made.definition())
    queries = {}
    for i in range(50):
        one, two = "abc"[i % 3], "abc"[(i + 1) % 3]
        windows = f"{one} [RANGE 1 MINUTE], {two} [RANGE {1 + i % 4} MINUTE]"
        equal = f"{one}.k = {two}.k AND {one}.v > {i}"
        join = f"SELECT {one}.k, COUNT(*) AS n FROM {windows} WHERE {equal} GROUP BY {one}.k"
        single = f"SELECT k, SUM(v) AS s FROM {one} [RANGE {1 + i % 4} MINUTE] WHERE v > {i % 7} GROUP BY k"
        queries[f"q{i:02}"] = cql.bind(join if i % 2 else single, catalog)
    streams = [d for d in (catalog[n] for n in "abc") if isinstance(d, Input)]
    plan = plan_pipeline(streams, queries, 2)
    roots = {n: admit(plan, n, q).plan.root for n, q in queries.items()}
    engine = Engine(replace(plan.stage.stage, roots=roots))
    found = Measurements(m for p in range(2) for m in measured(engine.measure(), "p", 1, p))
    return plan_view("fifty", found, (plan.stage,))


def seventeen_of_two_stages() -> PlanView:
    """Global aggregates in a pipeline: each query's second stage reads what its own first one returns."""
    catalog = Catalog()
    (made,) = cql.parse("CREATE STREAM S (v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 's'")
    assert isinstance(made, cql.CreateInput)
    catalog.add(made.definition())
    text = "SELECT COUNT(*) AS n FROM S [RANGE {} MINUTE]"
    queries = {f"q{i:02}_n": cql.bind(text.format(i + 1), catalog) for i in range(17)}
    plan = plan_pipeline([d for d in (catalog["S"],) if isinstance(d, Input)], queries, 2)
    assert plan.second is not None
    admitted = {n: admit(plan, n, q).plan for n, q in queries.items()}
    seconds = {n: a.second for n, a in admitted.items() if a.second is not None}
    first = replace(plan.stage.stage, roots={n: a.root for n, a in admitted.items()})
    inputs = tuple(i for s in seconds.values() for i in s.inputs)
    second = replace(plan.second.stage, roots={n: s.root for n, s in seconds.items()}, inputs=inputs)
    found = [m for n, s in enumerate((first, second), 1) for m in measured(Engine(s).measure(), "p", n, 0)]
    return plan_view("p", Measurements(found), (plan.stage, plan.second))


def test_a_pipeline_of_two_stages_is_folded_and_each_query_reads_its_own() -> None:
    plan = seventeen_of_two_stages()
    moved = [e for e in plan.edges if e.kind == "exchange" and e.target.startswith("2/")]
    users = {n.id: n.queries for n in plan.nodes}
    assert len(moved) == 17 and all(users[e.source] == users[e.target] for e in moved)
    drawn = picture(plan)
    assert sum(b.kind == "query" for b in drawn.scene.boxes.values()) == 17
    assert_nothing_overlaps(drawn)


def test_every_part_of_a_running_plan_is_in_its_picture(running: PlanView) -> None:
    drawn = picture(running)
    boxes = rectangles(drawn)
    assert set(boxes) == {n.id for n in running.nodes if n.kind not in ("index", "cache")}
    text = "".join(ElementTree.fromstring(drawn.svg).itertext())
    assert "stage 1 on 2 partitions" in text and "by hash of C.pid" in text and "hash" in text
    assert drawn.values["1/mjoin.7|order.O.0"] in ("B", "C")
    assert str(drawn.values["1/store/seq-window.2|rows"]).endswith(" rows")
    assert_nothing_overlaps(drawn)


def test_producers_are_above_consumers(running: PlanView) -> None:
    boxes = rectangles(picture(running))
    for edge in running.edges:
        if edge.source in boxes and edge.target in boxes:
            assert boxes[edge.source][1] + boxes[edge.source][3] < boxes[edge.target][1]


def test_queues_windows_and_stores_have_icons_of_their_own(running: PlanView) -> None:
    svg = picture(running).svg
    queues = [e for e in running.edges if e.kind == "queue"]
    assert svg.count('class="ladder') == len(queues) > 3
    assert svg.count('class="box window window') == 3 and svg.count('class="box store store') == 3
    assert svg.count('class="flow stub"') == 6  # each store: the window that fills it, the join's stub


def test_flows_are_as_wide_as_their_rates(running: PlanView) -> None:
    assert width_of(0, 100) == THINNEST and width_of(100, 100) == WIDEST
    assert THINNEST < width_of(1, 1000) < width_of(10, 1000) < width_of(1000, 1000)
    drawn = picture(running)
    double = replace(
        running,
        edges=tuple(replace(e, rate=e.rate * 9 if "C" in e.source else e.rate) for e in running.edges),
    )
    assert values_of(double, drawn.scene) != drawn.values


def test_an_eight_way_join_stays_readable() -> None:
    drawn = picture(eight_way())
    assert_nothing_overlaps(drawn)
    orders = [key for key in drawn.values if "|order." in key]
    assert len(orders) == 8 * 7 and drawn.width < 2000


def test_fifty_shared_queries_are_folded_and_can_be_unfolded() -> None:
    plan = fifty_queries()
    drawn = picture(plan)
    assert_nothing_overlaps(drawn)
    folded = [b for b in drawn.scene.boxes.values() if b.kind == "query"]
    assert len(folded) == 50 and len(drawn.scene.boxes) < 100 < len(picture(plan, fold=False).scene.boxes)
    shared = [b for b in drawn.scene.boxes.values() if b.kind == "store" and len(b.users) > 1]
    assert shared and "store ×" in drawn.svg
    one = picture(plan, shown=frozenset(["q07"]))
    assert len(one.scene.boxes) > len(drawn.scene.boxes) and "query/q07" not in one.scene.boxes


HOSTILE = '<img src=x onerror="alert(1)">&\'"]]>\x00\x1b</svg><script>'


def test_no_text_becomes_markup(running: PlanView) -> None:
    nodes = tuple(
        replace(n, label=HOSTILE, name=HOSTILE, queries=(HOSTILE, "b"), budget=HOSTILE) for n in running.nodes
    )
    nodes = tuple(replace(n, id=n.id) for n in nodes)
    edges = tuple(replace(e, label=HOSTILE) for e in running.edges)
    stages = tuple(replace(s, why=HOSTILE) for s in running.stages)
    root = ElementTree.fromstring(picture(replace(running, nodes=nodes, edges=edges, stages=stages)).svg)
    known = {"svg", "style", "g", "path", "rect", "text", "title", "circle"}
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= known
    assert not [a for e in root.iter() for a in e.attrib if a.startswith("on") or a.endswith("href")]
    assert any("onerror" in (e.text or "") for e in root.iter(f"{SVG}title"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_is_laid_out_without_overlaps(data: st.DataObject) -> None:
    many = data.draw(st.integers(1, 14))
    pairs = [(a, b) for b in range(many) for a in range(b)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    sizes = {
        str(n): (float(data.draw(st.integers(20, 200))), float(data.draw(st.integers(20, 90))))
        for n in range(many)
    }
    found = layout(sizes, [(str(a), str(b)) for a, b in edges])
    for a, b in edges:
        assert found.centres[str(a)][1] < found.centres[str(b)][1]
    for n in range(many):
        for m in range(n):
            (x, y), (x2, y2) = found.centres[str(n)], found.centres[str(m)]
            (w, h), (w2, h2) = sizes[str(n)], sizes[str(m)]
            assert abs(x - x2) >= (w + w2) / 2 - 1e-6 or abs(y - y2) >= (h + h2) / 2 - 1e-6
