"""The static tables of a query: what the query holds of them, what they have now, and the command between.

A query holds the rows that it read at its first start, in ``tables.json`` of the checkpoint, changed by its
``tables`` commands. At every further start, at REFRESH TABLE, and after every period of REFRESH EVERY, the
table is read, and if its rows differ from those the query holds, the difference is sent as a command. So an
engine that is rebuilt, and a batch that Spark repeats, meet the same rows again.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Iterable, Mapping
from copy import copy

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.engine.command import TABLES
from penstock.engine.stage import StageInput
from penstock.engine.tables import (
    Tables,
    after,
    as_batch,
    changes_of,
    difference,
    from_bytes,
    payload,
    to_bytes,
)
from penstock.errors import DataError, PenstockError
from penstock.plan.physical import TableInput
from penstock.spark.driver import exchange
from penstock.spark.driver.checkpoint import FILE as QUERY
from penstock.spark.driver.checkpoint import Directory, damaged, parsed
from penstock.spark.driver.commands import CommandStream, stored
from penstock.spark.driver.failures import why

_log = logging.getLogger("penstock")
FILE = "tables.json"
"""The file of a checkpoint with the rows that the query began with."""


def read(source: TableInput) -> pa.Table:
    """A table's pushed columns and rows, as they are now."""
    df = source.table.source.df
    df._jdf.queryExecution().analyzed().refresh()  # lists files anew
    try:
        rows = exchange.project(source.columns, source.filter, source.alias, df).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise DataError(f"table {source.table.name!r} cannot be read: {why(error)}") from None
    # The first column only keeps the number of rows if no other column is needed.
    shown = zip(source.columns, rows.columns[1:], strict=True)
    named = {name: column.cast(e.type) for (name, e), column in shown}
    return pa.table({"": rows.column(0), **named}).drop_columns([""])


class QueryTables:
    """The tables of one query's DataFrame, and of the query that is started from it.

    ``stage`` are the inputs of its stage, ``first`` the rows that its program has; each start but the first
    reads the tables again.
    """

    def __init__(
        self, inputs: Iterable[object], stage: Iterable[StageInput], first: Mapping[str, pa.Table]
    ) -> None:
        self._inputs = {i.name: i for i in inputs if isinstance(i, TableInput)}
        schemas = {i.name: i.schema for i in stage}
        self._schemas = {name: schemas[name] for name in self._inputs}
        self._first: Tables = {n: as_batch(first[n], schema) for n, schema in self._schemas.items()}
        self._held: Tables = self._first
        self._just_read = True
        self._commands: CommandStream | None = None
        self._lock = threading.RLock()

    def for_another_query(self) -> QueryTables:
        """The same tables for one more query of the DataFrame."""
        another = copy(self)
        another._just_read, another._commands, another._lock = False, None, threading.RLock()
        return another

    def open(self, commands: CommandStream, directory: Directory | None, new: bool) -> None:
        """Before a start: find what the query holds, and send what differs now."""
        if not self._inputs:
            return
        self._commands, self._held = commands, self._first
        if directory is not None and new:
            directory.write(FILE, _encode(self._first))
        elif directory is not None:
            begun = parsed(directory, FILE, _decode)
            if begun is not None and begun.keys() == self._first.keys():
                self._held = after(begun, changes_of(stored(directory)))
            elif begun is not None or directory.read(QUERY) is not None:
                raise damaged(f"{FILE} does not have the rows of the tables that the query reads")
        now = self._first if self._just_read else self._read(self._inputs)
        self._just_read = False
        self._send(now)

    def started(self) -> None:
        """After a start: refresh tables that say so, as long as the query runs."""
        _running[:] = [t for t in _running if t.runs and t is not self]
        if not self._inputs:
            return
        _running.append(self)
        for every in {i.table.refresh_every for i in self._inputs.values()} - {None}:
            threading.Thread(target=self._refresh_every, args=(every,), daemon=True).start()

    @property
    def runs(self) -> bool:
        return self._commands is not None and self._commands.runs

    def refresh(self, table: str) -> bool:
        """Read a table again; whether its rows differ from those that the query held."""
        mine = {n: i for n, i in self._inputs.items() if i.table.name == table}
        with self._lock:  # what was read first is sent first
            return self._send(self._read(mine)) if mine else False

    def _read(self, inputs: Mapping[str, TableInput]) -> Tables:
        return {name: as_batch(read(i), self._schemas[name]) for name, i in inputs.items()}

    def _send(self, now: Tables) -> bool:
        with self._lock:
            found = {name: difference(self._held[name], rows) for name, rows in now.items()}
            changes = {name: change for name, change in found.items() if change.num_rows}
            if changes:
                assert self._commands is not None
                self._commands.append(TABLES, payload(changes))
                self._held = {**self._held, **{name: now[name] for name in changes}}
        return bool(changes)

    def _refresh_every(self, seconds: float) -> None:
        names = {i.table.name for i in self._inputs.values() if i.table.refresh_every == seconds}
        run_id = self._commands.run_id if self._commands else ""
        while not _stopped.wait(seconds) and self.runs and self._commands and self._commands.run_id == run_id:
            for name in names:
                try:
                    self.refresh(name)
                except PenstockError as error:
                    _log.warning("%s; it stays as it was", error)
                except Exception as error:  # noqa: BLE001
                    # Files that are replaced while they are read fail in many ways; the next read may not.
                    if self.runs:
                        _log.warning("table %r cannot be read: %s; it stays as it was", name, why(error))


_running: list[QueryTables] = []
"""The tables of the running queries of this process."""
_stopped = threading.Event()


def refresh(table: str) -> int:
    """Read a table again for the running queries over it; how many of them it changed for."""
    return sum(tables.refresh(table) for tables in _running if tables.runs)


def _encode(tables: Tables) -> str:
    return json.dumps({"format": 1, "rows": base64.b64encode(to_bytes(tables)).decode()})


def _decode(text: str) -> Tables:
    return from_bytes(base64.b64decode(json.loads(text)["rows"]))
