"""The log of a partition in Spark's state store, from which its engine can be rebuilt.

One state variable, since opening one costs milliseconds per batch: a map from (step, piece) to bytes. It has
each step's record as it arrived, cut in pieces of the size at which the state API is fastest; the newest
snapshot under a negative step; the static tables as the newest header has them, rewritten when they change;
and, under a step of its own, the control: how many steps there were, which
entries exist with their sizes and checksums, the engine's header, and who wrote it.

To rebuild an engine, a new one gets the newest header and replays the steps from ``needs_from`` on. While a
snapshot is still needed (``needs_from`` is at most its version) it first restores the snapshot; of the steps
from ``needs_from`` on, those before the snapshot are for the operators that are not in it.

Spark makes the changes of a task's attempt durable together or not at all, so the log is always that of
a whole number of steps. Entries that the engine no longer needs are deleted during the next step, while the
engine computes. A step on which the state does not depend once it is taken has no entry.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

from penstock import __version__
from penstock.errors import CatalogError, EngineError
from penstock.measurement import Kind, Property, Reading, encode, under
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.settings import LOG_PIECE_BYTES, SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE

FORMAT = 6
"""Raised when a log of the version before can no longer be read."""

_CONTROL = (-(1 << 62), 0)
"""The key of the control."""
_TABLES = -(1 << 61)
"""The step under which the static tables are stored."""


class MapState(Protocol):
    """The part of pyspark's MapState that is used."""

    def getValue(self, key: Any) -> Any:
        """The row of a key or None."""

    def updateValue(self, key: Any, value: Any) -> None:
        """Replace it."""

    def removeKey(self, key: Any) -> None:
        """Delete it."""


class Stored(NamedTuple):
    """An entry of the log: its step, its bytes, their checksum."""

    step: int
    size: int
    checksum: int


@dataclass(frozen=True)
class Control:
    """The content of the log. ``steps`` are the logged ones, oldest first."""

    fingerprint: Fingerprint
    version: int = 0
    needs_from: int = 0
    snapshot: Stored | None = None
    snapshot_raw: int = 0
    steps: tuple[Stored, ...] = ()
    tables: Stored | None = None
    tables_version: int | None = None
    header: bytes = b""

    def encode(self) -> bytes:
        """The bytes in the state store: a line of JSON, then the header."""
        fields = asdict(self)
        header: bytes = fields.pop("header")
        fixed = {"format": FORMAT, "penstock": __version__, "header": zlib.crc32(header)}
        return json.dumps({**fixed, **fields}).encode() + b"\n" + header

    @staticmethod
    def decode(data: bytes) -> Control:
        line, _, header = data.partition(b"\n")
        try:
            fields = json.loads(line)
        except ValueError:
            raise _damaged("its control is not readable") from None
        check_format(fields)
        if fields.pop("header") != zlib.crc32(header):
            raise _damaged("the header of its log has a wrong checksum")
        snapshot, tables = fields.pop("snapshot"), fields.pop("tables", None)
        return Control(
            Fingerprint.from_json(fields.pop("fingerprint")),
            snapshot=Stored(*snapshot) if snapshot else None,
            tables=Stored(*tables) if tables else None,
            steps=tuple(Stored(*s) for s in fields.pop("steps")),
            header=header,
            **fields,
        )


def check_format(fields: dict[str, Any]) -> None:
    """Reject a checkpoint of another log format, naming the version that wrote it; remove those fields."""
    format_, writer = fields.pop("format", None), fields.pop("penstock", "before 0.1.0")
    if format_ != FORMAT:
        raise CatalogError(
            f"the checkpoint was written by Penstock {writer} (log format {format_}), and this is Penstock "
            f"{__version__} (log format {FORMAT}); start the query with that version, or use a new checkpoint"
        )


def _damaged(what: str) -> EngineError:
    return EngineError(
        f"the checkpoint is damaged: {what}; restore the checkpoint from a copy, or use a new one"
    )


@dataclass(frozen=True)
class Entry:
    """A logged step: its number, and the record as it arrived."""

    step: int
    record: memoryview


