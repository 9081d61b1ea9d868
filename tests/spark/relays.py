"""The relays of a query's partitions without Spark: stores are dictionaries, engines threads of this process.

Every step is taken twice, as by two executors: by an engine that goes on from step to step, and by one that
is built from the log just before it. Both write to a store of their own.
"""

from __future__ import annotations

import dataclasses
import pickle
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import local_host
import pyarrow as pa
from fake_store import FakeStore
from local_host import Manner
from strategies import Case

from penstock.engine.command import Command
from penstock.engine.stage import RESULT, Arrival, RootOutput, StepOutput
from penstock.spark.relay import visit
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.state_log import StateLog
from penstock.spark.relay.visit import Visit
from penstock.spark.resident import connection
from penstock.spark.resident.directory import EngineId
from penstock.spark.resident.program import Program
from penstock.spark.resident.server import ResidentEngine, Watchdog, _converse
from penstock.spark.wire import blob
from penstock.spark.wire.record import Envelope, Record

QUERY = Fingerprint(0, 1, "q")


class Plainly:
    """A destination: the step's output as it is, so that the next stage can be given it."""

    def __call__(self, output: StepOutput, partition: int) -> tuple[Any, list[Any]]:
        out, sink = output.only, pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, out.batch.schema) as writer:
            writer.write_batch(out.batch)
        return (out.progress, out.first), [memoryview(sink.getvalue())]


class Home:
    """In place of the directory of a JVM's engines: those of one executor, by partition."""

    def __init__(self) -> None:
        self.engines: dict[EngineId, ResidentEngine] = {}

    @contextmanager
    def connect(self, engine_id: EngineId) -> Iterator[socket.socket]:
        engine = self.engines.setdefault(engine_id, ResidentEngine(engine_id))
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=_converse, args=(theirs, engine, Watchdog(600, 0)), daemon=True)
        thread.start()
        with ours:
            yield ours
        thread.join(60)
        theirs.close()


class _Directory:
    """What a visit asks for its home: that of ``executor``."""

    home = Home()

    @staticmethod
    def of_worker() -> Home:
        return _Directory.home


@contextmanager
def executor(home: Home) -> Iterator[None]:
    """Visits go to the engines of this executor."""
    own = {"ResidentDirectory": _Directory, "spark_ancestors": lambda pid: ()}
    _Directory.home = home
    with (
        patch.multiple(visit, **own),
        patch.object(connection, "connect", lambda home, engine_id, memory=None: home.connect(engine_id)),
    ):
        yield


@dataclass
class Twice:
    """A partition that two executors work on; what they wrote, and which engine is built anew each time."""

    program: bytes
    engine_id: EngineId
    lasting: FakeStore = field(default_factory=FakeStore)
    rebuilt: FakeStore = field(default_factory=FakeStore)
    home: Home = field(default_factory=Home)

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command]) -> StepOutput:
        record = Record.of([_item(a) for a in arrivals], commands)
        found = _output(self.visit(self.home, self.lasting, record))
        self.visit(Home(), self.rebuilt, record)
        return found

    def visit(self, home: Home, store: FakeStore, record: Record) -> Any:
        with executor(home):
            result = Visit(StateLog(store, QUERY), self.program, self.engine_id).step(record)
        store.commit()
        return result


def _item(a: Arrival) -> tuple[Envelope, Any]:
    rows = 0 if a.batch is None else a.batch.num_rows
    data = b"" if a.batch is None or not rows else memoryview(blob.encode(a.batch))
    numbers = (rows, a.min_ts, a.max_ts, a.progress, a.copy, a.total, a.disorder)
    return Envelope(a.input, a.producer, 0, *numbers), data


def _output(message: Any) -> StepOutput:
    progress, first = message.head["places"]
    with pa.ipc.open_stream(message.body) as reader:
        return StepOutput({RESULT: RootOutput(reader.read_next_batch(), progress, first)}, 0, 0)


def run_twice(case: Case, manner: Manner) -> Iterator[tuple[int, Twice]]:
    """Take every step of a case on both executors; each stage's partitions after each step."""
    plan = local_host.plan_of(case, manner)
    if any("less what leaves" in n.describe() for n in local_host.nodes(plan)):
        manner = dataclasses.replace(manner, aligned=not manner.times)
    stages = [
        [
            Twice(
                pickle.dumps(Program(local_host._with_tables(planned, case), Plainly())),
                EngineId("q", "plan", s, k),
            )
            for k in range(planned.partitions)
        ]
        for s, planned in enumerate(plan.stages)
    ]
    steps, sequence = local_host.steps_of(plan.stages[0], case, manner), 0
    for number, step in enumerate(steps):
        commands = [
            Command(sequence + n + 1, "setting", {"name": name, "value": value})
            for n, (_, name, value) in enumerate(s for s in manner.settings if s[0] == number)
        ]
        if number + 1 == len(steps):
            commands.append(local_host._end(plan.stages[0], case, sequence + len(commands) + 1))
        sequence += len(commands)
        outputs = [t.step(arrivals, commands) for t, arrivals in zip(stages[0], step, strict=True)]
        for planned, partitions in zip(plan.stages[1:], stages[1:], strict=True):
            outputs = [
                t.step(local_host._exchanged(planned, outputs, k), commands) for k, t in enumerate(partitions)
            ]
        for twice in (t for stage in stages for t in stage):
            yield number, twice
