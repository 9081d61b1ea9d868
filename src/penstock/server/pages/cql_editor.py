"""The editor for CQL, on NiceGUI's CodeMirror."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import nicegui
from nicegui import ui

from penstock import functions
from penstock.errors import CQLError, PenstockError
from penstock.server.views import InputView

_CODEMIRROR = Path(nicegui.__file__).parent / "elements" / "codemirror" / "dist"
WINDOWS = (
    "[ROWS 100]",
    "[RANGE 10 SECONDS]",
    "[RANGE 10 MINUTES]",
    "[NOW]",
    "[ROWS UNBOUNDED]",
    "[PARTITION BY k ROWS 1]",
    "[SESSION 30 SECONDS PARTITION BY k]",
    "[RANGE 1 MINUTE SLIDE 10 SECONDS]",
)
KEYWORDS = (
    "SELECT", "ISTREAM", "ISTREAM ALL", "DSTREAM", "RSTREAM", "DISTINCT", "FROM", "WHERE", "GROUP BY",
    "HAVING", "UNION ALL", "EXCEPT", "INTERSECT", "LEFT JOIN", "JOIN", "ON", "WITHIN MEMORY",
)  # fmt: skip


class CqlEditor(ui.element, component="cql_editor.js", esm={"nicegui-codemirror": str(_CODEMIRROR)}):
    """A text with highlighting, completion and errors; ``on_text`` is called when it has changed."""

    def __init__(
        self,
        value: str = "",
        label: str = "CQL",
        on_text: Callable[[str], None] = lambda text: None,
        on_run: Callable[[], Any] = lambda: None,
    ) -> None:
        super().__init__()
        self.value = value
        self._props["value"], self._props["label"] = value, label
        self._props["items"] = []
        self._on_text = on_text

        def take(event: Any) -> None:
            self.value = str(event.args)
            self._on_text(self.value)

        def run(event: Any) -> None:
            self.value = str(event.args)
            on_run()

        self.on("text", take)
        self.on("run", run)

    def set(self, text: str) -> None:
        """Replace the text."""
        self.value = text
        self.run_method("set", text)

    def complete(self, inputs: Iterable[InputView]) -> None:
        """Offer these streams with their columns, and what CQL has."""
        self._props["items"] = list(completions(inputs))
        self.update()

    def show_error(self, error: PenstockError | None) -> None:
        """Show an error under its place, or that there is none."""
        self.run_method("error", None if error is None else placed(error))


def placed(error: PenstockError) -> dict[str, Any]:
    """An error with the place it is at, if it has one."""
    if isinstance(error, CQLError):
        return {"line": error.line, "column": error.column, "message": error.message}
    return {"message": " ".join(str(error).split())}


def completions(inputs: Iterable[InputView]) -> Iterable[dict[str, Any]]:
    """What can be completed: keywords, windows, functions, inputs and their columns."""
    yield from ({"label": word, "type": "keyword"} for word in KEYWORDS)
    yield from ({"label": window, "type": "type", "detail": "window"} for window in WINDOWS)
    for name in sorted(functions.names()):
        yield {"label": name, "type": "function"}
    for i in inputs:
        yield {"label": i.name, "type": "class", "detail": i.kind}
        for c in i.columns:
            yield {"label": c.name, "type": "property", "detail": c.type, "of": i.name, "plain": True}
