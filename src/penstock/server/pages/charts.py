"""Graphs in pages: a chart with its query below, which can be changed."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from penstock import sysstream
from penstock.errors import PenstockError
from penstock.schema import sql_name
from penstock.server.graphs import Graph, Graphs
from penstock.server.pages import frame
from penstock.server.pages.cql_editor import CqlEditor
from penstock.server.pages.frame import button, element, words
from penstock.server.settings import CHART_SPANS_S
from penstock.server.views import ColumnView, InputView

COLOURS = ["#2b8cc4", "#d9822b", "#2f9e6e", "#9a6dd7", "#d9534f", "#7a8794", "#2aa198", "#b58900"]
"""Chosen to differ in lightness, too; readable on light and dark ground."""
SYSSTREAM = InputView(
    sysstream.NAME, "stream", tuple(ColumnView(f.name, sql_name(f.type)) for f in sysstream.SCHEMA)
)


class GraphCard:
    """A graph that is drawn again while it is looked at."""

    def __init__(
        self, graphs: Graphs, graph: Graph, small: bool = False, on_gone: Any = lambda: None
    ) -> None:
        self._graphs, self.graph, self._small = graphs, graph, small
        self._on_gone = on_gone
        self._span = CHART_SPANS_S[0]
        self._drawn: object = None
        self._card = element("section", "stack" if small else "card")
        self._card.props["aria-label"] = graph.title
        with self._card:
            with element("div", "line"):
                words(graph.title, "h3", "name")
                element("div", "spacer")
                if not small:
                    spans = {str(s): _span(s) for s in CHART_SPANS_S}
                    frame.chooser(spans, str(self._span), self._choose_span, "Time shown", "small")
                    self._pin = button("Pinned" if graph.pinned else "Pin", self._switch, "small")
                    self._pin.props["aria-pressed"] = str(graph.pinned).lower()
                    button("Query", self._edit, "small")
            self._chart = ui.echart(_options(graph, small)).classes("chart")
            self._chart.props["role"], self._chart.props["aria-label"] = "img", graph.title
            self._error = words("", "div", "quiet")
            self._error.set_visibility(False)
            self._below = element("div", "stack")
        self.look()
        ui.timer(2.0, self.look)

    def look(self) -> None:
        """Draw what is new."""
        self._graphs.look(self.graph)
        since = time.time() - self._span
        shown = {name: series.since(since) for name, series in list(self.graph.series.items())}
        last = {name: (len(times), times[-1] if times else 0) for name, (times, _) in shown.items()}
        if (last, self._span) == self._drawn:
            return
        self._drawn = last, self._span
        notice = self.graph.error or ("" if any(t for t, _ in shown.values()) else "nothing measured yet")
        self._error.say(notice)
        self._error.set_visibility(bool(notice))
        self._chart.set_visibility(not notice)
        self._chart.options["series"] = [_line(n, t, v) for n, (t, v) in sorted(shown.items()) if t]
        self._chart.update()

    def _choose_span(self, text: str) -> None:
        self._span = float(text)
        self.look()

    def _switch(self) -> None:
        self.graph.pinned = not self.graph.pinned
        self._pin.say("Pinned" if self.graph.pinned else "Pin")
        self._pin.props["aria-pressed"] = str(self.graph.pinned).lower()

    def _edit(self) -> None:
        if self._below.default_slot.children:
            self._below.clear()
            return
        with self._below:
            editor = CqlEditor(self.graph.text, f"Query of {self.graph.title}")
            editor.complete([SYSSTREAM])

            def save() -> None:
                try:
                    self.graph = self._graphs.add(self.graph.title, editor.value, self.graph.unit)
                except PenstockError as error:
                    editor.show_error(error)
                    return
                editor.show_error(None)
                self._drawn = None
                self._below.clear()

            def remove() -> None:
                self._graphs.remove(self.graph.title)
                self._card.delete()
                self._on_gone()

            with element("div", "row"):
                button("Apply", save, "small main")
                button("Remove graph", remove, "small")


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"


def _line(name: str, times: list[float], values: list[float]) -> dict[str, Any]:
    points = [[round(t * 1000), round(v, 6)] for t, v in zip(times, values, strict=True)]
    return {"name": name, "type": "line", "data": points, "showSymbol": False, "lineStyle": {"width": 1.8}}


def _options(graph: Graph, small: bool) -> dict[str, Any]:
    grey = "#8593a0"
    return {
        "animation": False,
        "color": COLOURS,
        "grid": {"left": 8, "right": 26, "top": 30, "bottom": 6 if small else 30, "containLabel": True},
        "legend": {
            "type": "scroll", "bottom": 0, "icon": "circle", "itemWidth": 9, "itemHeight": 9,
            "textStyle": {"color": grey, "fontSize": 11}, "show": not small,
        },
        "tooltip": {"trigger": "axis", "confine": True, "renderMode": "richText"},
        "xAxis": {"type": "time", "splitNumber": 4, "axisLabel": {"color": grey, "hideOverlap": True},
                  "axisLine": {"lineStyle": {"color": grey}}},
        "yAxis": {
            "type": "value", "name": graph.unit, "nameTextStyle": {"color": grey, "align": "left"},
            "axisLabel": {"color": grey}, "splitLine": {"lineStyle": {"color": "rgba(133,147,160,.18)"}},
        },
        "series": [],
    }  # fmt: skip


class GraphsPage:
    """All graphs, and a form for another one."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        with element("div", "row"):
            words("Graphs", "h1", "name")
            words("each is a CQL query over SysStream", "span", "quiet")
            element("div", "spacer")
            button("New graph", self._ask, "main")
        self._new = element("div")
        self._all = element("div", "graphs")
        with self._all:
            for graph in graphs.all():
                GraphCard(graphs, graph)

    def _ask(self) -> None:
        self._new.clear()
        given = {"title": "", "unit": ""}
        with self._new, element("section", "card") as form:
            form.props["aria-label"] = "New graph"
            with element("div", "row"):
                frame.field("Title", "", lambda text: given.__setitem__("title", text))
                frame.field("Unit", "", lambda text: given.__setitem__("unit", text))
            editor = CqlEditor(
                "SELECT query, AVG(value) AS value\nFROM SysStream [RANGE 10 SECONDS]\n"
                "WHERE property = 'selectivity'\nGROUP BY query",
                "Query of the new graph",
            )
            editor.complete([SYSSTREAM])

            def add() -> None:
                try:
                    graph = self._graphs.add(given["title"] or "New graph", editor.value, given["unit"])
                except PenstockError as error:
                    editor.show_error(error)
                    return
                self._new.clear()
                with self._all:
                    GraphCard(self._graphs, graph)

            with element("div", "row"):
                button("Add", add, "main")
                button("Cancel", self._new.clear)
