"""The page to try queries: an editor, a few rows, and what the query does with them over time."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from nicegui import run, ui

from penstock import cql
from penstock.errors import CQLError, DataError, PenstockError
from penstock.schema import sql_name
from penstock.server.examples import Example, Inputs, examples, read_inputs, read_value
from penstock.server.model import Model
from penstock.server.pages.cql_editor import CqlEditor
from penstock.server.pages.frame import button, element, field, words
from penstock.server.picture.lanes import lanes
from penstock.server.playground import Played, play, shown
from penstock.server.views import ColumnView, InputView

FIRST = Example(
    "Start here",
    "SELECT ISTREAM(C.pid, B.ts AS crossed)\nFROM   C [RANGE 3], B [RANGE 3]\nWHERE  C.pid = B.pid",
    read_inputs(
        "C (pid INT, size INT): (7, 100)@1 (8, 40)@2 (9, 1500)@4 (7, 64)@7\n"
        "B (pid INT, ts INT): (7, 2)@2 (8, 6)@6 (9, 6)@6\nuntil: 9"
    ),
)


class SvgView(ui.element, component="svg_view.js"):
    """An SVG that this program has made."""

    def show(self, svg: str) -> None:
        """Show another one."""
        self._props["svg"] = svg
        self.update()


class TryPage:
    """The editor with examples at its left, inputs and results below."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = FIRST.inputs
        self._buttons: dict[int, ui.element] = {}
        with element("div", "row"):
            words("Try it", "h1", "name")
            words("a query over a few rows, evaluated as you write", "span", "quiet")
        with element("div", "try-page"):
            with element("nav", "examples").props('aria-label="Examples of the reference"'):
                self._list()
            with element("div", "stack"):
                with element("div", "card"):
                    self._editor = CqlEditor(FIRST.text, "Query to try", self._changed, self.run)
                    with element("div", "row"):
                        button("Run", self.run, "main").props('title="Ctrl-Enter"')
                        self._note = words("", "span", "quiet")
                with element("div", "card"):
                    words("Input rows", "h2", "name")
                    self._tables = element("div", "inputs")
                with element("div", "card"):
                    words("Rows, windows and result over time", "h2", "name")
                    self._lanes = SvgView()
                with element("div", "card"):
                    words("Changes of the result", "h2", "name")
                    self._result = element("div", "scroll")
        self._choose(FIRST, -1)

    # examples

    def _list(self) -> None:
        self._buttons[-1] = self._example(FIRST, -1, "Packets on two links")
        number = 0
        for heading, own in groupby(examples(), key=lambda e: e.heading):
            words(heading, "h2", "name").style("padding: 12px 9px 2px")
            for example in own:
                self._buttons[number] = self._example(example, number, example.title)
                number += 1

    def _example(self, example: Example, number: int, title: str) -> ui.element:
        made = button(title if len(title) < 60 else f"{title[:58]}…", lambda: self._choose(example, number))
        made.classes(remove="btn").props["title"] = example.text
        return made

    def _choose(self, example: Example, number: int) -> None:
        for n, made in self._buttons.items():
            made.classes(add="here" if n == number else None, remove="here" if n != number else None)
        self._inputs = example.inputs
        self._editor.set(example.text)
        self._show_inputs()
        self.run()

    # inputs

    def _show_inputs(self) -> None:
        self._tables.clear()
        with self._tables:
            for name, rows in self._inputs.rows.items():
                self._table(name, rows)
            with element("label", "knob"):
                words("time runs on until", "span")
                until = "" if self._inputs.until is None else str(self._inputs.until)
                field("last row", until, self._set_until, "number")
        self._editor.complete(_views(self._inputs))

    def _table(self, name: str, rows: list[Any]) -> None:
        schema = cql.schema_of(self._inputs.schemas[name])
        is_table = bool(rows) and isinstance(rows[0], dict)
        is_relation = bool(rows) and not is_table and len(rows[0]) == 3
        beside = [] if is_table else ["ts", "op"] if is_relation else ["ts"]
        with element("div", "stack"):
            with element("div", "row"):
                words(name, "strong", "mono")
                words("table" if is_table else "relation" if is_relation else "stream", "span", "tag")
            with element("table", "sheet"):
                with element("thead"), element("tr"):
                    for column in (*beside, *(f"{f.name} {sql_name(f.type)}" for f in schema)):
                        words(column, "th")
                with element("tbody"):
                    for number, row in enumerate(rows):
                        with element("tr"):
                            before = [] if is_table else list(row)[:-1]
                            values = row if is_table else row[-1]
                            cells = [*map(str, before), *(shown([values.get(f.name)]) for f in schema)]
                            for at, text in enumerate(cells):
                                self._cell(name, number, at, text)
            with element("div", "row"):
                button("Add row", lambda: self._add(name), "small")
                if rows:
                    button("Remove last", lambda: self._remove(name), "small")

    def _cell(self, name: str, row: int, at: int, text: str) -> None:
        with element("td").style("padding: 2px"):
            made = field(f"{name} row {row + 1} value {at + 1}", text, lambda t: self._set(name, row, at, t))
            made.style("width: 100%; min-width: 44px; padding: 2px 7px; min-height: 28px").classes("mono")
            made._props["placeholder"] = ""

    def _texts(self, name: str) -> list[list[str]]:
        schema = cql.schema_of(self._inputs.schemas[name])
        found = []
        for row in self._inputs.rows[name]:
            before, values = ([], row) if isinstance(row, dict) else (list(row)[:-1], row[-1])
            found.append([*map(str, before), *(shown([values.get(f.name)]) for f in schema)])
        return found

    def _set(self, name: str, row: int, at: int, text: str) -> None:
        texts = self._texts(name)
        texts[row][at] = text.strip()
        self._replace(name, texts)

    def _add(self, name: str) -> None:
        texts = self._texts(name)
        schema = cql.schema_of(self._inputs.schemas[name])
        last = list(texts[-1]) if texts else ["1", *("NULL" for _ in schema)]
        self._replace(name, [*texts, last])
        self._show_inputs()

    def _remove(self, name: str) -> None:
        self._replace(name, self._texts(name)[:-1])
        self._show_inputs()

    def _replace(self, name: str, texts: list[list[str]]) -> None:
        """Read an input again from the texts of its cells."""
        schema = cql.schema_of(self._inputs.schemas[name])
        try:
            rows: list[Any] = []
            for cells in texts:
                values = cells[-len(schema) :]
                row = {f.name: read_value(t, f.type) for f, t in zip(schema, values, strict=True)}
                before = cells[: -len(schema)]
                if before and not before[0].lstrip("-").isdigit():
                    raise DataError(f"{before[0]!r} is not a timestamp; write a whole number")
                rows.append((int(before[0]), *before[1:], row) if before else row)
        except PenstockError as error:
            self._say(error)
            return
        self._inputs = Inputs({**self._inputs.rows, name: rows}, self._inputs.schemas, self._inputs.until)
        self.run()

    def _set_until(self, text: str) -> None:
        until = int(text) if text.strip().lstrip("-").isdigit() else None
        self._inputs = Inputs(self._inputs.rows, self._inputs.schemas, until)
        self.run()

    # results

    def _changed(self, text: str) -> None:
        self.run()

    def run(self) -> None:
        """Evaluate the text; a mistake is shown under its place."""
        ui.timer(0, self._run, once=True)

    async def _run(self) -> None:
        text, inputs = self._editor.value, self._inputs
        try:
            played = await run.io_bound(play, text, inputs)
        except PenstockError as error:
            if text == self._editor.value:
                self._say(error)
            return
        if played is None or text != self._editor.value:
            return
        self._editor.show_error(None)
        self._note.say(_summary(played))
        self._lanes.show(lanes(played))
        self._show_result(played)

    def _say(self, error: PenstockError) -> None:
        self._editor.show_error(error if isinstance(error, CQLError) else None)
        self._note.say("" if isinstance(error, CQLError) else " ".join(str(error).split()))

    def _show_result(self, played: Played) -> None:
        self._result.clear()
        with self._result, element("table", "sheet"):
            with element("thead"), element("tr"):
                words("instant", "th", "num")
                if not played.is_stream:
                    words("", "th")
                for name in played.columns:
                    words(name, "th", "mono")
            with element("tbody"):
                for ts, sign, row in played.changes:
                    with element("tr"):
                        words(str(ts), "td", "num")
                        if not played.is_stream:
                            words("enters" if sign == "+" else "leaves", "td", "quiet")
                        for value in row:
                            words(shown([value]), "td", "mono")


def _summary(played: Played) -> str:
    many = len(played.changes)
    what = "row" if played.is_stream else "change"
    more = f"; {played.left_out:,} more are not shown" if played.left_out else ""
    kind = "stream" if played.is_stream else "relation"
    return f"{kind}, {many} {what}{'s' * (many != 1)} until {played.last}{more}"


def _views(inputs: Inputs) -> list[InputView]:
    found = []
    for name, schema in inputs.schemas.items():
        columns = tuple(ColumnView(f.name, sql_name(f.type)) for f in cql.schema_of(schema))
        found.append(InputView(name, "input", columns))
    return found
