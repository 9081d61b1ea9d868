"""How plans and queries show themselves in a notebook; whatever users have named is escaped."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable
from typing import Any

from penstock.measurement import Kind, Measurements, Property
from penstock.spark.settings import NOTEBOOK_EVERY_S, NOTEBOOK_S


class Explained(str):
    """The text of a plan, which a notebook draws as a picture."""

    _draw: Callable[[], str] | None = None

    @classmethod
    def drawn(cls, text: str, draw: Callable[[], str]) -> Explained:
        """A text with its picture, which is made when it is shown."""
        made = cls(text)
        made._draw = draw
        return made

    def _repr_svg_(self) -> str | None:
        return None if self._draw is None else self._draw()


def small_view(name: str, state: str, found: Measurements, error: str = "") -> str:
    """A running query in a few lines of HTML: state, rates, memory, orders of probes."""
    engines, inputs = found.of_kind(Kind.ENGINE), found.of_kind(Kind.INPUT)
    last = max((m.stage for m in found), default=1)
    out = sum(m.value for m in found.of_kind(Kind.ROOT).of(Property.THROUGHPUT) if m.stage == last)
    rows = [
        ("query", name),
        ("state", state),
        ("rows per second", f"{_first(inputs):,.0f} in, {out:,.0f} out"),
        ("kept", f"{engines.total(Property.ROWS):,.0f} rows, {engines.total(Property.BYTES) / 1e6:,.1f} MB"),
        ("partitions", str(len({m.partition for m in engines}))),
        *((f"order of {e}", ", ".join(own.texts(Property.ORDER))) for e, own in _orders(found)),
        *([("failed", error)] if error else []),
    ]
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(what)}</th><td style="text-align:left">'
        f"{html.escape(value)}</td></tr>"
        for what, value in rows
    )
    return f"<table>{cells}</table>"


def _first(inputs: Measurements) -> float:
    return sum(m.value for m in inputs.of(Property.THROUGHPUT) if m.stage == 1)


def _orders(found: Measurements) -> list[tuple[str, Measurements]]:
    first = Measurements(m for m in found.of_kind(Kind.ADAPTIVE) if m.partition == 0)
    return [(e, own) for e, own in first.by_entity().items() if own.has(Property.ORDER)]


def show_live(view: Callable[[], str], runs: Callable[[], bool]) -> None:
    """Show a view in a notebook and keep it up to date while the query runs, for some minutes at most."""
    from IPython.display import HTML, display

    handle: Any = display(HTML(view()), display_id=True)

    def update() -> None:
        waited = 0.0
        done = threading.Event()
        while runs() and waited < NOTEBOOK_S:
            done.wait(NOTEBOOK_EVERY_S)
            waited += NOTEBOOK_EVERY_S
            handle.update(HTML(view()))

    if handle is not None:
        threading.Thread(target=update, name="penstock-notebook", daemon=True).start()
