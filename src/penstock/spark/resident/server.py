"""A resident engine: one partition's engine behind a socket.

It serves one relay at a time; a second attempt at the same partition waits until the first has closed its
connection. ``version`` is the number of steps its state contains, None
while the state is not valid: before the first BUILD, and from the start of a step until it has succeeded;
``digest`` is that of their records. A relay with another version or digest rebuilds it, but for one that asks
for the last step again: it gets the answers of that step (:mod:`penstock.spark.resident.last_step`).
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.engine.stage import StepOutput
from penstock.errors import EngineError, PenstockError
from penstock.measurement import Kind as EntityKind
from penstock.measurement import Property, Reading, encode, under
from penstock.spark.resident.directory import EngineId, Process, too_large
from penstock.spark.resident.last_step import LastStep
from penstock.spark.resident.program import EngineLike, Program
from penstock.spark.settings import LIVENESS_POLL_S
from penstock.spark.wire.protocol import Kind, Message, receive, send
from penstock.spark.wire.record import SNAPSHOT_TAKEN, Record, chained

_CODEC = "zstd"

Reply = tuple[Kind, Any, Sequence[Any]]


class Watchdog(threading.Thread):
    """Ends the process when its host, its JVM or the relay's daemon has ended, or when it is idle.

    Also when the relay that waits for a result is gone: its task was killed, and nobody will take the step.
    """

    def __init__(self, idle_seconds: float, host: int) -> None:
        super().__init__(daemon=True)
        self.idle_seconds = idle_seconds
        self.host = host
        self.watched: tuple[Process, ...] = ()
        self.busy = False
        self.awaited_by: socket.socket | None = None
        self.last_used = time.monotonic()

    def run(self) -> None:
        while self._wanted():
            time.sleep(LIVENESS_POLL_S)
        os._exit(0)

    def _wanted(self) -> bool:
        if os.getppid() != self.host or not all(p.alive for p in self.watched):
            return False
        awaited_by = self.awaited_by
        if awaited_by is not None and _has_closed(awaited_by) and awaited_by is self.awaited_by:
            return False
        return self.busy or time.monotonic() - self.last_used < self.idle_seconds

    def use(self, busy: bool) -> None:
        self.busy = busy
        self.last_used = time.monotonic()

    @contextmanager
    def answering(self, connection: socket.socket) -> Iterator[None]:
        """While a relay waits for the answer to its message."""
        self.awaited_by = connection
        try:
            yield
        finally:
            self.awaited_by = None


def _has_closed(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


class ResidentEngine:
    """The engine of one partition, and the handlers of messages."""

    def __init__(self, engine_id: EngineId) -> None:
        self.engine_id = engine_id
        self.version: int | None = None
        self.digest = ""
        self.last: LastStep | None = None
        self.steps_again = 0
        self.program: Program | None = None
        self.engine: EngineLike | None = None
        self.replayed = 0
        self.rebuild_began = self.rebuild_ended = 0.0

    def answer(self, message: Message) -> Reply | None:
        """Handle a message and return the reply, if there is one. After a failure there is no version."""
        handle = {
            Kind.HELLO: self._hello,
            Kind.BUILD: self._build,
            Kind.REPLAY: self._replay,
            Kind.STEP: self._step,
            Kind.SNAPSHOT: self._snapshot,
            Kind.TABLES: self._tables,
        }[message.kind]
        return handle(message)

    def _hello(self, message: Message) -> Reply:
        """Head: a version with the digest of the records before it, and the record of the step to take."""
        again = self.last is not None and self.last.is_of(message.head)
        return (
            Kind.HELLO,
            {"version": self.version, "digest": self.digest, "again": again, "pid": os.getpid()},
            (),
        )

    def _build(self, message: Message) -> None:
        """Head: the pickled program, the version to start at, the header (not with a snapshot)."""
        self.version = self.last = None
        self.replayed, self.rebuild_began = 0, time.perf_counter()
        head = message.head
        self.program = pickle.loads(head["program"])
        self.engine = self.program.build(replace(self.program.stage, partition=self.engine_id.partition))
        if len(message.body):
            self.engine.restore(pa.decompress(message.body, head["snapshot_size"], _CODEC, asbytes=True))
        if head["header"]:
            self.engine.restore_header(head["header"], bytes(head["tables"]))
        self.version = head["version"]
        self.rebuild_ended = time.perf_counter()

    def _replay(self, message: Message) -> None:
        self._advance(message.head["version"], message.body)
        self.replayed += 1
        self.rebuild_ended = time.perf_counter()

    def _step(self, message: Message) -> Reply:
        if self.last is not None and self.last.is_of(message.head):
            self.steps_again += 1
            return self.last.answer(Kind.RESULT)
        started = time.perf_counter()
        self.last = None
        output = self._advance(message.head["version"], message.body)
        assert self.engine is not None and self.program is not None
        self.digest = chained(message.head["base"], message.head["record"])
        if self.program.late is not None:
            own = f"s{self.engine_id.stage}p{self.engine_id.partition}"
            step = f"{message.head['query']}-{own}v{message.head['version']}"
            self.program.late.write(output.only.late, step)
        places, parts = self.program.destination(output, self.engine_id.partition)
        self.last = LastStep.of(message.head)
        kept = self.last.keep(parts)
        seconds = time.perf_counter() - started
        head = {
            "needs_from": output.needs_from,
            "replay_from": output.replay_from,
            "header": self.engine.header(),
            "tables": self.engine.tables_version(),
            "measured": encode([*self.engine.measure(), *self._measure(seconds)]),
            "places": places,
        }
        return self.last.note((Kind.RESULT, head, kept))

    def _advance(self, version: int, body: memoryview) -> StepOutput:
        if version != self.version or self.engine is None or self.program is None:
            raise EngineError(f"a step for version {version} reached an engine at version {self.version}")
        self.version = None
        record = Record.parse(body)
        output = self.engine.step(self.program.arrivals(record), record.commands)
        self.version = version + 1
        return output

    def _tables(self, message: Message) -> Reply:
        assert self.engine is not None and self.last is not None
        if self.last.has(Kind.TABLES):
            return self.last.answer(Kind.TABLES)
        return self.last.note((Kind.TABLES, {}, self.last.keep([memoryview(self.engine.tables())])))

    def _snapshot(self, message: Message) -> Reply:
        """Head: whether of the whole state, and the most bytes; of a larger one only the size returns."""
        assert self.engine is not None and self.last is not None
        if self.last.has(Kind.SNAPSHOT):
            return self.last.answer(Kind.SNAPSHOT)
        taken = self.engine.snapshot(message.head["whole"], message.head["most"])
        if taken.data:
            self.digest = chained(self.digest, SNAPSHOT_TAKEN)
        packed = [memoryview(pa.compress(taken.data, _CODEC))] if taken.data else []
        head = {"size": taken.size, "start": taken.start}
        return self.last.note((Kind.SNAPSHOT, head, self.last.keep(packed)))

    def too_large(self) -> PenstockError:
        """The error for an engine that the machine has no memory for; its state is dropped."""
        self.engine = self.version = self.last = None
        return too_large(self.engine_id)

    def _measure(self, seconds: float) -> Iterator[Reading]:
        own = [
            Reading(Property.STEP_SECONDS, seconds),
            Reading(Property.REPLAYED_STEPS, self.replayed),
            Reading(Property.STEPS_AGAIN, self.steps_again),
            Reading(Property.LAST_STEP_BYTES, 0 if self.last is None else self.last.in_memory),
            Reading(Property.REBUILD_SECONDS, self.rebuild_ended - self.rebuild_began),
            Reading(Property.PID, os.getpid(), socket.gethostname()),
            Reading(Property.LATE_ROWS_KEPT, self.program is not None and self.program.late is not None),
        ]
        return under("engine", EntityKind.ENGINE, own)


def serve(listening: socket.socket, engine: ResidentEngine, watchdog: Watchdog) -> None:
    """Answer relays, one after another; never returns."""
    watchdog.start()
    while True:
        connection, _ = listening.accept()
        watchdog.use(busy=True)
        with connection:
            _converse(connection, engine, watchdog)
        watchdog.use(busy=False)


def _converse(connection: socket.socket, engine: ResidentEngine, watchdog: Watchdog) -> None:
    """Answer one relay until it closes the connection or a message fails."""
    try:
        while True:
            message = receive(connection)
            if message.kind is Kind.HELLO:
                watchdog.watched = message.head["watch"]
            with watchdog.answering(connection):
                reply = _attempt(engine, message)
            if reply is not None:
                send(connection, *reply)
    except (ConnectionError, TimeoutError):
        return


def _attempt(engine: ResidentEngine, message: Message) -> Reply | None:
    try:
        return engine.answer(message)
    except MemoryError:
        return Kind.FAILED, {"error": engine.too_large(), "trace": ""}, ()
    except PenstockError as error:
        return Kind.FAILED, {"error": error, "trace": traceback.format_exc()}, ()
    except Exception as error:
        sentence = f"the engine failed: {type(error).__name__}: {error}"
        return Kind.FAILED, {"error": EngineError(sentence), "trace": traceback.format_exc()}, ()
