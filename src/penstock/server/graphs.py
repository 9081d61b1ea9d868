"""Graphs of running queries, each fed by a continuous query in CQL over SysStream.

The server runs these queries itself, each in an engine of this process, on the measurements that its model
looks at: they cost no Spark query, and the same text works in ``ps.sql``. The columns that are texts name a
series, the others are its values. What is measured while nobody looks is fed in larger portions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock import cql, sysstream
from penstock.catalog import Catalog
from penstock.engine.stage import SIGN, TS
from penstock.errors import CatalogError, PenstockError
from penstock.in_process import InProcessRun
from penstock.plan.compile import compile
from penstock.server.history import Series
from penstock.server.model import Model
from penstock.server.settings import (
    GRAPH_AWAKE_S,
    GRAPH_IDLE_S,
    GRAPH_MOST_PORTIONS,
    GRAPH_MOST_SERIES,
    GRAPH_MOST_TEXT,
    MOST_GRAPHS,
)
from penstock.server.watching import Watching

STANDARD: dict[str, tuple[str, str]] = {
    "Rows in per second": (
        "rows/s",
        "SELECT query, entity, SUM(value) AS rows FROM SysStream [NOW]\n"
        "WHERE kind = 'input' AND property = 'throughput' AND stage = 1\nGROUP BY query, entity",
    ),
    "Elements that wait in queues": (
        "elements",
        "SELECT query, SUM(value) AS elements FROM SysStream [NOW]\n"
        "WHERE kind = 'engine' AND property IN ('waiting', 'queue_peak')\nGROUP BY query",
    ),
    "Selectivity of joins and filters": (
        "ratio",
        "SELECT query, entity, AVG(value) AS selectivity FROM SysStream [RANGE 10 SECONDS]\n"
        "WHERE property = 'selectivity' AND (entity LIKE '%join%' OR entity LIKE 'select%')\n"
        "GROUP BY query, entity",
    ),
    "Memory": (
        "MB",
        "SELECT query, SUM(value) / 1000000 AS megabytes FROM SysStream [NOW]\n"
        "WHERE kind = 'engine' AND property = 'bytes'\nGROUP BY query",
    ),
    "Latency of results": (
        "seconds",
        "SELECT query, text, MAX(value) AS seconds FROM SysStream [NOW]\n"
        "WHERE kind = 'engine' AND property = 'latency'\nGROUP BY query, text",
    ),
    "Recall under a budget": (
        "share",
        "SELECT query, property, AVG(value) AS recall FROM SysStream [NOW]\n"
        "WHERE property IN ('measured_recall', 'expected_recall')\nGROUP BY query, property",
    ),
}
"""The graphs that there are at first: unit and text by title."""
PINNED = ("Rows in per second", "Memory")


@dataclass
class Graph:
    """A graph: its query, and the series that it has so far. ``error`` says why it stopped.

    ``looked`` and ``fed`` are when somebody looked at it and when it was fed; ``next``: the number of the
    first portion of rows that it was not fed yet.
    """

    title: str
    text: str
    unit: str = ""
    pinned: bool = False
    error: str = ""
    series: dict[str, Series] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._run, self._names, self._values, self._is_relation = _started(self.text)
        self._rows: dict[tuple[object, ...], int] = {}
        self.looked = self.fed = 0.0
        self.next = 0

    def feed(self, rows: pa.RecordBatch) -> None:
        """Take in rows of SysStream, in order of time, up to the end of the last instant."""
        if self.error or not rows.num_rows:
            return
        instants = pc.unique(rows.column(0)).to_pylist()
        try:
            found = [*self._run.step({sysstream.NAME: rows}), *self._run.end(instants[-1])]
        except PenstockError as error:
            self.error = " ".join(str(error).split())
            return
        self._take(found, instants)

    def _take(self, found: Iterable[pa.RecordBatch], instants: Sequence[int]) -> None:
        """The result at each instant: of a relation all rows that are in it, of a stream its new rows."""
        changes = [change for batch in found for change in self._changes(batch)]
        changes.sort(key=lambda change: change[0])
        at = 0
        for ts in instants:
            now = self._rows if self._is_relation else {}
            while at < len(changes) and changes[at][0] <= ts:
                _, sign, row = changes[at]
                now[row] = now.get(row, 0) + sign
                if not now[row]:
                    del now[row]
                at += 1
            for row in now:
                self._add(row, ts / 1e6)

    def _changes(self, batch: pa.RecordBatch) -> Iterable[tuple[int, int, tuple[object, ...]]]:
        signs = batch.column(SIGN).to_pylist() if SIGN in batch.schema.names else [1] * batch.num_rows
        columns = [batch.column(n).to_pylist() for n in (*self._names, *self._values)]
        for ts, sign, *values in zip(batch.column(TS).to_pylist(), signs, *columns, strict=True):
            yield ts, sign, tuple(values)

    def _add(self, row: tuple[object, ...], seconds: float) -> None:
        name = " · ".join(str(v) for v in row[: len(self._names)] if v not in (None, ""))
        for column, value in zip(self._values, row[len(self._names) :], strict=True):
            label = f"{name} · {column}".strip(" ·") if len(self._values) > 1 or not name else name
            if isinstance(value, int | float) and (
                label in self.series or len(self.series) < GRAPH_MOST_SERIES
            ):
                self.series.setdefault(label, Series()).add(seconds, float(value))


def _started(text: str) -> tuple[InProcessRun, list[str], list[str], bool]:
    """An engine for a query over SysStream, and the columns of its result that are names and values."""
    if len(text) > GRAPH_MOST_TEXT:
        raise CatalogError(f"the text has more than {GRAPH_MOST_TEXT:,} characters")
    catalog = Catalog()
    catalog.add(sysstream.definition())
    statements = cql.parse(text)
    if len(statements) != 1 or not isinstance(statements[0], cql.SelectStatement):
        raise CatalogError("write one query over SysStream: a SELECT, or ISTREAM of one")
    plan = compile(cql.bind(statements[0], catalog), 1)
    names = [f.name for f in plan.schema if pa.types.is_string(f.type)]
    values = [f.name for f in plan.schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    if not values:
        raise CatalogError("a graph needs a column with numbers: select one, such as AVG(value)")
    return InProcessRun(plan, {}), names, values, plan.kind == "relation"


def _portion(rows: pa.Table) -> pa.RecordBatch:
    """Rows of SysStream with their time in ticks first."""
    batch = rows.combine_chunks().to_batches()[0]
    return pa.RecordBatch.from_arrays(
        [batch.column("ts").cast(pa.int64()), *batch.columns], [TS, *batch.schema.names]
    )


class Graphs(Watching):
    """All graphs of a server, and what they are fed with."""

    watched = "graphs"

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self._graphs: dict[str, Graph] = {}
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._portions: deque[tuple[int, pa.RecordBatch]] = deque()
        self._count = 0
        self._last = 0
        for title, (unit, text) in STANDARD.items():
            self._graphs[title] = Graph(title, text, unit, title in PINNED)

    def sample(self, now: float | None = None) -> None:
        """Take in what was measured since the last look; feed graphs that are looked at, or wait long."""
        now = time.time() if now is None else now
        self._collect(now)
        for graph in self.all():
            awake = now - graph.looked <= GRAPH_AWAKE_S
            if awake or now - graph.fed > GRAPH_IDLE_S or len(self._portions) >= GRAPH_MOST_PORTIONS:
                self.feed(graph, now)
        least = min((g.next for g in self.all()), default=self._count)
        while self._portions and (self._portions[0][0] < least or len(self._portions) > GRAPH_MOST_PORTIONS):
            self._portions.popleft()

    def _collect(self, now: float) -> None:
        for query in self._model.queries():
            if query.kind == "member" or not query.run:
                continue
            found = self._model.measurements(query.key)
            latest = max((m.time for m in found), default=0)
            if latest and self._seen.get(query.run) != latest:
                self._seen[query.run] = latest
                self._last = max(int(now * 1e6), self._last + 1)
                self._portions.append((self._count, _portion(sysstream.rows(found, query.name, self._last))))
                self._count += 1

    def feed(self, graph: Graph, now: float) -> None:
        """Feed a graph what it was not fed yet."""
        with self._lock:
            waiting = [rows for number, rows in self._portions if number >= graph.next]
            graph.next, graph.fed = self._count, now
            if waiting:
                graph.feed(pa.Table.from_batches(waiting).combine_chunks().to_batches()[0])

    def look(self, graph: Graph) -> None:
        """Somebody looks at a graph now."""
        now = time.time()
        if now - graph.looked > GRAPH_AWAKE_S:
            self.feed(graph, now)
        graph.looked = now

    def all(self) -> list[Graph]:
        """The graphs in their order."""
        return list(self._graphs.values())

    def add(self, title: str, text: str, unit: str = "") -> Graph:
        """A new graph; mistakes in its text are a CQLError with its place."""
        if not title.strip():
            raise CatalogError("the graph needs a title")
        if len(self._graphs) >= MOST_GRAPHS and title not in self._graphs:
            raise CatalogError(f"there are {MOST_GRAPHS} graphs, the most that are kept; remove one first")
        made = Graph(title.strip(), text, unit)
        made.next = self._count
        with self._lock:
            before = self._graphs.get(made.title)
            made.pinned = before.pinned if before else False
            self._graphs[made.title] = made
        return made

    def remove(self, title: str) -> None:
        """Remove a graph."""
        with self._lock:
            self._graphs.pop(title, None)