class StateLog:
    """The log of one partition, during one step.

    Without a log no step was taken, whatever the batch's number: a source may have no tasks in a query's
    first batches (Spark's rate source, Kafka from the latest offsets). The log of partition 0 exists as soon
    as any query has taken a step, so at least one partition detects a checkpoint of another query.
    """

    def __init__(self, entries: MapState, fingerprint: Fingerprint) -> None:
        self._entries = entries
        row = entries.getValue(_CONTROL)
        self.control = Control(fingerprint) if row is None else Control.decode(row[0])
        fingerprint.check(self.control.fingerprint)

    def append(self, record: Sequence[bytes | memoryview]) -> None:
        """Log the arrivals of the step that is being taken, and delete what is no longer needed."""
        stored = self._write(self.control.version, record)
        self.trim()
        self.control = replace(self.control, steps=(*self.control.steps, stored))

    @property
    def depends_on_steps(self) -> bool:
        """Whether a rebuild replays steps; if none was needed so far, the next one may not be either."""
        return self.control.needs_from < self.control.version

    def commit(self, header: bytes, needs_from: int) -> None:
        """Record that the step was taken: the version increases by one."""
        version = self.control.version + 1
        self.control = replace(self.control, version=version, header=header, needs_from=needs_from)
        self._write_control()

    def wanted_snapshot(self, needs_from: int, replay_from: int, state_bytes: int) -> str | None:
        """``"partial"`` or ``"whole"`` if replaying the log would cost more than writing the state, or None.

        This bounds the log by twice the state plus a small constant. A partial snapshot must leave at most
        half of that to be replayed, or the next one would follow at once.
        """
        most = max(SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE * state_bytes)
        if self._bytes_from(needs_from) <= most:
            return None
        return "partial" if 2 * self._bytes_from(replay_from) <= most else "whole"

    def _bytes_from(self, step: int) -> int:
        return sum(s.size for s in self.control.steps if s.step >= step)

    def put_snapshot(self, data: memoryview, raw_size: int, start: int) -> None:
        """Store a snapshot of the version just committed; delete the previous one and older steps."""
        self._drop_snapshot()
        self.control = replace(self.control, needs_from=start)
        self.trim()
        stored = self._write(_snapshot_key(self.control.version), [data])
        self.control = replace(self.control, snapshot=stored, snapshot_raw=raw_size)
        self._write_control()

    def measured(self) -> bytes:
        """The sizes of what a rebuild reads, as readings of its engine."""
        snapshot = self.control.snapshot
        own = [
            Reading(Property.LOG_BYTES, self._bytes_from(self.control.needs_from)),
            Reading(Property.SNAPSHOT_BYTES, 0 if snapshot is None else snapshot.size),
        ]
        return encode(under("engine", Kind.ENGINE, own))

    def put_tables(self, version: int, data: memoryview) -> None:
        """Store the tables that go with the header of the step being taken."""
        if self.control.tables is not None:
            self._remove([self.control.tables])
        self.control = replace(self.control, tables=self._write(_TABLES, [data]), tables_version=version)

    def tables(self) -> bytes:
        """The tables that go with the header; empty if there are none, or no step was taken."""
        return b"" if self.control.tables is None else bytes(self._read(self.control.tables))

    def base(self) -> tuple[int, bytes, memoryview]:
        """Where rebuilding starts: a version, its header, and a snapshot (empty if there is none)."""
        control = self.control
        snapshot = control.snapshot
        if snapshot is not None and control.needs_from <= _snapshot_key(snapshot.step):
            return control.needs_from, b"", self._read(snapshot)
        return control.needs_from, control.header, memoryview(b"")

    def entries(self) -> Iterator[Entry]:
        """The steps that a rebuilt engine must replay, oldest first, without the one being taken."""
        for stored in self.control.steps:
            if self.control.needs_from <= stored.step < self.control.version:
                yield Entry(stored.step, self._read(stored))

    def trim(self) -> None:
        """Delete what is no longer needed."""
        control = self.control
        old = [s for s in control.steps if s.step < control.needs_from]
        self._remove(old)
        self.control = replace(control, steps=control.steps[len(old) :])
        if control.snapshot is not None and control.needs_from > _snapshot_key(control.snapshot.step):
            self._drop_snapshot()

    def _drop_snapshot(self) -> None:
        if self.control.snapshot is not None:
            self._remove([self.control.snapshot])
            self.control = replace(self.control, snapshot=None, snapshot_raw=0)

    def _write_control(self) -> None:
        self._entries.updateValue(_CONTROL, (self.control.encode(),))

    def _write(self, step: int, parts: Sequence[bytes | memoryview]) -> Stored:
        data = b"".join(parts)
        for piece, start in enumerate(range(0, len(data), LOG_PIECE_BYTES)):
            self._entries.updateValue((step, piece), (data[start : start + LOG_PIECE_BYTES],))
        return Stored(step, len(data), zlib.crc32(data))

    def _read(self, stored: Stored) -> memoryview:
        pieces = [self._entries.getValue((stored.step, piece)) for piece in range(_pieces(stored.size))]
        data = b"".join(p[0] for p in pieces if p is not None)
        if len(data) != stored.size:
            raise _damaged(f"entry {stored.step} of the log has {len(data)} of {stored.size} bytes")
        if zlib.crc32(data) != stored.checksum:
            raise _damaged(f"entry {stored.step} of the log has a wrong checksum")
        return memoryview(data)

    def _remove(self, steps: Sequence[Stored]) -> None:
        for stored in steps:
            for piece in range(_pieces(stored.size)):
                self._entries.removeKey((stored.step, piece))


def _pieces(size: int) -> int:
    return -(-size // LOG_PIECE_BYTES)


def _snapshot_key(version: int) -> int:
    """Snapshots are stored under negative step numbers; this maps versions to them, and back."""
    return -version - 1
