"""One step of one partition: the conversation with its engine, and the changes to its log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.engine.command import Command
from penstock.errors import EngineError
from penstock.spark.relay.result import NOTICE
from penstock.spark.relay.state_log import Damaged, StateLog
from penstock.spark.resident import connection
from penstock.spark.resident.directory import EngineId, ResidentDirectory, spark_ancestors
from penstock.spark.settings import STEP_ATTEMPTS, STEP_RETRY_S
from penstock.spark.wire.protocol import Kind, Message, send
from penstock.spark.wire.record import Envelope, Record, command_from_json, digest_of, is_command

if TYPE_CHECKING:
    import pandas as pd


def received(
    frames: Iterable[pd.DataFrame],
) -> tuple[list[tuple[Envelope, bytes]], list[Command], list[str]]:
    """The blobs of a batch, its commands, and what is to be passed on."""
    items, commands, notices = [], [], []
    for frame in frames:
        for envelope, data in zip(frame["envelope"], frame["blob"], strict=True):
            if envelope.startswith(NOTICE):
                notices.append(envelope)
            elif is_command(envelope):
                commands.append(command_from_json(envelope))
            else:
                items.append((Envelope.from_json(envelope), data))
    return items, commands, notices


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
        digest = digest_of(parts)
        for attempt in range(1, STEP_ATTEMPTS + 1):
            try:
                return self._attempt(parts, digest)
            except (ConnectionError, FileNotFoundError) as error:
                if attempt == STEP_ATTEMPTS:
                    lost = f"the engine of {self.engine_id} was lost {attempt} times in one step"
                    raise EngineError(lost) from error
                time.sleep(STEP_RETRY_S * attempt)
        raise AssertionError("unreachable")

    def _attempt(self, parts: list[bytes | memoryview], digest: str) -> Message:
        control = self.log.control
        version = control.version
        step = {"version": version, "base": control.digest, "record": digest}
        with connection.connect(self.home, self.engine_id, self.memory) as sock:
            watch = spark_ancestors(os.getpid())
            hello = connection.ask(sock, Kind.HELLO, {**step, "watch": watch}).head
            # An engine that has taken this very step before, for another attempt, returns the same again.
            if not hello["again"] and (hello["version"], hello["digest"]) != (version, control.digest):
                self._rebuild(sock)
            given = [] if hello["again"] else parts
            # Files of late rows are the same after a restart, which makes a new plan identity.
            query = f"{self.engine_id.query_id}-{self.log.control.fingerprint.plan}"
            send(sock, Kind.STEP, {**step, "query": query}, given)
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
        self.log.commit(result.head["header"], result.head["needs_from"], digest)
        if snapshot is not None:
            self.log.put_snapshot(snapshot.body, snapshot.head["size"], snapshot.head["start"])
        return result

    def _log(self, parts: list[bytes | memoryview]) -> None:
        """Log the step; it is logged once, however often it is attempted."""
        if not self.logged:
            self.log.append(parts)
            self.logged = True

    def _snapshot(self, sock: Any, result: Message) -> Message | None:
        """The snapshot that is to be stored, if one is wanted and worth its size."""
        replay_from = result.head["replay_from"]
        wanted = self.log.wanted_snapshot(result.head["needs_from"], replay_from)
        if wanted is None:
            return None
        taken = connection.ask(sock, Kind.SNAPSHOT, wanted._asdict())
        self.log.note_state(taken.head["size"], taken.head["start"])
        return taken if taken.head["size"] <= wanted.most else None

    def _rebuild(self, sock: Any) -> None:
        """Bring the engine to the version of the log: the base, then every step since.

        If an entry is damaged, from another base, if there is one with all steps since.
        """
        try:
            self._replay(sock, self.log)
        except Damaged as damage:
            for other in self.log.repaired():
                with suppress(Damaged):
                    self._replay(sock, other)
                    self.log.adopt(other)
                    return
            raise damage from None

    def _replay(self, sock: Any, log: StateLog) -> None:
        """Send what a rebuild from the base of a log needs."""
        version, header, snapshot, raw_size = log.base()
        tables = log.tables() if header else b""
        head = {"program": self.program, "version": version, "header": header, "tables": tables}
        send(sock, Kind.BUILD, {**head, "snapshot_size": raw_size}, [snapshot])
        for entry in log.entries():
            send(sock, Kind.REPLAY, {"version": entry.step}, [entry.record])
