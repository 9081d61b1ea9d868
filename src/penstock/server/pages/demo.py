"""The page of the demo: the network with its knobs, and the plan that follows it."""

from __future__ import annotations

from nicegui import ui

from penstock.server.demo import KNOBS, NAME, Demo, Knob
from penstock.server.graphs import Graphs
from penstock.server.model import Model
from penstock.server.pages.decisions import Made
from penstock.server.pages.frame import Words, address, button, element, section, tile, words
from penstock.server.pages.plan_view import PlanPicture
from penstock.server.picture import count_of, size_of
from penstock.server.settings import SHOWN_BESIDE

_ROUTING = {
    False: "through: every packet of O has passed B, few come from C. Best for O: probe C first.",
    True: "direct: most packets of O come straight from C, few have passed B. Best for O: probe B first.",
}


class DemoPage:
    """Knobs at the left, the plan in the middle, decisions at the right."""

    def __init__(self, model: Model, graphs: Graphs, demo: Demo) -> None:
        self._model, self._demo, self._seen = model, demo, -1
        with element("div", "demo-page"):
            with element("aside", "demo-knobs"):
                with section("The network"):
                    words(
                        "Packets enter on C, cross the backbone B and leave on O. The query sums the sizes "
                        "of those that crossed all three within ten minutes.",
                        "div",
                        "quiet",
                    )
                for knob in KNOBS:
                    self._knob(knob)
                with section("Routing"):
                    self._routing = words(_ROUTING[demo.knobs.direct], "div", "quiet")
                    button("Change the routing now", self._switch, "main")
            with element("div", "plan-main"):
                with element("div", "tiles demo-tiles"):
                    self._tiles = {what: tile(what) for what in ("rows in", "batch", "state", "lateness")}
                self._picture = PlanPicture(lambda id: ui.navigate.to(address("plan", NAME)))
            with element("aside", "plan-side").props('aria-label="Decisions"'):
                with section("Order in which packets probe"):
                    self._orders = element("div", "facts")
                with section("Decisions"):
                    self._decisions = element("div", "timeline small")
        self.look()
        ui.timer(1.0, self.look)

    def _knob(self, knob: Knob) -> None:
        value = getattr(self._demo.knobs, knob.name)
        with element("label", "knob"):
            with element("div", "line").style("align-items: flex-end"):
                words(knob.label, "span")
                element("div", "spacer")
                shown = words(_shown(knob, value), "span", "num")
            slider = element("input")
            slider._props |= {
                "type": "range", "min": knob.least, "max": knob.most, "step": knob.step, "value": value,
                "aria-label": knob.label,
            }  # fmt: skip
            slider.on(
                "change", lambda e, k=knob, w=shown: self._turn(k, float(e.args), w),
                js_handler="(e) => emit(e.target.value)",
            )  # fmt: skip

    def _turn(self, knob: Knob, value: float, shown: Words) -> None:
        self._demo.set(knob.name, value)
        shown.say(_shown(knob, getattr(self._demo.knobs, knob.name)))

    def _switch(self) -> None:
        self._routing.say(_ROUTING[self._demo.switch()])

    def look(self) -> None:
        """Show what is new."""
        if self._model.version == self._seen or NAME not in [q.key for q in self._model.queries()]:
            return
        self._seen = self._model.version
        query, plan = self._model.query(NAME), self._model.plan(NAME)
        self._tiles["rows in"].say("–" if query.rows_in is None else f"{count_of(query.rows_in)}/s")
        self._tiles["batch"].say("–" if query.batch_seconds is None else f"{query.batch_seconds:.2f} s")
        self._tiles["state"].say(size_of(query.state_bytes))
        self._tiles["lateness"].say("–" if query.lateness is None else f"{query.lateness:.2f} s")
        self._picture.show(plan)
        self._orders.clear()
        with self._orders:
            for node in plan.nodes:
                for order in node.orders:
                    words(f"a packet of {order.of}", "div", "k")
                    words(" → ".join(order.steps), "div", "v")
        self._decisions.clear()
        with self._decisions:
            made = self._model.decisions(NAME)[-SHOWN_BESIDE:]
            for decision in reversed(made):
                Made(decision, small=True)
            if not made:
                words("None yet.", "div", "quiet")


def _shown(knob: Knob, value: float) -> str:
    return f"{value:.0%}" if knob.most <= 1 else f"{value:,.0f}"
