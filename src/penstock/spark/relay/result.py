"""The output of the processor to Spark: blobs for the next stage, or the query's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.command import Command
from penstock.engine.element import operation
from penstock.engine.stage import SIGN, TS
from penstock.spark.settings import RESULT_FRAME_ROWS
from penstock.spark.wire.protocol import Message
from penstock.spark.wire.record import command_to_json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Forward:
    """The results of an inner stage, addressed to the partitions of the next by their keys."""

    keys: tuple[int, ...]

    def __call__(self, result: Message, commands: Sequence[Command]) -> Iterator[pd.DataFrame]:
        """A row per blob, and one per command and partition."""
        import pandas as pd

        rows, start = [(key, command_to_json(c), b"") for c in commands for key in self.keys], 0
        for target, envelope, size in result.head["places"]:
            rows.append((self.keys[target], envelope, bytes(result.body[start : start + size])))
            start += size
        yield pd.DataFrame(rows, columns=["partition", "envelope", "blob"])


@dataclass(frozen=True)
class Rows:
    """The results of the last stage, as the columns that the user sees."""

    schema: pa.Schema
    kind: str

    def __call__(self, result: Message, commands: Sequence[Command]) -> Iterator[pd.DataFrame]:
        """Arrow columns wrapped as pandas ones: pyspark converts them back without a copy."""
        import pandas as pd

        with pa.ipc.open_stream(result.body) as reader:
            batch = reader.read_next_batch()
        for start in range(0, batch.num_rows, RESULT_FRAME_ROWS):
            columns = self.columns(batch.slice(start, RESULT_FRAME_ROWS))
            arrays = {n: pd.arrays.ArrowExtensionArray(pa.chunked_array([c])) for n, c in columns.items()}
            yield pd.DataFrame(arrays, copy=False)

    def columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """``ts``, for a relation ``op``, then the payload."""
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        ts, sign = by_name.pop(TS), by_name.pop(SIGN)
        first = [ts] if self.kind == "stream" else [ts, operation(sign)]
        columns = zip(self.schema, [*first, *by_name.values()], strict=True)
        return {f.name: c if c.type == f.type else c.cast(f.type) for f, c in columns}
