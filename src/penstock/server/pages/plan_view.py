"""A plan's picture in a page, which changes while the plan runs."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui

from penstock.server.picture import Picture, picture
from penstock.server.picture.scene import Scene
from penstock.server.picture.values import Values, values_of
from penstock.server.views import PlanView


class PlanPicture(ui.element, component="plan_view.js"):
    """Shows a plan; only what differs is sent again. ``on_pick`` gets the id of a box that was clicked."""

    def __init__(self, on_pick: Callable[[str], None] = lambda id: None) -> None:
        super().__init__()
        self._drawn: Picture | None = None
        self._values: Values = {}
        self._structure: object = None
        self.fold: bool | None = None
        self.shown: frozenset[str] = frozenset()
        self.on("pick", lambda event: on_pick(str(event.args)))

    def show(self, plan: PlanView) -> None:
        """Show a plan, or its new numbers."""
        structure = _structure(plan), self.fold, self.shown
        if self._drawn is None or structure != self._structure:
            same = self._structure is not None and structure[0] == self._structure[0]  # type: ignore[index]
            self._structure, self._drawn = structure, picture(plan, self.fold, self.shown)
            self._values = self._drawn.values
            self.run_method("show", self._drawn.svg, same)
            return
        values = values_of(plan, self._drawn.scene)
        changed = {k: v for k, v in values.items() if self._values.get(k) != v}
        self._values = values
        if changed:
            self.run_method("update", changed)

    @property
    def scene(self) -> Scene | None:
        """What is shown."""
        return None if self._drawn is None else self._drawn.scene

    def select(self, id: str) -> None:
        """Mark a box."""
        self.run_method("select", id)

    def search(self, words: str) -> None:
        """Mark the boxes that contain words, and move to the first."""
        self.run_method("search", words)


def _structure(plan: PlanView) -> object:
    """What a picture must be drawn anew for if it differs."""
    nodes = tuple(
        (n.id, n.label, n.kind, n.queries, tuple(o.of for o in n.orders), bool(n.budget)) for n in plan.nodes
    )
    edges = tuple((e.source, e.target, e.kind, e.label) for e in plan.edges)
    return nodes, edges, tuple((s.number, s.partitions) for s in plan.stages), plan.running
