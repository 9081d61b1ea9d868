"""Graphs: CQL over SysStream in the server, its series, and their bounds."""

from __future__ import annotations

import pytest
from server_backends import JOIN, InProcess

from penstock.errors import CatalogError, CQLError
from penstock.measurement import Kind, Property
from penstock.server.graphs import STANDARD, Graphs
from penstock.server.model import Model
from penstock.server.settings import GRAPH_IDLE_S, GRAPH_MOST_SERIES, MOST_GRAPHS


@pytest.fixture
def watched() -> tuple[InProcess, Model, Graphs]:
    backend = InProcess()
    backend.register("q", JOIN)
    model = Model(backend)
    return backend, model, Graphs(model)


def test_a_graph_has_what_its_query_returns(watched: tuple[InProcess, Model, Graphs]) -> None:
    backend, model, graphs = watched
    expected = []
    memory = next(g for g in graphs.all() if g.title == "Memory")
    for n in range(4):
        memory.looked = 1000.0 + n
        backend.step()
        model.sample()
        graphs.sample(1000.0 + n)
        bytes_ = model.measurements("q").of_kind(Kind.ENGINE).total(Property.BYTES)
        expected.append((1000.0 + n, bytes_ / 1e6))
    assert not [g.error for g in graphs.all() if g.error] and len(graphs.all()) == len(STANDARD)
    times, values = memory.series["q"].since(0)
    assert times == [t for t, _ in expected] and memory.pinned
    assert values == pytest.approx([v for _, v in expected])


def test_what_is_measured_while_nobody_looks_is_fed_later(watched: tuple[InProcess, Model, Graphs]) -> None:
    backend, model, graphs = watched
    memory = next(g for g in graphs.all() if g.title == "Memory")
    memory.fed = 1000.0
    for n in range(3):
        backend.step()
        model.sample()
        graphs.sample(1000.0 + n)
    assert not memory.series
    graphs.sample(1001.0 + GRAPH_IDLE_S)
    assert len(memory.series["q"].since(0)[0]) == 3


def test_many_instants_at_once_give_the_same_as_one_by_one(watched: tuple[InProcess, Model, Graphs]) -> None:
    backend, model, graphs = watched
    text = (
        "SELECT entity, AVG(value) AS v FROM SysStream [RANGE 2 SECONDS] WHERE property = 'elements' "
        "GROUP BY entity"
    )
    one, many = graphs.add("one", text), graphs.add("many", text)
    many.fed = 1000.0
    for n in range(5):
        one.looked = 1000.0 + n
        backend.step()
        model.sample()
        graphs.sample(1000.0 + n)
    graphs.feed(many, 1005.0)
    assert {n: s.since(0) for n, s in one.series.items()} == {n: s.since(0) for n, s in many.series.items()}
    assert len(one.series) > 5


def test_graphs_are_added_changed_and_removed(watched: tuple[InProcess, Model, Graphs]) -> None:
    backend, model, graphs = watched
    made = graphs.add(
        "steps",
        "SELECT query, partition, MAX(value) AS n FROM SysStream [NOW] WHERE property = 'steps' "
        "GROUP BY query, partition",
    )
    backend.step()
    model.sample()
    graphs.sample(1000.0)
    assert made.series.keys() == {"q · partition", "q · n"}
    for n in range(MOST_GRAPHS - len(graphs.all())):
        graphs.add(f"g{n}", "SELECT value FROM SysStream [NOW]")
    with pytest.raises(CatalogError, match="graphs, the most"):
        graphs.add("one more", "SELECT value FROM SysStream [NOW]")
    graphs.remove("steps")
    assert "steps" not in [g.title for g in graphs.all()]


def test_a_graph_keeps_few_series(watched: tuple[InProcess, Model, Graphs]) -> None:
    backend, model, graphs = watched
    made = graphs.add("all", "SELECT entity, property, text, value FROM SysStream [NOW]")
    backend.step()
    model.sample()
    graphs.sample(1000.0)
    assert len(made.series) == GRAPH_MOST_SERIES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT nothing FROM SysStream [NOW]", "nothing"),
        ("SELECT query FROM SysStream [NOW]", "needs a column with numbers"),
        ("CREATE VIEW v AS SELECT value FROM SysStream [NOW]", "write one query"),
        ("SELECT value FROM C [NOW]", "C"),
    ],
)
def test_a_mistake_in_a_graph_is_told(
    watched: tuple[InProcess, Model, Graphs], text: str, message: str
) -> None:
    with pytest.raises((CQLError, CatalogError), match=message):
        watched[2].add("g", text)
