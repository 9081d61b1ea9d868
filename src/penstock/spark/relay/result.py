"""The output of the processor to Spark: blobs for the next stage, the query's rows, or what a file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from penstock.engine.command import Command
from penstock.spark.settings import RESULT_FRAME_ROWS
from penstock.spark.wire.protocol import Message
from penstock.spark.wire.record import PRODUCER, PROGRESS, command_to_json
from penstock.spark.wire.results import Piece, Results, placed, shown

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Row


@dataclass(frozen=True)
class Forward:
    """The results of an inner stage, addressed to the partitions of the next by their keys."""

    keys: tuple[int, ...]

    def __call__(
        self, result: Message | None, commands: Sequence[Command], notices: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """A row per blob, and one per command and partition."""
        assert result is not None
        yield _addressed(self.rows(result.head["places"], result.body, commands))

    def rows(
        self, places: Sequence[tuple[int, str, int]], body: Any, commands: Sequence[Command]
    ) -> list[tuple[int, str, bytes]]:
        """The rows of the blobs at the beginning of a body."""
        rows, start = [(key, command_to_json(c), b"") for c in commands for key in self.keys], 0
        for target, envelope, size in places:
            rows.append((self.keys[target], envelope, bytes(body[start : start + size])))
            start += size
        return rows


def _addressed(rows: Sequence[tuple[int, str, bytes]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=["partition", "envelope", "blob"])


@dataclass(frozen=True)
class Rows:
    """The results of the last stage, as the columns that the user sees."""

    schema: pa.Schema
    kind: str
    reports: bool = False

    def __call__(
        self, result: Message | None, commands: Sequence[Command], notices: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """The rows; with ``reports`` also one of the partition's progress, in columns of its own."""
        assert result is not None
        with pa.ipc.open_stream(result.body) as reader:
            batch = reader.read_next_batch()
        for start in range(0, batch.num_rows, RESULT_FRAME_ROWS):
            columns = shown(batch.slice(start, RESULT_FRAME_ROWS), self.schema, self.kind)
            yield _frame({**columns, **(_report(len(columns["ts"]), None, None) if self.reports else {})})
        if self.reports:
            empty = {f.name: pa.nulls(1, f.type) for f in self.schema}
            yield _frame({**empty, **_report(1, *result.head["places"])})


def _frame(columns: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Arrow columns wrapped as pandas ones: pyspark converts them back without a copy."""
    import pandas as pd

    arrays = {n: pd.arrays.ArrowExtensionArray(pa.chunked_array([c])) for n, c in columns.items()}
    return pd.DataFrame(arrays, copy=False)


def _report(rows: int, partition: int | None, progress: int | None) -> dict[str, pa.Array]:
    """The columns of rows that say how far a partition is."""
    return {
        PRODUCER: pa.array([partition] * rows, pa.int32()),
        PROGRESS: pa.array([progress] * rows, pa.int64()),
    }


@dataclass(frozen=True)
class Publish:
    """The results of a pipeline's queries, written to a file whose name goes to the driver.

    Only one partition reports which commands were applied; all apply the same.
    """

    results: Results

    def __call__(
        self, result: Message | None, commands: Sequence[Command], notices: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Rows in the columns of ``PUBLISHED``: a file, what it holds, who failed, the last command."""
        import pandas as pd

        rows = [tuple(json.loads(text[len(NOTICE) :])) for text in notices]
        if result is not None:
            rows += self.rows(result.head["places"], result.body, commands)
        if rows:
            yield pd.DataFrame(rows, columns=["file", "contents", "failed", "commands"])

    def rows(self, places: Any, body: Any, commands: Sequence[Command]) -> list[tuple[str, str, str, int]]:
        """The row about what a step returned, if there is anything to report."""
        contents, failed = places
        last = max((c.sequence for c in commands), default=0)
        if not (contents or failed or last):
            return []
        file = self.results.write(_batch(), [body]) if contents else ""
        return [(file, json.dumps(contents), json.dumps(failed), last)]


@dataclass(frozen=True)
class Divide:
    """The output of a pipeline's first stage: elements for the second, and results as ``Publish`` has them.

    Reports of results go through the second stage to the driver, since a Spark query has one output.
    """

    forward: Forward
    publish: Publish

    def __call__(
        self, result: Message | None, commands: Sequence[Command], notices: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """The rows of ``Forward``, and those of ``Publish`` for the second stage to pass on."""
        assert result is not None
        places, results = result.head["places"]
        rest = memoryview(result.body)[sum(size for _, _, size in places) :]
        rows = self.forward.rows(places, result.body, commands)
        for row in self.publish.rows(results, rest, ()):
            rows.append((self.forward.keys[0], NOTICE + json.dumps(row), b""))
        if rows:
            yield _addressed(rows)


NOTICE = "notice "
"""The beginning of an envelope that a stage passes on: a row for the driver."""
PUBLISHED = "file STRING, contents STRING, failed STRING, commands BIGINT"
"""The columns of the rows that name files to the driver."""


def published(rows: Sequence[Row]) -> tuple[dict[str, list[Piece]], dict[str, str], int]:
    """What the tasks of a batch report: results by query, failures by query, the last command."""
    found: dict[str, list[Piece]] = {}
    failed: dict[str, str] = {}
    for row in rows:
        for name, pieces in placed(row.file, json.loads(row.contents)).items():
            found.setdefault(name, []).extend(pieces)
        failed |= json.loads(row.failed)
    return found, failed, max((row.commands for row in rows), default=0)


def _batch() -> int:
    """The number of the micro-batch that the task is of."""
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)
