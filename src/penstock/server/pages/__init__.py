"""The pages in the browser."""

from __future__ import annotations

from functools import lru_cache

from nicegui import ui

from penstock.server import demo as network
from penstock.server import road as linear_road
from penstock.server.graphs import Graphs
from penstock.server.model import Model
from penstock.server.pages import frame
from penstock.server.pages.charts import GraphsPage
from penstock.server.pages.decisions import DecisionsPage
from penstock.server.pages.demo import DemoPage
from penstock.server.pages.plan import PlanPage
from penstock.server.pages.queries import Queries
from penstock.server.pages.road import RoadPage
from penstock.server.pages.try_it import TryPage
from penstock.server.site import shown


@lru_cache(maxsize=1)
def graphs_of(model: Model) -> Graphs:
    """The graphs of the server that is shown."""
    return Graphs(model).watch()


def add_pages() -> None:
    """Define the pages; each asks ``shown()`` for the model, whose backend makes the changes."""

    def more() -> list[tuple[str, str]]:
        road = [("Road", "/road")] if linear_road.running else []
        return [("Demo", "/demo"), *road] if network.running else road

    def chosen(query: str) -> str:
        """A query by its key; without one the first that runs."""
        known = shown().model.queries()
        if not known:  # the first look may be before the first sample
            shown().model.sample()
            known = shown().model.queries()
        running = [q for q in known if q.state == "running" and q.kind != "member"] or known
        return query if any(q.key == query for q in known) else running[0].key if running else ""

    @ui.page("/", title="Queries · Penstock")
    def queries() -> None:
        graphs_of(shown().model)
        with frame.page("Queries", more()):
            Queries(shown().model)

    @ui.page("/plan", title="Plan · Penstock")
    def plan(query: str = "") -> None:
        key = chosen(query)
        with frame.page("Plan", more(), wide=bool(key)):
            if key:
                PlanPage(shown().model, graphs_of(shown().model), key)
            else:
                frame.words("No query runs. Start one on the page Queries.", "div", "empty")

    @ui.page("/graphs", title="Graphs · Penstock")
    def graphs() -> None:
        with frame.page("Graphs", more()):
            GraphsPage(graphs_of(shown().model))

    @ui.page("/decisions", title="Decisions · Penstock")
    def decisions(query: str = "") -> None:
        key = query if any(q.key == query for q in shown().model.queries()) else ""
        with frame.page("Decisions", more()):
            DecisionsPage(shown().model, key)

    @ui.page("/try", title="Try it · Penstock")
    def try_it() -> None:
        with frame.page("Try it", more()):
            TryPage(shown().model)

    @ui.page("/demo", title="Demo · Penstock")
    def demo() -> None:
        with frame.page("Demo", more(), wide=bool(network.running)):
            if network.running:
                DemoPage(shown().model, graphs_of(shown().model), network.running[-1])
            else:
                frame.words("Start the demo with: penstock serve --demo", "div", "empty")

    @ui.page("/road", title="Road · Penstock")
    def road() -> None:
        with frame.page("Road", more()):
            if linear_road.running:
                RoadPage(linear_road.running[-1])
            else:
                frame.words("Start it with: penstock serve --linear-road", "div", "empty")
