"""``penstock shell``: statements and queries from a terminal or a pipe, over the server's HTTP API.

It connects to a running server, or starts a session with a server of its own; either way it is a client.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock import cql
from penstock.cli.output import Terminal
from penstock.cli.session import local_session
from penstock.cli.settings import SHELL_ROWS, WATCH_S
from penstock.cli.shell_client import Client
from penstock.errors import PenstockError
from penstock.server.views import QueryView

HELP = r"""
SELECT ...;      runs a query and shows its results; Ctrl-C ends it (in a pipe: the input that is there)
other statements end with ; too: CREATE, DROP, SET, SHOW, DESCRIBE, REGISTER, ALTER QUERY q SET ..., EXPLAIN
\d               streams, tables, views and functions; \d NAME its columns
\queries         the queries, with their rates and state
\plan QUERY      the plan of a query: of a running one by name, or of a text
\watch QUERY     the results of a running query as they come; \watch alone: the queries, again and again
\stop QUERY, \start QUERY, \drop QUERY
\? this help, \q ends
""".strip()


def run_shell(connect: str | None) -> None:
    """Read statements until the end."""
    if connect is not None:
        Shell(Client(connect, os.environ.get("PENSTOCK_TOKEN"))).run()
        return
    with local_session() as session:
        server = session.serve(port=0, allow_ddl=True)
        try:
            Shell(Client(server.url, server.access.token)).run()
        finally:
            server.stop()


@dataclass(frozen=True)
class Listing:
    """Rows to show, under the names of their columns."""

    columns: Sequence[str]
    rows: Collection[Sequence[str]]


class Shell:
    """A loop over statements; ``console`` shows what they return."""

    def __init__(self, client: Client, console: Console | None = None) -> None:
        self.client = client
        self.console = console or Terminal()
        self._numbers = itertools.count(1)

    def run(self) -> None:
        """Read from a terminal until the user ends it, or from a pipe until it ends or a statement fails."""
        if sys.stdin.isatty():
            self._interact()
        else:
            for part in parts(sys.stdin.read()):
                self.execute(part, live=False)

    def _interact(self) -> None:
        from penstock.cli.shell_prompt import prompt

        read = prompt(self.client)
        self.console.print(f"Penstock at {self.client.url}. \\? for help.", highlight=False)
        while True:
            try:
                text = read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text.strip() in (r"\q", "exit", "quit"):
                return
            for part in parts(text):
                try:
                    self.execute(part, live=True)
                except PenstockError as error:
                    self.console.print(Text(str(error), style="red"))
                except KeyboardInterrupt:
                    self.console.print()

    def execute(self, text: str, live: bool) -> None:
        """Run one statement or command."""
        if text.startswith("\\"):
            word, _, rest = text[1:].partition(" ")
            command = self._commands().get(word)
            if command is None:
                raise PenstockError(f"there is no command \\{word}; \\? lists them")
            command(rest.strip())
            return
        (statement,) = cql.parse(text)
        if isinstance(statement, cql.SelectStatement):
            self._select(text, live)
        elif isinstance(statement, cql.Explain):
            self._say(self.client.post("/api/explain", text=statement.query.text)["plan"])
        else:
            self._say(self.client.post("/api/statements", text=text)["done"])

    def _commands(self) -> dict[str, Callable[[str], None]]:
        return {
            "?": lambda _: self._say(HELP),
            "d": self._describe,
            "queries": lambda _: self._show(self._queries()),
            "plan": self._plan,
            "watch": self._watch,
            "stop": lambda key: self._say(self.client.post(f"/api/queries/{quote(key)}/stop")["done"]),
            "start": lambda key: self._say(self.client.post(f"/api/queries/{quote(key)}/start")["done"]),
            "drop": lambda key: self._say(self.client.delete(f"/api/queries/{quote(key)}")["done"]),
        }

    def _say(self, text: str) -> None:
        self.console.print(Text(text))

    # queries

    def _select(self, text: str, live: bool) -> None:
        name = f"shell-{os.getpid()}-{next(self._numbers)}"
        self.client.post("/api/queries", name=name, text=text, once=not live)
        try:
            self._results(name, live)
        finally:
            self.client.delete(f"/api/queries/{name}")

    def _results(self, key: str, live: bool) -> None:
        columns: list[str] = []
        rows: deque[list[str]] = deque(maxlen=SHELL_ROWS if live else None)
        total = 0
        if not live:
            for event, data in self.client.results(key):
                columns = [c["name"] for c in data] if event == "columns" else columns
                rows.extend(_shown(r) for r in data or () if event == "rows")
            self._check(key)
            self._show(Listing(columns, rows), f"{len(rows):,} rows")
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as view:
            try:
                for event, data in self.client.results(key):
                    if event == "columns":
                        columns = [c["name"] for c in data]
                    elif event == "rows":
                        total += len(data)
                        rows.extend(_shown(r) for r in data)
                        view.update(_table(Listing(columns, rows), f"{total:,} rows; Ctrl-C ends"))
            except KeyboardInterrupt:
                pass
        self.console.print(_table(Listing(columns, rows), f"{total:,} rows"))
        self._check(key)

    def _check(self, key: str) -> None:
        """Raise if a query failed."""
        query = self.client.get(f"/api/queries/{quote(key)}")
        if query["error"]:
            raise PenstockError(query["error"])

    def _show(self, listing: Listing, title: str | None = None) -> None:
        """Tab-separated, for other programs; a terminal gets a table."""
        if self.console.is_terminal:
            self.console.print(_table(listing, title))
            return
        for row in (listing.columns, *listing.rows):
            self.console.file.write("\t".join(row) + "\n")

    def _queries(self) -> Listing:
        columns = ["query", "state", "in/s", "out/s", "batch s", "size", "late", "error"]
        rows = []
        for q in (QueryView(**view) for view in self.client.get("/api/queries")):
            rates = _number(q.rows_in), _number(q.rows_out), f"{q.batch_seconds or 0:.2f}"
            kept = f"{q.state_bytes / 1e6:.1f} MB", f"{q.late_rows:,}"
            rows.append([q.name, q.state, *rates, *kept, _in_a_line(q.error)])
        return Listing(columns, rows)

    # commands

    def _describe(self, name: str) -> None:
        inputs = self.client.get("/api/inputs")
        if not name:
            rows = [[i["name"], i["kind"], ", ".join(c["name"] for c in i["columns"])] for i in inputs]
            self._show(Listing(["name", "kind", "columns"], rows))
            return
        known = [i for i in inputs if i["name"].casefold() == name.rstrip(";").casefold()]
        if not known:
            names = ", ".join(i["name"] for i in inputs)
            raise PenstockError(f"there is no stream or table {name!r}; registered: {names}")
        columns = [[c["name"], c["type"], c["note"]] for c in known[0]["columns"]]
        self._show(Listing(["column", "type", "note"], columns))

    def _plan(self, text: str) -> None:
        text = text.rstrip(";")
        keys = [q["key"] for q in self.client.get("/api/queries")]
        if text not in keys:
            self._say(self.client.post("/api/explain", text=text)["plan"])
            return
        plan = self.client.get(f"/api/queries/{quote(text)}/plan")
        rows = []
        for n in plan["nodes"]:
            orders = "; ".join(f"{o['of']}: {', '.join(o['steps'])}" for o in n["orders"])
            busy = "" if n["busy"] is None else f"{n['busy']:.0%}"
            amounts = _number(n["rate"]), busy, _number(n["rows"]), f"{n['bytes'] / 1e6:.1f}"
            rows.append([f"{n['stage']} {n['name']}", _in_a_line(n["label"]), *amounts, orders])
        self._show(Listing(["node", "", "rows/s", "busy", "rows", "MB", "order"], rows))
        for f in self.client.get(f"/api/queries/{quote(text)}/findings"):
            self._say(f["text"])

    def _watch(self, key: str) -> None:
        if key:
            self._results(key.rstrip(";"), live=self.console.is_terminal)
            return
        if not self.console.is_terminal:
            self._show(self._queries())
            return
        with Live(console=self.console, auto_refresh=False) as view:
            while True:
                view.update(_table(self._queries()), refresh=True)
                time.sleep(WATCH_S)


def parts(text: str) -> Iterator[str]:
    r"""The commands and statements of a text: a line that begins with \ is a command.

    >>> list(parts("\\d\nSELECT 1\nFROM S; DROP VIEW v"))
    ['\\d', 'SELECT 1\nFROM S', 'DROP VIEW v']
    """
    waiting: list[str] = []
    for line in [*text.splitlines(), "\\"]:
        if not line.startswith("\\"):
            waiting.append(line)
            continue
        yield from (s.strip() for s in cql.split("\n".join(waiting)) if s.strip())
        waiting = []
        if len(line) > 1:
            yield line.strip()


def _shown(row: dict[str, Any]) -> list[str]:
    return ["NULL" if v is None else _in_a_line(str(v)) for v in row.values()]


def _in_a_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


def _table(listing: Listing, title: str | None = None) -> Table:
    found = Table(title=title, title_justify="left")
    for name in listing.columns:
        found.add_column(Text(name))
    for row in listing.rows:
        found.add_row(*map(Text, row))
    return found


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
