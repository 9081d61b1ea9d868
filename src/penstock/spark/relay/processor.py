"""The stateful processor of a stage: a relay between Spark and the resident engine.

In every micro-batch and for every partition it reads the version from the state store, makes sure that the
engine holds that version (rebuilding it from the log if not), sends the batch's blobs, writes them to the log
while the engine computes, and passes the results on. A step that leaves nothing behind, such as those of a
query that keeps no rows, is not logged. The engine may die at any point: nothing is
durable before Spark commits the batch, so the relay rebuilds the engine and repeats the request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import Accumulator, AccumulatorParam, TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from penstock.engine.command import Command
from penstock.errors import EngineError
from penstock.measurement import together
from penstock.spark.process import (
    freeze_loaded_objects,
    generator_without_traceback,
    keep_freed_memory,
    quiet_worker,
)
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.result import TOLD
from penstock.spark.relay.state_log import StateLog
from penstock.spark.resident import connection
from penstock.spark.resident.directory import EngineId, ResidentDirectory, spark_ancestors
from penstock.spark.settings import STEP_ATTEMPTS, STEP_RETRY_S
from penstock.spark.wire.protocol import Kind, Message, send
from penstock.spark.wire.record import Envelope, Record, command_from_json, is_command

if TYPE_CHECKING:
    import pandas as pd


def _row(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


ENTRY_KEY = _row(step=LongType(), piece=IntegerType())
ENTRY_VALUE = _row(data=BinaryType())


Published = dict[tuple[str, int, int], tuple[int, bytes]]
"""By query run, stage (from 1) and partition: when an engine published, and its encoded readings."""


class Latest(AccumulatorParam[Published]):
    """A Spark accumulator that takes the latest measurements of each engine to the driver."""

    def zero(self, value: Published) -> Published:
        return {}

    def addInPlace(self, value1: Published, value2: Published) -> Published:
        return value1 | value2


class Finish(Protocol):
    """Converts an engine's answer to what the processor returns to Spark.

    ``commands`` are passed on, and so is ``told``, what an earlier stage has to tell the driver.
    """

    def __call__(
        self, result: Message | None, commands: Sequence[Command], told: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Frames; none if there is nothing to return. No result: there was only something to pass on."""


