"""What a session has by name: streams, relations, tables, views, functions and sinks."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock import cql
from penstock.catalog import (
    Catalog,
    Definition,
    FunctionDef,
    SinkDef,
    TableDef,
)
from penstock.errors import CatalogError
from penstock.settings import Settings
from penstock.spark.driver import insert, sources
from penstock.spark.driver.tables import refresh


class Definitions:
    """The part of a session that registers; ``settings`` are those of queries made from now on."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.settings = Settings()
        self._catalog = Catalog()

    @property
    def catalog(self) -> Catalog:
        """What is registered, by name: streams, relations, tables, views, functions and sinks."""
        return self._catalog

    def create_stream(
        self,
        name: str,
        df: DataFrame,
        timestamp: str,
        disorder: str | int | dt.timedelta | None = None,
        unit: str | None = None,
        idle_after: str | int | dt.timedelta | None = None,
        heartbeat: str | None = None,
        bad_rows: str = "error",
        rate: float | None = None,
        partitioned_by: str | Sequence[str] = (),
        heavy: Mapping[str, Sequence[Any]] | None = None,
        skew: str | int | dt.timedelta | None = None,
        replace: bool = False,
        primary_key: str | Sequence[str] = (),
        references: Mapping[Any, tuple[Any, ...]] | None = None,
        clustered_by: Mapping[str, str] | str | None = None,
        ordered_by: Mapping[str, str] | str | None = None,
    ) -> None:
        """Register a streaming DataFrame under a name.

        ``timestamp`` is the column that holds the time: a TIMESTAMP, or an integer in ``unit`` (seconds if
        not given); "arrival" gives rows the time of their batch. Rows may be out of order by up to
        ``disorder`` (``skew`` is another name of it); "auto" adapts the bound to the disorder seen, "auto up
        to 1 minute" has a limit other than 10 minutes. A stream that may fall silent is taken to be at most
        ``idle_after`` behind the others. Rows whose ``heartbeat`` column is true only advance time. A row
        with a NULL timestamp ends the query, or with ``bad_rows="count"`` is counted and left out.
        ``replace`` replaces a stream of that name.

        How its rows come decides where they are sent: ``rate`` rows a second; equal values of the columns
        ``partitioned_by`` from one partition of the source; ``heavy`` values that many rows have, by column.

        Constraints that the stream obeys let joins keep less: no two rows share a ``primary_key``; by
        ``references={"pid": ("B", "pid", "2 seconds")}`` the row of B that joins comes no later; equal values
        of a column are ``clustered_by``, and values are ``ordered_by``, at most as far from it as given:
        ``{"pid": "500 rows"}``.
        """
        self._create("stream", locals())

    def create_relation(
        self,
        name: str,
        df: DataFrame,
        timestamp: str,
        change: str,
        disorder: str | int | dt.timedelta | None = None,
        unit: str | None = None,
        idle_after: str | int | dt.timedelta | None = None,
        heartbeat: str | None = None,
        bad_rows: str = "error",
        rate: float | None = None,
        partitioned_by: str | Sequence[str] = (),
        heavy: Mapping[str, Sequence[Any]] | None = None,
        skew: str | int | dt.timedelta | None = None,
        replace: bool = False,
        primary_key: str | Sequence[str] = (),
    ) -> None:
        """Register a relation by the streaming DataFrame of its changes.

        Column ``change`` holds '+' for a row that enters and '-' for one that leaves; the other arguments
        are as for a stream. The relation's columns are all but the timestamp and the change. No two of its
        rows share a ``primary_key`` at any instant.
        """
        self._create("relation", locals())

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        returns: str,
        scalar: bool = False,
        replace: bool = False,
    ) -> None:
        """Register a vectorised function, to be used wherever an expression may stand.

        It gets an Arrow array for every argument and returns an array (Arrow, NumPy, pandas or a list) with
        as many values of the SQL type ``returns``. With ``scalar=True`` it gets single values (None for
        NULL) and returns one, which is easier to write and many times slower.
        """
        self._catalog.add(cql.define_function(name, function, returns, scalar), _if_taken(replace))

    def create_aggregate(
        self,
        name: str,
        returns: str,
        state: str,
        add: Callable[..., Any],
        merge: Callable[..., Any],
        finish: Callable[..., Any],
        remove: Callable[..., Any] | None = None,
        replace: bool = False,
    ) -> None:
        """Register an aggregate, to be used as those of CQL, with DISTINCT and FILTER too.

        ``state`` are the columns of a state, as in ``n BIGINT, total DOUBLE``. ``add`` gets an Arrow array
        for every argument and returns the state of each row. ``merge`` gets two runs of states, and returns
        the states of both sets of rows together; which rows came first must not matter. ``remove`` gets
        states and parts of them to take out again. ``finish`` gets states and returns values of the SQL type
        ``returns``. States are dicts of arrays by name. Without ``remove`` a group that rows leave is merged
        again from the others. Rows with a NULL argument are left out; of no rows the value is NULL.
        """
        defined = cql.define_aggregate(name, returns, state, add, merge, finish, remove)
        self._catalog.add(defined, _if_taken(replace))

    def create_table(
        self,
        name: str,
        df: DataFrame,
        refresh_every: str | dt.timedelta | None = None,
        replace: bool = False,
    ) -> None:
        """Register a static DataFrame under a name.

        A query reads it when it is made, at every further start, at ``refresh_table`` and, with
        ``refresh_every`` ("5 minutes"), after every such period. What differs then changes the
        query's table at the first instant that is not complete.
        """
        every = cql.refresh_period(refresh_every)
        table = dataclasses.replace(sources.table(name, df), refresh_every=every)
        self._catalog.add(table, _if_taken(replace))

    def create_sink(
        self,
        name: str,
        function: Callable[[DataFrame, int], None],
        trigger: str | None = None,
        checkpoint: str | None = None,
        replace: bool = False,
    ) -> None:
        """Register a function as a sink: INSERT INTO calls it with the DataFrame and number of each batch.

        A batch that is repeated after a failure has the same number. ``trigger`` ("5 seconds",
        "available-now") and ``checkpoint``, a directory, are as in CREATE SINK, which makes all other sinks.
        """
        when = None if trigger is None else self.settings.changed("trigger", trigger).trigger
        sink = SinkDef(name, insert.FUNCTION, trigger=when, checkpoint=checkpoint, function=function)
        self._catalog.add(sink, _if_taken(replace))

    def refresh_table(self, name: str) -> int:
        """Read a static table again for the running queries over it; returns for how many it has changed."""
        known = self._catalog.known(name)
        if known is None or not isinstance(self._catalog[known], TableDef):
            tables = ", ".join(n for n, d in self._catalog.items() if isinstance(d, TableDef)) or "none"
            raise CatalogError(f"there is no table {name!r}; tables: {tables}")
        return refresh(known)

    def drop(self, name: str) -> None:
        """Remove a stream or table; running queries continue."""
        self._catalog.drop(name)

    def _create(self, kind: str, given: dict[str, Any]) -> None:
        """Register an input; ``given``: all arguments of a method whose further ones are the options."""
        options = {n: value for n, value in given.items() if n not in ("self", "name", "df", "replace")}
        options["skew"] = _only(options.pop("disorder"), options["skew"])
        definition = sources.create_input(kind, given["name"], given["df"], **options)
        self._catalog.add(definition, _if_taken(given["replace"]))

    def _define(self, statement: cql.Create) -> None:
        """Register what a CREATE statement defines."""
        if statement.if_taken == "keep" and self._catalog.known(statement.name):
            return
        match statement:
            case cql.CreateInput():
                definition: Definition = sources.declared_input(statement, self.spark)
            case cql.CreateTable():
                definition = sources.declared_table(statement, self.spark)
            case cql.CreateView():
                definition = cql.define_view(statement, self._catalog)
            case cql.CreateSink():
                definition = statement.sink
        self._catalog.add(definition, statement.if_taken)

    def _described(self, name: str) -> list[tuple[str, str, str]]:
        """Columns with their types and what is declared of them; a view's are those of its query."""
        known = self._catalog.known(name)
        definition = self._catalog[known] if known else None
        if definition is None or isinstance(definition, FunctionDef | SinkDef):
            registered = ", ".join(self._catalog)
            raise CatalogError(f"there is no stream or table {name!r}; registered: {registered}")
        return cql.columns_of(definition, self._catalog)


def _if_taken(replace: bool) -> str:
    return "replace" if replace else "error"


def _only(disorder: Any, skew: Any) -> Any:
    """The value of an argument with two names."""
    if disorder is not None and skew is not None:
        raise CatalogError("disorder and skew mean the same; give one of them")
    return skew if disorder is None else disorder
