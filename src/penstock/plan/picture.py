"""A picture of a pipeline's plan: its operators from the streams on the left to the queries on the right.

Equal nodes of queries with the same clock are one box, as they are one operator in an engine; a box with
several queries has a stronger frame. Windows name the store of their rows: those with the same name share it.
Projections that only rename or drop columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from penstock.engine.operator import Node
from penstock.engine.operators.project import Project
from penstock.engine.operators.seq_window import SeqWindow
from penstock.plan.admission import Admitted, clock_of, shown_plan
from penstock.plan.pipeline import PipelinePlan
from penstock.plan.settings import ACROSS, DOWN, HEIGHT, LETTERS, MARGIN, WIDTH

_STYLE = """
    .box { fill: #ffffff; stroke: #57606a; stroke-width: 1.2 } .shared { stroke-width: 2.6 }
    .source { fill: #fff4e5; stroke: #bc6c25 } .window { fill: #eef7ee; stroke: #2da44e }
    .query { fill: #e8f1fb; stroke: #1f6feb }
    .t { fill: #1f2328; font-weight: 600 } .s { fill: #57606a; font-size: 11px }
    .a { stroke: #57606a; stroke-width: 1.3; fill: none }
  """


class _Operator(NamedTuple):
    """A box of an operator: its node, and the clock that it runs by. Every stream is scanned once for all."""

    node: Node
    clock: Any


_Box = _Operator | str


class _Drawing:
    """The boxes of operators and queries: the column that each is in, and the queries that use it."""

    def __init__(self, plan: PipelinePlan, queries: Mapping[str, Admitted]) -> None:
        self.column: dict[_Box, int] = {}
        self.users: dict[_Box, list[str]] = {}
        self.edges: dict[tuple[_Box, _Box], None] = {}
        self.stores: dict[tuple[Any, str], str] = {}
        for name, query in queries.items():
            clock = clock_of(plan, query)
            last = self._add(shown_plan(name, query), name, clock)
            if query.plan.second is not None:
                last = self._add(query.plan.second.root, name, clock, last)
            self.edges[last, name] = None
            self.users[name] = [name]
        last_column = max(self.column.values(), default=0) + 1
        self.column |= dict.fromkeys(queries, last_column)

    def _add(self, node: Node, query: str, clock: Any, first: _Operator | None = None) -> _Operator:
        """Add a node and what is below it; ``first``: the root of the stage before, in place of a source."""
        if isinstance(node, Project) and node.renames is not None:
            return self._add(node.input, query, clock, first)
        if first is not None and not node.inputs:
            return first
        below = [self._add(i, query, clock, first) for i in node.inputs]
        box = _Operator(node, clock if node.inputs else None)
        self.column[box] = max((self.column[b] + 1 for b in below), default=0)
        self.edges |= dict.fromkeys((b, box) for b in below)
        users = self.users.setdefault(box, [])
        if query not in users:
            users.append(query)
        if node.fills:
            self.stores.setdefault((clock, node.fills), f"store {len(self.stores) + 1}")
        return box

    def places(self) -> dict[_Box, tuple[int, int]]:
        """The upper left corners of the boxes."""
        count: dict[int, int] = {}
        found = {}
        for box, column in self.column.items():
            row = count[column] = count.get(column, -1) + 1
            found[box] = (MARGIN + column * ACROSS, MARGIN + row * DOWN)
        return found

    def words(self, box: _Box) -> tuple[str, str, str]:
        """The kind of a box, its title and its second line."""
        if isinstance(box, str):
            return "query", box, "query"
        node, clock = box
        if not node.inputs:
            return "source", node.describe(), "one scan"
        if isinstance(node, SeqWindow):
            return "window", node.describe(), f"rows in {self.stores.get((clock, node.store), 'no store')}"
        return "", node.name, node.describe()


def picture(plan: PipelinePlan, queries: Mapping[str, Admitted]) -> str:
    """The plan of a pipeline's queries as SVG."""
    drawing = _Drawing(plan, queries)
    places = drawing.places()
    width = max(x for x, _ in places.values()) + WIDTH + MARGIN
    height = max(y for _, y in places.values()) + HEIGHT + MARGIN
    return "\n".join(_lines(drawing, places, width, height)) + "\n"


def _lines(
    drawing: _Drawing, places: Mapping[_Box, tuple[int, int]], width: int, height: int
) -> Iterator[str]:
    font = 'font-family="system-ui, sans-serif" font-size="12.5"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {font}>'
    yield f"  <style>{_STYLE}</style>"
    yield f'  <rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    for below, above in drawing.edges:
        (x, y), (to_x, to_y) = places[below], places[above]
        start, end, half = x + WIDTH, to_x, HEIGHT // 2
        middle = (start + end) // 2
        path = f"M{start} {y + half} C{middle} {y + half} {middle} {to_y + half} {end} {to_y + half}"
        yield f'  <path class="a" d="{path}"/>'
    for box, (x, y) in places.items():
        kind, title, line = drawing.words(box)
        several = " shared" if len(drawing.users[box]) > 1 else ""
        style = f"box {kind}{several}".replace("  ", " ")
        yield f'  <rect class="{style}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        yield f'  <text class="t" x="{x + 10}" y="{y + 19}">{escape(_short(title))}</text>'
        yield f'  <text class="s" x="{x + 10}" y="{y + 36}">{escape(_short(line))}</text>'
    yield "</svg>"


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