class Relay(StatefulProcessor):
    """One stage's processor. Pickled into every task, so the program stays packed until it is needed.

    ``measurements`` takes what its engines publish to the driver; ``memory`` limits each of them, in bytes.
    """

    def __init__(
        self,
        program: bytes,
        stage: int,
        keys: tuple[int, ...],
        fingerprint: Fingerprint,
        finish: Finish,
        measurements: Accumulator[Published] | None = None,
        memory: int | None = None,
    ) -> None:
        self.program = program
        self.stage = stage
        self.keys = keys
        self.fingerprint = fingerprint
        self.finish = finish
        self.measurements = measurements
        self.memory = memory

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A worker may be killed with its task from the moment at which the processor was unpickled."""
        quiet_worker()
        self.__dict__.update(state)

    def init(self, handle: StatefulProcessorHandle) -> None:
        keep_freed_memory()
        self.entries = handle.getMapState("log", ENTRY_KEY, ENTRY_VALUE)

    @generator_without_traceback
    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        partition = self.keys.index(key[0])
        items, commands, told = _received(rows)
        if told and not items and not commands:
            yield from self.finish(None, (), told)
            return
        log, engine_id = StateLog(self.entries, self.fingerprint), self._engine_id(partition)
        visit = Visit(log, self.program, engine_id, self.memory)
        result = visit.step(Record.of(items, commands))
        self._publish(visit.engine_id, together(result.head["measured"], visit.log.measured()))
        # All partitions of a stage get the same commands, so one of them passes them on.
        yield from self.finish(result, () if partition else commands, told)
        freeze_loaded_objects()

    def _publish(self, engine: EngineId, readings: bytes) -> None:
        if self.measurements is not None:
            place = (engine.run_id, engine.stage + 1, engine.partition)
            self.measurements.add({place: (time.time_ns() // 1000, readings)})

    def close(self) -> None:
        """Nothing is held between batches."""

    def _engine_id(self, partition: int) -> EngineId:
        context = TaskContext.get()
        assert context is not None
        run_id = context.getLocalProperty("spark.jobGroup.id") or "batch"
        query_id = context.getLocalProperty("sql.streaming.queryId") or "batch"
        return EngineId(run_id, self.stage, partition, query_id)


def _received(
    frames: Iterable[pd.DataFrame],
) -> tuple[list[tuple[Envelope, bytes]], list[Command], list[str]]:
    """The blobs of a batch, its commands, and what is to be passed on."""
    items, commands, told = [], [], []
    for frame in frames:
        for envelope, data in zip(frame["envelope"], frame["blob"], strict=True):
            if envelope.startswith(TOLD):
                told.append(envelope)
            elif is_command(envelope):
                commands.append(command_from_json(envelope))
            else:
                items.append((Envelope.from_json(envelope), data))
    return items, commands, told


class Visit:
    """One step of one partition: the conversation with its engine and the changes to its log."""

    def __init__(self, log: StateLog, program: bytes, engine_id: EngineId, memory: int | None = None) -> None:
        self.log = log
        self.program = program
        self.engine_id = engine_id
        self.memory = memory
        self.home = ResidentDirectory.of_worker()
        self.logged = False

    def step(self, record: Record) -> Message:
        """Take the step; if the engine dies meanwhile, rebuild it and take the step again."""
        parts = record.parts()
        for attempt in range(1, STEP_ATTEMPTS + 1):
            try:
                return self._attempt(parts)
            except (ConnectionError, FileNotFoundError) as error:
                if attempt == STEP_ATTEMPTS:
                    lost = f"the engine of {self.engine_id} was lost {attempt} times in one step"
                    raise EngineError(lost) from error
                time.sleep(STEP_RETRY_S * attempt)
        raise AssertionError("unreachable")

    def _attempt(self, parts: list[bytes | memoryview]) -> Message:
        version = self.log.control.version
        with connection.connect(self.home, self.engine_id, self.memory) as sock:
            watch = spark_ancestors(os.getpid())
            hello = connection.ask(sock, Kind.HELLO, {"version": version, "watch": watch})
            if hello.head["version"] != version:
                self._rebuild(sock)
            send(sock, Kind.STEP, {"version": version, "query": self.engine_id.query_id}, parts)
            if self.log.depends_on_steps:
                self._log(parts)
            else:
                self.log.trim()
            result = connection.answer(sock)
            if result.head["needs_from"] <= version:
                self._log(parts)
            if result.head["tables"] != self.log.control.tables_version:
                # Before a snapshot, which moves the engine's own header on and has its own tables.
                self.log.put_tables(result.head["tables"], connection.ask(sock, Kind.TABLES, {}).body)
            snapshot = self._snapshot(sock, result)
        self.log.commit(result.head["header"], result.head["needs_from"])
        if snapshot is not None:
            self.log.put_snapshot(snapshot.body, snapshot.head["size"], snapshot.head["start"])
        return result

    def _log(self, parts: list[bytes | memoryview]) -> None:
        """Log the step; it is logged once, however often it is attempted."""
        if not self.logged:
            self.log.append(parts)
            self.logged = True

    def _snapshot(self, sock: Any, result: Message) -> Message | None:
        head = result.head
        wanted = self.log.wanted_snapshot(head["needs_from"], head["replay_from"], head["state_bytes"])
        return None if wanted is None else connection.ask(sock, Kind.SNAPSHOT, {"whole": wanted == "whole"})

    def _rebuild(self, sock: Any) -> None:
        """Bring the engine to the version of the log: the base, then every step since."""
        log = self.log
        version, header, snapshot = log.base()
        tables = log.tables() if header else b""
        head = {"program": self.program, "version": version, "header": header, "tables": tables}
        send(sock, Kind.BUILD, {**head, "snapshot_size": log.control.snapshot_raw}, [snapshot])
        for entry in log.entries():
            send(sock, Kind.REPLAY, {"version": entry.step}, [entry.record])
