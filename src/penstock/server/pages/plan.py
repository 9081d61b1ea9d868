"""The page of a plan: its picture, live, what holds it back, where its memory is, and its knobs."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from penstock.errors import PenstockError
from penstock.server.graphs import Graphs
from penstock.server.model import Model
from penstock.server.pages import frame
from penstock.server.pages.charts import GraphCard
from penstock.server.pages.frame import attempt, button, element, section, words
from penstock.server.pages.plan_view import PlanPicture
from penstock.server.picture import count_of, size_of
from penstock.server.picture.settings import SHOWN_BUSY
from penstock.server.picture.values import flow_key
from penstock.server.settings import BUSY, SHOWN_BESIDE
from penstock.server.views import PlanEdge, PlanNode, PlanView, QueryView


class PlanPage:
    """A plan and a side panel, which is about the whole query or about the box that was picked."""

    def __init__(self, model: Model, graphs: Graphs, key: str) -> None:
        self._model, self._graphs, self._key = model, graphs, key
        self._picked = ""
        self._partition: int | None = None
        self._seen: object = None
        with element("div", "plan-page"):
            with element("div", "plan-main"):
                self._bar()
                self._picture = PlanPicture(self._pick)
            with element("aside", "plan-side").props('aria-label="About the plan"'):
                self._about = element("div", "stack")
                self._knob_area = element("div", "stack")
                self._side = element("div", "stack")
                self._pinned = element("div", "stack")
        self._plan: PlanView | None = None
        self._side_of: object = None
        self._knobs_of: object = None
        self.look()
        self._pins()
        ui.timer(1.0, self.look)

    def _bar(self) -> None:
        with element("div", "plan-bar"):
            names = {
                q.key: q.name if q.kind != "member" else f"{q.pipeline} · {q.name}"
                for q in self._model.queries()
            }
            go = lambda key: ui.navigate.to(frame.address("plan", key))  # noqa: E731
            frame.chooser(names, self._key, go, "Query")
            self._state = words("", "span", "state")
            frame.field("Find in the plan", "", lambda text: self._picture.search(text), "search", "input")
            partitions = max((s.partitions for s in self._model.plan(self._key).stages), default=1)
            if partitions > 1:
                options = {"": "all partitions", **{str(p): f"partition {p}" for p in range(partitions)}}
                frame.chooser(options, "", self._choose_partition, "Partitions")
            if len(self._model.plan(self._key).queries) > 1:
                button("Fold / unfold queries", self._fold, "small")
            element("div", "spacer")
            self._updated = words("", "span", "quiet")

    def _choose_partition(self, text: str) -> None:
        self._partition = int(text) if text else None
        self._seen = None
        self.look()

    def _fold(self) -> None:
        shown = self._picture.scene
        folded = shown is not None and any(b.kind == "query" for b in shown.boxes.values())
        self._picture.fold = not folded
        self._seen = None
        self.look()

    def look(self) -> None:
        """Show what is new."""
        if self._model.version == self._seen:
            return
        self._seen = self._model.version
        try:
            query = self._model.query(self._key)
            self._plan = self._model.plan(self._key, self._partition)
        except PenstockError as error:
            self._state.say(str(error))
            return
        self._state.say(query.state)
        self._state.classes(replace=f"state {query.state}")
        if self._plan.time:
            self._updated.say(f"measured at {time.strftime('%H:%M:%S', time.localtime(self._plan.time))}")
        self._picture.show(self._plan)
        self._glance()
        self._entity()

    def _pick(self, id: str) -> None:
        if id.startswith("query/"):
            self._picture.shown |= {id.partition("/")[2]}
            self._seen = None
            self.look()
            return
        self._picked = "" if id == self._picked else id
        self._picture.select(self._picked)
        self._side_of = None
        self._entity()

    # the whole query

    def _glance(self) -> None:
        """What holds the query back, and where its memory is."""
        self._about.clear()
        assert self._plan is not None
        with self._about:
            with section("What holds it back"):
                found = self._model.findings(self._key)
                for finding in found[:4]:
                    with element("div", f"finding {finding.kind}"):
                        element("span", "dot")
                        with element("div"):
                            words(finding.text)
                            if finding.advice:
                                words(finding.advice, "div", "quiet")
                if not found:
                    words(not_measured(self._model.query(self._key)), "div", "quiet")
                self._busy(self._plan)
            kept = self._model.memory(self._key)
            if kept:
                with section("Where the memory is"):
                    most = max(k.bytes for k in kept) or 1.0
                    frame.bars(
                        (
                            k.name + (f" (of {len(k.shared_by)} queries)" if len(k.shared_by) > 1 else ""),
                            k.bytes / most,
                            f"{count_of(k.rows)} rows · {size_of(k.bytes)}",
                        )
                        for k in kept[:SHOWN_BESIDE]
                    )

    def _busy(self, plan: PlanView) -> None:
        busy = [n for n in plan.nodes if n.busy and n.busy >= SHOWN_BUSY]
        busy.sort(key=lambda n: -(n.busy or 0.0))
        if busy:
            shares = (
                (f"{n.name} {n.id.rpartition('.')[2]}", n.busy or 0.0, f"busy {n.busy:.0%}")
                for n in busy[:SHOWN_BESIDE]
            )
            frame.bars(shares, BUSY)

    # the box that was picked

    def _entity(self) -> None:
        plan = self._plan
        node = next((n for n in plan.nodes if n.id == self._picked), None) if plan else None
        queue = next((e for e in plan.edges if _key(e) == self._picked), None) if plan else None
        if (node, queue, self._picked) == self._side_of:
            return
        self._side_of = (node, queue, self._picked)
        self._side.clear()
        with self._side:
            if node is not None:
                self._properties(node)
            if queue is not None:
                self._queue(queue)
        self._knobs(node, queue)

    def _queue(self, queue: PlanEdge) -> None:
        with section("Queue"), element("div", "facts"):
            facts = {
                "from": queue.source, "to": queue.target, "elements that wait": f"{queue.waiting:,.0f}",
                "elements so far": f"{queue.elements:,.0f}", "elements per second": count_of(queue.rate),
            }  # fmt: skip
            for name, value in facts.items():
                words(name, "div", "k")
                words(value, "div", "v")

    def _properties(self, node: PlanNode) -> None:
        with section(f"{node.name} · {node.id.partition('/')[2]}"):
            if node.label:
                words(node.label, "div", "mono quiet")
            if node.queries and len(node.queries) > 1:
                words(f"Shared by {', '.join(node.queries)}", "div")
            with element("div", "facts"):
                for name, value in _facts(node):
                    words(name, "div", "k")
                    words(value, "div", "v")
            if len(node.parts) > 1:
                with element("table", "sheet"):
                    with element("thead"), element("tr"):
                        for name in ("partition", "rows/s", "rows", "busy"):
                            words(name, "th", "num")
                    with element("tbody"):
                        for part in node.parts:
                            with element("tr"):
                                busy = "" if part.busy is None else f"{part.busy:.0%}"
                                for text in (
                                    str(part.partition),
                                    count_of(part.rate),
                                    count_of(part.rows),
                                    busy,
                                ):
                                    words(text, "td", "num")

    def _knobs(self, node: PlanNode | None, queue: PlanEdge | None = None) -> None:
        """Settings that take effect in the running query; a picked box shows those that are about it."""
        own = node.settings if node is not None else ("slice_rows", "scheduler") if queue is not None else ()
        place = node.id.partition("/")[2] if node is not None and own else "queues" if own else "the query"
        operator = place if node is not None and own and node.kind in ("operator", "window") else ""
        settings = self._model.settings(self._key, operator)
        if own:
            settings = [s for s in settings if s.name.partition("@")[0] in own]
        if settings == self._knobs_of:
            return  # somebody may be about to turn one
        self._knobs_of = settings
        self._knob_area.clear()
        if not settings:
            return
        with self._knob_area, section(f"Knobs of {place}"):
            for s in settings:
                with element("label", "knob"):
                    name = s.name.partition("@")[0]
                    words(name + (" (changes which results are lost)" if s.changes_results else ""), "span")
                    change = lambda value, name=s.name: self._set(name, value)  # noqa: E731
                    if s.refused:
                        words(s.refused, "span")
                    elif s.choices:
                        known = {c: c for c in s.choices}
                        frame.chooser({s.value: s.value, **known}, s.value, change, name)
                    else:
                        frame.field(name, s.value, change)
                    words(s.doc, "span")

    def _set(self, name: str, value: str) -> None:
        attempt(
            lambda: self._model.set(self._key, {name: value}), f"{name} = {value}, from the next batch on"
        )

    # graphs beside the plan

    def _pins(self) -> None:
        with self._pinned, section("Pinned graphs") as inner:
            for graph in self._graphs.all():
                if graph.pinned:
                    GraphCard(self._graphs, graph, small=True)
            if not any(g.pinned for g in self._graphs.all()):
                words("Pin a graph on the page Graphs to see it here.", "div", "quiet")
            inner.update()


def _key(edge: PlanEdge) -> str:
    return flow_key(edge.source, edge.target, edge.kind) if edge.kind == "queue" else ""


def _facts(node: PlanNode) -> Any:
    for order in node.orders:
        yield f"order of {order.of}", " → ".join(order.steps)
        if order.algorithm:
            yield f"  by {order.algorithm}", f"{order.changes} changes, {order.profiled:,} profiled"
    for p in node.properties:
        if p.property in ("name", "description", "from", "store"):
            continue
        name = p.property.replace("_", " ") + (f" ({p.text})" if p.text and p.unit else "")
        yield name, _value(p.value, p.unit, p.text)


def _value(value: float, unit: str, text: str) -> str:
    if unit == "bytes":
        return size_of(value)
    if unit == "share":
        return f"{value:.1%}"
    if not unit:
        return text
    number = f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"
    return f"{number} {unit}"


def not_measured(query: QueryView) -> str:
    """Why nothing is known of a query's engines."""
    if query.state == "failed":
        return "It failed before a batch ended; the page Queries says why."
    if query.state != "running":
        return f"It is {query.state}, and its engines have ended with it."
    if query.batch is None:
        return "No batch has ended yet: the first one is under way, or its inputs have no rows yet."
    return "Its engines have not been measured yet."
