"""The page of all queries: what each does, how it goes, and what to do where one failed."""

from __future__ import annotations

from functools import partial

from nicegui import ui

from penstock.errors import PenstockError
from penstock.server.model import Model
from penstock.server.pages import frame
from penstock.server.pages.cql_editor import CqlEditor
from penstock.server.pages.frame import Words, address, attempt, button, element, words
from penstock.server.picture import count_of, size_of
from penstock.server.views import QueryView

_COLUMNS = (
    ("query", ""), ("state", ""), ("rows in", "num"), ("rows out", "num"), ("batch", "num"),
    ("state kept", "num"), ("lateness", "num"), ("", ""),
)  # fmt: skip
_HEADS = [name for name, style in _COLUMNS if style]
"""The columns of numbers, which a narrow window names in each row."""
_DONE = {"start": "started", "stop": "stopped", "drop": "dropped"}


class Queries:
    """The table of queries, drawn again where something has changed."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._shown: list[QueryView] = []
        self._rows: list[tuple[object, ...]] | None = None
        self._cells: dict[str, list[Words]] = {}
        self._words = ""
        with element("div", "row"):
            words("Queries", "h1", "name")
            element("div", "spacer")
            frame.field("Find a query", "", self._find, "search", "input")
            button("New query", self._ask, "main")
        self._table = element("div", "card scroll")
        self._new = element("div")
        self.look()
        ui.timer(1.0, self.look)

    def look(self) -> None:
        """Show what is new: numbers in their cells, or the whole table if queries or states differ."""
        found = [q for q in self._model.queries() if self._words in f"{q.name} {q.text} {q.state}".casefold()]
        rows: list[tuple[object, ...]] = [
            (q.key, q.kind, q.text, q.state, q.can, q.error, q.held_back, q.advice) for q in found
        ]
        if rows == self._rows:
            for q in found:
                for cell, text in zip(self._cells[q.key], _numbers(q), strict=True):
                    cell.say(text)
            return
        self._rows, self._shown = rows, found
        self._table.clear()
        with self._table:
            self._draw()

    def _find(self, text: str) -> None:
        self._words = text.casefold().strip()
        self.look()

    def _draw(self) -> None:
        if not self._shown:
            empty = (
                "No query is named so."
                if self._words
                else "No query runs. Start one with New query, or in Try it."
            )
            words(empty, "div", "empty")
            return
        with element("table", "sheet queries"):
            with element("thead"), element("tr"):
                for name, style in _COLUMNS:
                    words(name, "th", style)
            with element("tbody"):
                for query in self._shown:
                    self._row(query)

    def _row(self, q: QueryView) -> None:
        style = "member " if q.kind == "member" else ""
        notice = q.error or q.held_back
        with element("tr", style + ("joined" if notice else "")):
            with element("td"):
                words(q.name, "a").props["href"] = address("plan", q.key)
                text = "pipeline" if q.kind == "pipeline" else " ".join(q.text.split())
                words(text, "div", "text mono").props["title"] = q.text
            with element("td"):
                words(q.state, "span", f"state {q.state}")
            self._cells[q.key] = [
                words(text, "td", "num").props(f'data-label="{head}"')
                for text, head in zip(_numbers(q), _HEADS, strict=True)
            ]
            with element("td"), element("div", "line"):
                for action in ("start", "stop", "drop"):
                    if action in q.can:
                        named = button(action.capitalize(), partial(self._act, action, q), "small")
                        named.props["aria-label"] = f"{action.capitalize()} {q.name}"
        if notice:
            with element("tr", f"{style}more"), element("td") as cell:
                cell.props["colspan"] = len(_COLUMNS)
                with element("div", "alert" if q.error else "alert warm"):
                    words(notice)
                    if q.advice:
                        words(q.advice, "div", "quiet")

    def _act(self, action: str, q: QueryView) -> None:
        if attempt(lambda: getattr(self._model.backend, action)(q.key), f"{q.name} {_DONE[action]}"):
            self._model.sample()
            self.look()

    def _ask(self) -> None:
        """A form for a new query."""
        self._new.clear()
        with self._new, element("section", "card") as form:
            form.props["aria-label"] = "New query"
            words("New query", "h2", "name")
            name = ["query"]
            pipelines = {
                q.name: q.name for q in self._model.queries() if q.kind == "pipeline" and q.state == "running"
            }
            into = [""]
            with element("div", "row"):
                frame.field("Name", "query", lambda text: name.__setitem__(0, text))
                if pipelines:
                    options = {"": "by itself", **{p: f"in pipeline {p}" for p in pipelines}}
                    frame.chooser(options, "", lambda text: into.__setitem__(0, text), "Where it runs")
            editor = CqlEditor("SELECT ", "Text of the new query")
            editor.complete(self._model.inputs())

            def start() -> None:
                if self._register(editor, name[0].strip(), into[0] or None):
                    self._new.clear()

            with element("div", "row"):
                button("Start", start, "main")
                button("Cancel", self._new.clear)

    def _register(self, editor: CqlEditor, name: str, pipeline: str | None) -> bool:
        try:
            self._model.backend.register(name, editor.value, pipeline)
        except PenstockError as error:
            editor.show_error(error)
            return False
        self._model.sample()
        self.look()
        return True


def _numbers(q: QueryView) -> list[str]:
    """The cells of a query that change all the time."""
    kept = f"{count_of(q.state_rows)} rows · {size_of(q.state_bytes)}" if q.state_rows else ""
    late = "" if q.lateness is None else f"{q.lateness:.2f} s"
    return [
        _rate(q.rows_in),
        _rate(q.rows_out),
        "" if q.batch_seconds is None else f"{q.batch_seconds:.2f} s",
        kept,
        late + (f", {q.late_rows:,} late" if q.late_rows else ""),
    ]


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{count_of(rate)}/s"
