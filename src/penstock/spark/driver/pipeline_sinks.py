"""Which query of a pipeline writes to which sink, and with which checkpoint.

A sink made by CREATE SINK is remembered by its name: with the command that registers the query, or in
``sinks.json`` if it was given later. A function is code and not stored.

Queries that write to one sink, one after the other, share its checkpoint, and so do queries of one name that
write by functions: what takes the place of a dropped query writes on under the batch numbers that follow
(:mod:`penstock.spark.driver.sinks`). The checkpoint is named after the first of them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from penstock.catalog import SinkDef
from penstock.errors import CatalogError, PipelineError
from penstock.settings import Settings
from penstock.spark.driver import insert
from penstock.spark.driver.checkpoint import Directory, query_id
from penstock.spark.driver.outputs import check_output
from penstock.spark.driver.registrations import Registration
from penstock.spark.driver.sinks import Sink, Sinks, wrote
from penstock.spark.map_side.results import QueryResults
from penstock.spark.wire.results import Results

_log = logging.getLogger("penstock")
_NAMED = "sinks.json"


class PipelineSinks:
    """The sinks of a pipeline.

    ``registered`` are its queries, oldest first; ``find`` finds a sink by name.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        results: Results,
        registered: Callable[[], Sequence[Registration]],
        find: Callable[[str], SinkDef],
        settings: Callable[[], Settings],
    ) -> None:
        self._spark, self._location, self._results = spark, f"{checkpoint}/sinks", results
        self._registered, self._find, self._settings = registered, find, settings
        self._directory = Directory(spark, checkpoint)
        self._named: dict[str, str] = json.loads(self._directory.read(_NAMED) or "{}")
        self._functions: dict[str, Sink] = {}
        self.running = Sinks(spark)

    def check(self, name: str, sink: Sink | str | None) -> None:
        """Reject the sink of a query to be registered, if it is another query's or holds another's output."""
        if not isinstance(sink, str):
            return
        to = self._find(sink)
        key = _key("", to.name)
        for r in self._registered():
            if r.stands and self._key(r) == key and r.name.casefold() != name.casefold():
                raise PipelineError(
                    f"query {r.name!r} writes to sink {to.name!r}; drop it first, write one query with UNION "
                    "ALL, or create another sink"
                )
        if to.path is not None and to.format not in ("kafka", insert.FUNCTION):
            location = self._checkpoint(key, to)
            check_output(self._spark, to.path, None if location is None else Directory(self._spark, location))

    def give(self, r: Registration, sink: Sink | str) -> None:
        """Remember the sink of a registered query."""
        stored = self._name(r)
        if isinstance(sink, str):
            sink = self._find(sink).name
        if stored and (not isinstance(sink, str) or sink.casefold() != stored.casefold()):
            raise PipelineError(
                f"query {r.name!r} writes to sink {stored!r}; to write elsewhere, drop it first"
            )
        if not isinstance(sink, str):
            self._functions[r.id] = sink
        elif not stored:
            self._named[r.id] = sink
            self._directory.write(_NAMED, json.dumps(self._named))

    def add(self, r: Registration) -> None:
        """Let a query be written after those before it."""
        checkpoint = self._checkpoint(self._key(r), self._definition(r), r)
        assert checkpoint is not None
        self.running.add(self._results_of(r), self._sink(r), checkpoint)

    def resume(self) -> None:
        """Before a start: the sinks of all queries, and of dropped ones whose results are not all written."""
        lines: dict[tuple[str, str], list[Registration]] = {}
        for r in self._registered():
            lines.setdefault(self._key(r), []).append(r)
        for key, queries in lines.items():
            for r in list(self._to_write(key, queries)):
                self.add(r)

    def started(self) -> None:
        """After a start of the pipeline."""
        self.running.start()
        self.running.ended(self._results.published().ended)

    def _to_write(self, key: tuple[str, str], queries: list[Registration]) -> Iterator[Registration]:
        """The queries of a sink that have results to be written, or may get some."""
        last = queries[-1]
        to = self._definition(last)
        if key[0] and to is None:
            return
        checkpoint = self._checkpoint(key, to, last)
        before = None if checkpoint is None else wrote(Directory(self._spark, checkpoint))
        ids = [r.id for r in queries]
        if before is not None and before.query not in ids:
            raise PipelineError(
                f"the checkpoint {checkpoint} of sink {key[0]!r} has the position in the results of another "
                "pipeline; give the sink another checkpoint, and another directory to write to"
            )
        begin = 0 if before is None else ids.index(before.query) + before.all
        published = self._results.published()
        for r in queries[begin:]:
            if r.stands and (key[0] or r.id in self._functions):
                yield r
            elif not r.stands and r.dropped is not None:
                pending = r.dropped > published.commands or r.id in published.ended
                begun = before is not None and before.query == r.id
                if pending and key[0]:
                    yield r
                elif pending and begun and last.id in self._functions:
                    self._functions.setdefault(r.id, self._functions[last.id])
                    yield r
                elif pending and begun:
                    _log.warning(
                        "query %s was dropped, and its sink, a function, may not have written its last "
                        "results; register a query of that name with the sink to write them",
                        r.name,
                    )

    def _checkpoint(
        self, key: tuple[str, str], to: SinkDef | None, r: Registration | None = None
    ) -> str | None:
        """The checkpoint of a sink: one that there is, or that which CREATE SINK names, or a new one.

        A function's query may keep state of its own, which another query's rows do not fit.
        """
        own = [] if r is None else [r.id]
        ids = [*(q.id for q in self._registered() if self._key(q) == key), *own]
        for id in dict.fromkeys([*own, *reversed(ids)]):
            place = Directory(self._spark, f"{self._location}/{id}")
            if query_id(place) is not None and (key[0] or id in own or not place.names("state")):
                return f"{self._location}/{id}"
        if to is not None and to.checkpoint is not None:
            return to.checkpoint
        first = (ids if key[0] else own or ids)[:1]
        return f"{self._location}/{first[0]}" if first else None

    def _sink(self, r: Registration) -> Sink:
        to = self._definition(r)
        return self._functions[r.id] if to is None else insert.results_writer(to, self._settings())

    def _definition(self, r: Registration) -> SinkDef | None:
        """What CREATE SINK has made, if the query writes to such a sink."""
        name = self._name(r)
        if not name:
            return None
        try:
            return self._find(name)
        except CatalogError as error:
            if r.stands:
                raise PipelineError(
                    f"query {r.name!r} writes to sink {name!r}, and {error}; create the sink before the "
                    "pipeline starts, or drop the query"
                ) from None
            _log.warning(
                "query %s was dropped, and %s: results that were not written are not written", r.name, error
            )
            return None

    def _name(self, r: Registration) -> str:
        return self._named.get(r.id, r.sink)

    def _key(self, r: Registration) -> tuple[str, str]:
        return _key(r.name, self._name(r))

    def _results_of(self, r: Registration) -> QueryResults:
        return QueryResults(self._results.location, r.id, r.name, r.schema, r.kind)


def _key(query: str, sink: str) -> tuple[str, str]:
    """What shares a checkpoint: the queries of a sink, or those of a name that write by functions."""
    return (sink.casefold(), "") if sink else ("", query.casefold())
