"""The program of a resident engine: a stage, and the destination of its results.

A destination turns a step's output into the body of the answer to the relay, and says what is where in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from penstock.engine.command import Command
from penstock.engine.registry import exchange_of
from penstock.engine.stage import Arrival, RootOutput, Snapshot, Stage, StepOutput
from penstock.measurement import Reading
from penstock.routing import partition_numbers, split_by
from penstock.spark.resident.late_rows import LateRows
from penstock.spark.settings import BLOB_BYTES
from penstock.spark.wire import blob
from penstock.spark.wire.record import Envelope, Record

_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSED = pa.ipc.IpcWriteOptions(use_threads=False, compression="lz4")


class EngineLike(Protocol):
    """The part of :class:`penstock.engine.engine.Engine` that a host uses."""

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        """Take one step."""

    def snapshot(self, whole: bool, most: int | None = None) -> Snapshot:
        """The whole state, or that of the operators that depend on all of their input; only its size if it
        has more than ``most`` bytes.
        """

    def restore(self, snapshot: bytes) -> None:
        """Make a new engine ready to replay the steps from the snapshot's ``start`` on."""

    def measure(self) -> Iterable[Reading]:
        """What its entities publish."""

    def header(self) -> bytes:
        """What a replay of the steps from ``needs_from`` on must know besides the arrivals."""

    def restore_header(self, header: bytes, tables: bytes = b"") -> None:
        """Make a new engine ready for that replay."""

    def tables(self) -> bytes:
        """The static tables that go with the header."""

    def tables_version(self) -> int | None:
        """How often these have changed; None if there are none."""


def real_engine(stage: Stage) -> EngineLike:
    """The engine that runs a stage."""
    from penstock.engine.engine import Engine

    return Engine(stage)


class Destination(Protocol):
    """Where the results of a stage go."""

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        """What the relay must know of the body of the answer, and the parts of the body."""


@dataclass(frozen=True)
class Result:
    """The result of the only root, for Spark: a plain IPC stream. The relay gets partition and progress."""

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        return (partition, output.only.progress), [_ipc(output.only.batch, _PLAIN)]


@dataclass(frozen=True)
class Results:
    """The results of all roots, for a file: compressed IPC streams, one after another.

    The relay gets the name, rows and bytes of each root with results, and the reasons of those that failed.
    """

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        full = {name: root.batch for name, root in output.roots.items() if root.batch.num_rows}
        parts = [_ipc(batch, _COMPRESSED) for batch in full.values()]
        contents = [(n, b.num_rows, len(p)) for (n, b), p in zip(full.items(), parts, strict=True)]
        return (contents, output.failed), parts


@dataclass(frozen=True)
class Downstream:
    """The exchange after a stage: the next stage's input, its partitions and the columns that are hashed."""

    input: str
    partitions: int
    partition_by: tuple[str, ...] = ()

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        """Places (partition, envelope, size) and blobs."""
        out = list(self._blobs(output.only, partition))
        places = [(target, envelope.to_json(), data.size) for target, envelope, data in out]
        return places, [memoryview(data) for _, _, data in out]

    def _blobs(self, output: RootOutput, partition: int) -> Iterator[tuple[int, Envelope, pa.Buffer]]:
        for target, batch in enumerate(self._split(output.batch)):
            total = output.batch.num_rows  # sent with the first piece, which every partition gets
            for piece, part in enumerate(blob.split(batch, BLOB_BYTES)):
                data = blob.encode(part)
                envelope = Envelope(
                    self.input,
                    partition,
                    piece,
                    part.num_rows,
                    min_ts=output.first,
                    progress=output.progress,
                    total=0 if piece else total,
                )
                yield target, envelope, data

    def _split(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        if self.partitions == 1:
            return [batch]
        keys = [batch.column(batch.schema.get_field_index(c)) for c in self.partition_by]
        where = partition_numbers(keys, self.partitions, batch.num_rows)
        return split_by(batch, where, self.partitions)


@dataclass(frozen=True)
class Onward:
    """The roots of a pipeline's first stage: elements for the second stage, and results for a file.

    The relay gets the places of the blobs, which come first, and what ``Results`` reports.
    """

    partitions: int

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        places, blobs = [], list[Any]()
        for name, root in output.roots.items():
            if root.by is not None:
                following = Downstream(exchange_of(name), self.partitions if root.by else 1, root.by)
                there, parts = following(replace(output, roots={name: root}), partition)
                places += there
                blobs += parts
        shown = {name: root for name, root in output.roots.items() if root.by is None}
        results, files = Results()(replace(output, roots=shown), partition)
        return (places, results), [*blobs, *files]


@dataclass(frozen=True)
class Program:
    """A stage with everything that an engine process needs. Can be pickled.

    ``late`` is the destination of late rows.
    """

    stage: Stage
    destination: Destination = Result()
    late: LateRows | None = None
    build: Callable[[Stage], EngineLike] = real_engine

    def arrivals(self, record: Record) -> list[Arrival]:
        return [_arrival(envelope, data) for envelope, data in record.items]


def _arrival(envelope: Envelope, data: bytes | memoryview) -> Arrival:
    batch = blob.decode(data) if envelope.rows else None
    e = envelope
    epochs = None if e.epochs is None else tuple((number, rows) for number, rows in e.epochs)
    own = (e.progress, e.copy, e.total, e.disorder, epochs)
    return Arrival(e.input, e.producer, batch, e.min_ts, e.max_ts, *own)


def _ipc(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
