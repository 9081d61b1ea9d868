"""The results of a pipeline's query as a Python streaming data source, for any number of readers.

The offset is the number of the next batch of the pipeline. A reader advances when its query has results, and
now and then without, so that its offset stays among the batches that the pipeline keeps. What is read again
after a failure is the same: a published batch does not change (:mod:`penstock.spark.wire.results`).
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.errors import DataError
from penstock.spark.process import generator_without_traceback, without_traceback
from penstock.spark.settings import RESULT_TASK_BYTES, RESULTS_IDLE_S
from penstock.spark.wire.results import Piece, Published, Results, shown

NAME = "penstock_results"
Offset = dict[str, int]


@dataclass(frozen=True)
class QueryResults:
    """The results of one query: the folder, its id there, its name for messages, its columns and kind."""

    location: str
    id: str
    query: str
    schema: pa.Schema
    kind: str

    def options(self) -> dict[str, str]:
        """As options of the data source."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        named = {"location": self.location, "id": self.id, "query": self.query, "kind": self.kind}
        return {**named, "columns": schema}

    @staticmethod
    def of(options: Mapping[str, str]) -> QueryResults:
        """The inverse."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(options["columns"])))
        return QueryResults(options["location"], options["id"], options["query"], schema, options["kind"])

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame of the results, from the oldest that are kept."""
        return spark.readStream.format(NAME).options(**self.options()).load()


class ResultsSource(DataSource):
    """``spark.readStream.format("penstock_results")``, with the options of :class:`QueryResults`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(QueryResults.of(self.options).schema)

    def streamReader(self, schema: StructType) -> ResultsReader:
        return ResultsReader(QueryResults.of(self.options))


def register(spark: SparkSession) -> None:
    """Make the source known to a session; sessions made by ``newSession`` know it already."""
    try:
        spark.dataSource.register(ResultsSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@dataclass
class Slice(InputPartition):
    """The pieces that one task reads, in order."""

    pieces: list[Piece]


class ResultsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The batches of a query, on the driver; the elements in them, in tasks."""

    def __init__(self, query: QueryResults) -> None:
        self.query = query
        self.results = Results(query.location)
        self.target: int | None = None
        self.seen = 0
        self.advanced = time.monotonic()

    @without_traceback
    def initialOffset(self) -> Offset:
        """Where a reader without a checkpoint begins."""
        return {"batch": self.results.published().first}

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The next batch to be published if the query has results since ``start``, or ``start``.

        Of a query that was dropped it is at most the batch that did so, where its successor's results begin.
        """
        at, now = start["batch"], self.results.published()
        last = now.ended.get(self.query.id, now.next)
        if self.query.id in now.ended and at >= last:
            return start
        self._check(at, now)
        end = last if self.target is None else min(last, self.target)
        if end <= at or not (self._is_due() or self._has_results(at, end)):
            return start
        self.advanced = time.monotonic()
        return {"batch": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    @without_traceback
    def reportLatestOffset(self) -> Offset:
        return {"batch": self.results.published().next}

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """End the run with the batches that are published now."""
        self.target = self.results.published().next

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> list[Slice]:
        """Pieces in the order of batches, cut into tasks by their size."""
        found: list[Slice] = []
        size = 0
        for batch in range(start["batch"], end["batch"]):
            for piece in self._pieces(batch):
                if not found or size + piece.size > RESULT_TASK_BYTES:
                    found.append(Slice([]))
                    size = 0
                found[-1].pieces.append(piece)
                size += piece.size
        return found

    @generator_without_traceback
    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        for piece in partition.pieces:
            try:
                batches = list(self.results.read(piece))
            except FileNotFoundError:
                raise self._gone(int(piece.file.partition("/")[0])) from None
            for batch in batches:
                columns = shown(batch, self.query.schema, self.query.kind)
                yield pa.RecordBatch.from_arrays(list(columns.values()), schema=self.query.schema)

    def _pieces(self, batch: int) -> list[Piece]:
        try:
            return self.results.pieces(batch, self.query.id)
        except FileNotFoundError:
            raise self._gone(batch) from None

    def _has_results(self, start: int, end: int) -> bool:
        """Whether a batch from ``start`` on has results; each batch without is looked at once."""
        for batch in range(max(start, self.seen), end):
            if self._pieces(batch):
                return True
            self.seen = batch + 1
        return False

    def _is_due(self) -> bool:
        """Whether to advance in any case: after some time, and in a run that ends here."""
        return self.target is not None or time.monotonic() - self.advanced >= RESULTS_IDLE_S

    def _check(self, start: int, now: Published) -> None:
        if start < now.first:
            raise self._gone(start)
        if start > now.next:
            raise DataError(
                f"query {self.query.query!r} has results up to batch {now.next - 1}, and the reader has read "
                f"up to batch {start - 1}: the pipeline was started with a new checkpoint; use a new one for "
                "the reader, too"
            )

    def _gone(self, batch: int) -> DataError:
        first = self.results.published().first
        if batch >= first:
            return self.results.damaged(f"batch {batch}")
        return DataError(
            f"the results of query {self.query.query!r} in batch {batch} are gone, the oldest that are kept "
            f"are of batch {first}; start the reader with a new checkpoint, and the pipeline with a longer "
            "keep"
        )
