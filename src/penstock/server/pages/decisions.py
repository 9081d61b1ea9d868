"""The time line of decisions: when a plan changed, from what to what, by which numbers, with what gain."""

from __future__ import annotations

import time

from nicegui import ui

from penstock.server.model import Model
from penstock.server.pages import frame
from penstock.server.pages.frame import address, element, words
from penstock.server.settings import SHOWN_DECISIONS
from penstock.server.views import DecisionView


class DecisionsPage:
    """The newest decisions first, of one query or of all."""

    def __init__(self, model: Model, key: str) -> None:
        self._model, self._key = model, key
        self._shown: list[DecisionView] | None = None
        with element("div", "row"):
            words("Decisions", "h1", "name")
            words("plan switches, index changes, caches, budgets and knobs", "span", "quiet")
            element("div", "spacer")
            names = {"": "all queries", **{q.key: q.name for q in model.queries() if q.kind != "member"}}
            frame.chooser(names, key, lambda k: ui.navigate.to(address("decisions", k)), "Query")
        self._list = element("div", "card")
        self.look()
        ui.timer(1.0, self.look)

    def look(self) -> None:
        """Show what is new."""
        found = self._model.decisions(self._key)[-SHOWN_DECISIONS:]
        if found == self._shown:
            return
        self._shown = found
        self._list.clear()
        with self._list:
            if not found:
                words(
                    "No plan has changed yet: the first order that was chosen is still the best.",
                    "div",
                    "empty",
                )
            with element("ol", "timeline").style("list-style: none; margin: 0; padding: 0"):
                for made in reversed(found):
                    Made(made)


class Made:
    """A decision on the time line; a small one leaves out what is the same in all of them."""

    def __init__(self, d: DecisionView, small: bool = False) -> None:
        with element("li", f"made {'setting' if d.kind == 'setting' else ''}"):
            words(time.strftime("%H:%M:%S", time.localtime(d.time)), "div", "when")
            element("div", "point")
            with element("div", "stack").style("gap: 4px"):
                with element("div", "row"):
                    words(_title(d), "strong")
                    if not small:
                        words(d.query, "span", "tag")
                    if d.partition >= 0:
                        words(f"partition {d.partition}", "span", "tag")
                    if d.from_log:
                        words("found in the plan log", "span", "tag")
                with element("div", "swap"):
                    if d.before:
                        words(d.before, "span", "plan old")
                        words("→", "span", "quiet").props["aria-label"] = "to"
                    words(d.after, "span", "plan")
                if reason := _reason(d):
                    words(reason, "div", "quiet")


def _title(d: DecisionView) -> str:
    if d.kind == "setting":
        return f"Knob {d.entity}"
    of = d.entity.partition("/")[2].removesuffix("/order").removesuffix("/filters")
    name = {"order": "Order of probes of", "access method": "Index of"}.get(
        d.kind, f"{d.kind.capitalize()} of"
    )
    return f"{name} {of}"


def _reason(d: DecisionView) -> str:
    parts = []
    if d.statistics:
        shares = d.kind == "order"
        numbers = [f"{n} {v:.0%}" if shares else f"{n} {v:.3g}" for n, v in d.statistics.items()]
        parts.append(("dropped by " if shares else "costs: ") + ", ".join(numbers))
    if 0 < d.gain < 1:  # of the first order that is chosen the gain is not known
        parts.append(f"expected to save {d.gain:.0%}")
    if d.at_tuple:
        parts.append(f"after {d.at_tuple:,} tuples")
    return "; ".join(parts)
