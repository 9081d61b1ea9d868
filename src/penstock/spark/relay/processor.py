"""The stateful processor of a stage: a relay between Spark and the resident engine.

In every micro-batch and for every partition it reads the version from the state store, makes sure that the
engine holds that version (rebuilding it from the log if not), sends the batch's blobs, writes them to the log
while the engine computes, and passes the results on. A step that leaves nothing behind, such as those of a
query that keeps no rows, is not logged. The engine may die at any point: nothing is
durable before Spark commits the batch, so the relay rebuilds the engine and repeats the request.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark import Accumulator, AccumulatorParam, TaskContext, cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from penstock.spark.process import (
    freeze_loaded_objects,
    generator_without_traceback,
    keep_freed_memory,
    quiet_worker,
)
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.resident.directory import NO_QUERY, EngineId

if TYPE_CHECKING:
    import pandas as pd

    from penstock.engine.command import Command
    from penstock.spark.wire.protocol import Message


def _row(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


ENTRY_KEY = _row(step=LongType(), piece=IntegerType())
ENTRY_VALUE = _row(data=BinaryType())


Published = dict[EngineId, tuple[int, bytes]]
"""By engine: when it published, and its encoded readings."""


class Latest(AccumulatorParam[Published]):
    """A Spark accumulator that takes the latest measurements of each engine to the driver."""

    def zero(self, value: Published) -> Published:
        return {}

    def addInPlace(self, value1: Published, value2: Published) -> Published:
        return value1 | value2


class Finish(Protocol):
    """Converts an engine's answer to what the processor returns to Spark.

    ``commands`` are passed on, and so are ``notices``, the rows of an earlier stage for the driver.
    """

    def __call__(
        self, result: Message | None, commands: Sequence[Command], notices: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Frames; none if there is nothing to return. No result: there was only something to pass on."""


class Relay(StatefulProcessor):
    """One stage's processor. Pickled into every task, so the program stays packed until it is needed.

    Before a query's first batch Spark starts a process in the driver for each stage, which only calls
    ``init``, while everything waits. So what a step needs, Arrow and NumPy with it, is imported by a step.

    ``measurements`` takes what its engines publish to the driver; ``memory`` limits each of them, in bytes.
    ``plan`` is the identity of the plan that it is a stage of.
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
        plan: str = "",
    ) -> None:
        self.program = program
        self.stage = stage
        self.keys = keys
        self.fingerprint = fingerprint
        self._finish = cloudpickle.dumps(finish)
        self.measurements = measurements
        self.memory = memory
        self.plan = plan

    def of_plan(self, plan: str) -> Relay:
        """The same stage of another plan."""
        relay = copy(self)
        relay.plan = plan
        return relay

    def returning(self, finish: Finish) -> Relay:
        """The same stage whose results take another form."""
        relay = copy(self)
        relay._finish = cloudpickle.dumps(finish)
        return relay

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
        from penstock.measurement import together
        from penstock.spark.relay.state_log import StateLog
        from penstock.spark.relay.visit import Visit, received
        from penstock.spark.wire.record import Record

        finish = cast(Finish, pickle.loads(self._finish))
        items, commands, notices = received(rows)
        if notices and not items and not commands:
            yield from finish(None, (), notices)
            return
        log, engine_id = StateLog(self.entries, self.fingerprint), self._engine_id(partition)
        visit = Visit(log, self.program, engine_id, self.memory)
        result = visit.step(Record.of(items, commands))
        self._publish(visit.engine_id, together(result.head["measured"], visit.log.measured()))
        # All partitions of a stage get the same commands, so one of them passes them on.
        yield from finish(result, () if partition else commands, notices)
        freeze_loaded_objects()

    def _publish(self, engine: EngineId, readings: bytes) -> None:
        if self.measurements is not None:
            self.measurements.add({engine: (time.time_ns() // 1000, readings)})

    def close(self) -> None:
        """Nothing is held between batches."""

    def _engine_id(self, partition: int) -> EngineId:
        """Of what a job carries, the query's id is Spark's own; the job group is not, users set it.

        A thread that a user starts in ``foreachBatch`` has neither; then the plan has to suffice.
        """
        context = TaskContext.get()
        assert context is not None
        query_id = context.getLocalProperty("sql.streaming.queryId") or NO_QUERY
        return EngineId(query_id, self.plan, self.stage, partition)
