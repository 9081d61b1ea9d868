"""What one use of a query's DataFrame has of its own: command stream, plan identity, those of inner queries.

An *inner* query is one over whose DataFrame a stream of the query is made. Both run in one Spark query, and
the inner one has a command stream, too; what it stores is in ``inner/<number>`` of the checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.driver.checkpoint import Directory, check_part
from penstock.spark.driver.commands import CommandStream
from penstock.spark.driver.tables import QueryTables
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.resident.directory import new_plan

if TYPE_CHECKING:
    from penstock.spark.driver.sources import InputFrame

FOLDER = "inner"
"""The folder of a checkpoint that holds what inner queries store."""
_ALIAS = "penstock_plan_"
"""Begins the alias of a stage's input, which Spark's text of a query's plan has."""


class Parts:
    """The parts of one use of a query's DataFrame, made with it."""

    def __init__(self, spark: SparkSession, tables: QueryTables, fingerprints: Sequence[Fingerprint]) -> None:
        self.spark, self.tables, self.fingerprints = spark, tables, fingerprints
        self.commands, self.plan = CommandStream(spark), new_plan()
        self.inner: list[Parts] = []

    def read(self, source: InputFrame) -> DataFrame:
        """The rows of a stream; with the progress of the query that returns them, if one does."""
        if source.inner is None:
            return source.df
        inner = source.inner
        parts = Parts(self.spark, inner.tables.for_another_query(), inner.fingerprints)
        self.inner.append(parts)
        return inner.frame(parts)

    def marked(self, blobs: DataFrame) -> DataFrame:
        """A stage's input, by which a query of a derived DataFrame is known to be one of this plan."""
        return blobs.alias(f"{_ALIAS}{self.plan}")

    def open(self, directory: Directory | None, new: bool) -> None:
        """Before a start: deliver stored commands, and what has changed of the tables.

        A checkpoint of other inner queries is rejected; ``new``: it is of none yet.
        """
        for number, parts in enumerate(self.inner):
            below = None if directory is None else directory.below(f"{FOLDER}/{number}")
            if below is not None:
                check_part(below, parts.fingerprints, new)
            parts.open(below, new)
        self.commands.open(directory, new)
        self.tables.open(self.commands, directory, new)

    def started(self, query: StreamingQuery) -> None:
        """After a start: commands are taken from now on, and tables are refreshed."""
        for parts in self.all():
            parts.commands.started(query, named=parts is self)
            parts.tables.started()

    def all(self) -> Iterator[Parts]:
        """These and those of the inner queries, which come before what reads them."""
        for parts in self.inner:
            yield from parts.all()
        yield self


def plans_in(text: str) -> set[str]:
    """The identities of the plans of ours in a query's plan, as Spark prints it before it optimizes it."""
    return set(re.findall(rf"\bSubqueryAlias {_ALIAS}(\w+)", text))


class Inner(Protocol):
    """A query whose rows a stream of another has, and with them its progress."""

    @property
    def tables(self) -> QueryTables:
        """Its static tables."""

    @property
    def fingerprints(self) -> Sequence[Fingerprint]:
        """Those of its stages."""

    def frame(self, parts: Parts) -> DataFrame:
        """The rows, and rows of ``PRODUCER`` and ``PROGRESS``."""
