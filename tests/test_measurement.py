"""Measurements: declared properties, how they are selected, and that nothing goes around them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock import measurement
from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import (
    Kind,
    Measurements,
    Property,
    Reading,
    curve,
    decode,
    encode,
    measured,
    parent_of,
    under,
)
from penstock.plan import compile

ROOT = Path(__file__).parent.parent
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
STREAM = Input("S", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
JOIN = "SELECT x.a FROM S [RANGE 9] AS x, S [RANGE 9] AS y, S [RANGE 9] AS z WHERE x.a = y.a AND y.b = z.b"


def run(query: str, rows: int = 2000) -> Measurements:
    engine = Engine(compile(bind(query, {"S": STREAM})).stages[0].stage)
    random = np.random.default_rng(1)
    arrivals = []
    for i in engine.stage.inputs:
        columns = {f.name: pa.array(random.integers(0, 100, rows)) for f in i.schema}
        batch = pa.RecordBatch.from_pydict({TS: pa.array(np.arange(rows)), **columns})
        arrivals.append(Arrival(i.name, 0, batch, 0, rows))
    engine.step(arrivals)
    return measured(engine.measure(), "q", 1, 0, 5)


def test_every_entity_publishes_with_its_place_in_the_plan() -> None:
    found = run(JOIN)
    assert {m.kind for m in found} == set(Kind) - {Kind.CACHE, Kind.QUERY}
    entities = {m.entity for m in found}
    for m in found:
        above = parent_of(m.entity)
        assert not above or above in entities or m.kind in (Kind.INPUT, Kind.ROOT, Kind.STORE)
    producers = {m.text for m in found.of(Property.FROM)}
    assert producers <= entities, "every queue is filled by an entity that publishes"
    filled = {m.text for m in found.of_kind(Kind.QUEUE).of(Property.FROM)}
    roots = {m.entity for m in found.of_kind(Kind.OPERATOR)} - filled
    assert roots == {m.text for m in found.of_kind(Kind.ROOT).of(Property.FROM)}
    assert len(roots) == 1, "all operators but the root fill a queue"
    (join,) = found.of_operator("mjoin").of_kind(Kind.OPERATOR).by_entity()
    windows = {e for e in found.of_kind(Kind.WINDOW).by_entity() if e.startswith(join)}
    assert windows == {f"{join}/{label}" for label in "xyz"}
    assert all(f"{w}/order" in found.of_kind(Kind.ADAPTIVE).by_entity() for w in windows)


def test_a_decision_is_a_record_with_number_plan_and_statistics() -> None:
    found = run(JOIN).of_kind(Kind.DECISION)
    for entity, decision in found.by_entity().items():
        assert entity.rpartition("/")[2].isdigit()
        assert sorted(decision.text(Property.DECIDED_AT).split(", ")) == sorted(
            decision.values(Property.STATISTIC)
        )
    assert found


def test_what_is_sent_is_what_was_published() -> None:
    readings = [
        *under("a", Kind.STORE, [Reading(Property.ROWS, np.int64(3)), Reading(Property.NAME, 0, "→")])
    ]
    readings += under(
        "a", Kind.STORE, under("b", Kind.DECISION, curve(Property.COST, (1.5, float("nan")), "xy"))
    )
    again = list(decode(encode(readings)))
    assert [r[:1] + r[2:] for r in again] == [r[:1] + r[2:] for r in readings]
    assert [r.value for r in again] == pytest.approx([3, 0, 1.5, float("nan")], nan_ok=True)
    assert again[2].entity == "a/b" and again[2].kind is Kind.DECISION


def test_rows_are_plain_values() -> None:
    for row in run("SELECT a FROM S [RANGE 5]").rows():
        assert [type(v) for v in row] == [int, str, int, int, str, str, str, float, str]


def test_a_word_selects_nothing() -> None:
    with pytest.raises(TypeError, match="'rows' is no Property"):
        Measurements().of("rows")  # type: ignore[arg-type]


def test_properties_are_compared_with_declared_ones_alone() -> None:
    """No ``m.property == "rows"``, nor a subscript by a property's name."""
    words = {str(p) for p in Property if "_" in p}
    for path in SOURCES:
        if path.name == "measurement.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                reads = any(isinstance(s, ast.Attribute) and s.attr == "property" for s in sides)
                assert not reads or not any(isinstance(s, ast.Constant) for s in sides), (path, node.lineno)
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                assert node.slice.value not in words, (path, node.lineno)
        assert "def metrics(" not in path.read_text() or path.name == "session.py", path


def test_every_property_is_published_and_documented() -> None:
    text = "\n".join(p.read_text() for p in SOURCES if p.name != "measurement.py")
    for prop in Property:
        assert f"Property.{prop.name}" in text, f"{prop.name} is published by nobody"
        assert prop.doc and prop.name.lower() == prop
    page = (ROOT / "docs" / "operations.md").read_text()
    assert measurement.table() in page, (
        "docs/operations.md: replace the table by penstock.measurement.table()"
    )
