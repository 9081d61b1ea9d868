"""The log of a partition in Spark's state store, from which its engine can be rebuilt.

One state variable, since opening one costs milliseconds per batch: a map from (step, piece) to bytes. It has
each step's record as it arrived, cut in pieces of the size at which the state API is fastest; the newest
snapshot under a negative step; the static tables as the newest header has them, rewritten when they change;
and, under a step of its own, the control: how many steps there were, which
entries exist, a digest of all records so far, the engine's header, and who wrote it.

To rebuild an engine, a new one gets the newest header and replays the steps from ``needs_from`` on. While a
snapshot is still needed (``needs_from`` is at most its version) it first restores the snapshot; of the steps
from ``needs_from`` on, those before the snapshot are for the operators that are not in it.

Spark makes the changes of a task's attempt durable together or not at all, so the log is always that of
a whole number of steps. Entries that the engine no longer needs are deleted during the next step, while the
engine computes. A step on which the state does not depend once it is taken has no entry.

Spark may take a step twice, on two executors, commit both, and go on from either: every action of a
``foreachBatch`` runs the stage again, and so does speculation. So what is written at a version follows from
the records alone: when a snapshot is taken, of what, and what is deleted. Should the bytes of two snapshots
of one state differ all the same, each entry says its own size and checksum, so that of one attempt stands for
that of the other. If entries that the control names are missing or damaged, a rebuild looks for a snapshot
and the steps since among the entries that there are.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

from penstock import __version__
from penstock.errors import CatalogError, EngineError
from penstock.measurement import Kind, Property, Reading, encode, under
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.settings import LOG_PIECE_BYTES, SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE
from penstock.spark.wire.record import SNAPSHOT_TAKEN, chained

FORMAT = 7
"""Raised when a log of the version before can no longer be read."""

_CONTROL = (-(1 << 62), 0)
"""The key of the control."""
_TABLES = -(1 << 61)
"""The step under which the static tables are stored."""
_ENTRY = struct.Struct("<4sQIqQ")
"""The beginning of an entry: magic, bytes that follow, their checksum; of a snapshot, the first step that is
still replayed, and its bytes when it is decompressed.
"""
_MAGIC = b"PSE1"


class MapState(Protocol):
    """The part of pyspark's MapState that is used."""

    def getValue(self, key: Any) -> Any:
        """The row of a key or None."""

    def updateValue(self, key: Any, value: Any) -> None:
        """Replace it."""

    def removeKey(self, key: Any) -> None:
        """Delete it."""

    def keys(self) -> Iterable[Any]:
        """All keys."""


class Stored(NamedTuple):
    """An entry of the log: its step, and the bytes of its content."""

    step: int
    size: int


class Content(NamedTuple):
    """An entry as read. Of a snapshot: ``start``, the first step that is still replayed, and its raw size."""

    data: memoryview
    start: int
    raw: int


class Base(NamedTuple):
    """Where a rebuild starts: a version, its header, and a snapshot with its size when it is decompressed."""

    version: int
    header: bytes
    snapshot: memoryview
    raw: int = 0


class Wanted(NamedTuple):
    """A snapshot that is wanted: of the whole state or of a part, if it has at most so many bytes."""

    whole: bool
    most: int


class Damaged(EngineError):
    """An entry of the log is missing or not what was written."""


@dataclass(frozen=True)
class Control:
    """The content of the log. ``steps`` are the logged ones, oldest first.

    ``digest``: of the records of all steps, also those that are not logged, and of when snapshots were taken.
    ``state_bytes``: of the state when a snapshot was last taken or considered, with the steps that a rebuild
    would have replayed.
    """

    fingerprint: Fingerprint
    version: int = 0
    needs_from: int = 0
    digest: str = ""
    snapshot: Stored | None = None
    state_bytes: int = 0
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


def _damaged(what: str) -> Damaged:
    return Damaged(f"the checkpoint is damaged: {what}; restore the checkpoint from a copy, or use a new one")


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

    def commit(self, header: bytes, needs_from: int, record: str = "") -> None:
        """The step with the record of this digest was taken: the version increases by one."""
        version, digest = self.control.version + 1, chained(self.control.digest, record)
        taken = replace(self.control, version=version, digest=digest, header=header, needs_from=needs_from)
        self.control = taken
        self._write_control()

    def wanted_snapshot(self, needs_from: int, replay_from: int) -> Wanted | None:
        """A snapshot, if replaying the log would cost more than loading it, as far as is known.

        This bounds the log by twice the state plus a small constant. How large the state is, the log knows
        from the last snapshot, and learns from the next: one that turns out larger than it is worth is not
        stored (``note_state``). A partial snapshot must leave at most half to be replayed, or the next one
        would follow at once.
        """
        logged, rest = self._bytes_from(needs_from), self._bytes_from(replay_from)
        most = max(SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE * self.control.state_bytes)
        if logged <= most:
            return None
        whole = 2 * rest > most
        return Wanted(whole, logged // SNAPSHOT_LOG_PER_STATE - (0 if whole else rest))

    def _bytes_from(self, step: int) -> int:
        return sum(s.size for s in self.control.steps if s.step >= step)

    def note_state(self, raw_size: int, replay_from: int) -> None:
        """A snapshot of these bytes, with the steps from ``replay_from`` on, would stand for the log."""
        self.control = replace(self.control, state_bytes=raw_size + self._bytes_from(replay_from))

    def put_snapshot(self, data: memoryview, raw_size: int, start: int) -> None:
        """Store a snapshot of the version just committed; delete the previous one and older steps."""
        self._drop_snapshot()
        # An engine that rests on a snapshot which the log does not have is rebuilt.
        digest = chained(self.control.digest, SNAPSHOT_TAKEN)
        self.control = replace(self.control, needs_from=start, digest=digest)
        self.trim()
        stored = self._write(_snapshot_key(self.control.version), [data], start, raw_size)
        self.control = replace(self.control, snapshot=stored)
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
        return b"" if self.control.tables is None else bytes(self._read(_TABLES).data)

    def base(self) -> Base:
        """Where rebuilding starts."""
        control = self.control
        snapshot = control.snapshot
        if snapshot is not None and control.needs_from <= _snapshot_key(snapshot.step):
            found = self._read(snapshot.step)
            return Base(control.needs_from, b"", found.data, found.raw)
        return Base(control.needs_from, control.header, memoryview(b""))

    def entries(self) -> Iterator[Entry]:
        """The steps that a rebuilt engine must replay, oldest first, without the one being taken."""
        for stored in self.control.steps:
            if self.control.needs_from <= stored.step < self.control.version:
                yield Entry(stored.step, self._read(stored.step).data)

    def repaired(self) -> Iterator[StateLog]:
        """The same log from other bases that its entries have: snapshots, newest first, then its beginning.

        An older base is as good if all steps since are there; their records are read when they are replayed.
        """
        there = {step for step, piece in self._entries.keys() if piece == 0}
        for snapshot in [*sorted(step for step in there if self._is_snapshot(step)), None]:
            start = 0 if snapshot is None else self._read(snapshot).start
            if there.issuperset(range(start, self.control.version)):
                with suppress(Damaged):
                    yield self._at(start, snapshot)

    def _is_snapshot(self, step: int) -> bool:
        """Whether a whole snapshot of this version or an earlier one is under a step."""
        if not -1 - self.control.version <= step < 0:
            return False
        try:
            return bool(self._read(step).raw)
        except Damaged:
            return False

    def _at(self, start: int, snapshot: int | None) -> StateLog:
        """The same log with another base."""
        version, its = self.control.version, copy(self)
        steps = tuple(Stored(step, self._size(step)) for step in range(start, version))
        kept = None if snapshot is None else Stored(snapshot, self._size(snapshot))
        own = (s for s in self.control.steps if s.step >= version)
        its.control = replace(self.control, needs_from=start, steps=(*steps, *own), snapshot=kept, header=b"")
        return its

    def adopt(self, other: StateLog) -> None:
        """Go on from the base of another, from which the engine was rebuilt."""
        self.control = other.control

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
            self.control = replace(self.control, snapshot=None)

    def _write_control(self) -> None:
        self._entries.updateValue(_CONTROL, (self.control.encode(),))

    def _write(
        self, step: int, parts: Sequence[bytes | memoryview], start: int = 0, raw_size: int = 0
    ) -> Stored:
        content = b"".join(parts)
        data = (
            _ENTRY.pack(_MAGIC, len(content), _checksum(content, start, raw_size), start, raw_size) + content
        )
        for piece, at in enumerate(range(0, len(data), LOG_PIECE_BYTES)):
            self._entries.updateValue((step, piece), (data[at : at + LOG_PIECE_BYTES],))
        return Stored(step, len(content))

    def _read(self, step: int) -> Content:
        first = self._piece(step, 0)
        size, checksum, start, raw_size = _head(step, first)
        pieces = [first]
        while len(pieces) < _pieces(size) and pieces[-1]:
            pieces.append(self._piece(step, len(pieces)))
        data = memoryview(b"".join(pieces))[_ENTRY.size :]
        if len(data) != size:
            raise _damaged(f"entry {step} of the log has {len(data)} of {size} bytes")
        if _checksum(data, start, raw_size) != checksum:
            raise _damaged(f"entry {step} of the log has a wrong checksum")
        return Content(data, start, raw_size)

    def _size(self, step: int) -> int:
        return _head(step, self._piece(step, 0))[0]

    def _piece(self, step: int, piece: int) -> bytes:
        row = self._entries.getValue((step, piece))
        return b"" if row is None else bytes(row[0])

    def _remove(self, steps: Sequence[Stored]) -> None:
        for stored in steps:
            for piece in range(_pieces(stored.size)):
                self._entries.removeKey((stored.step, piece))


def _head(step: int, first: bytes) -> tuple[int, int, int, int]:
    """Size, checksum, first step that is replayed and decompressed size, from the first piece of an entry."""
    if not first:
        raise _damaged(f"entry {step} of its log is missing")
    if len(first) < _ENTRY.size or first[:4] != _MAGIC:
        raise _damaged(f"entry {step} of its log is not readable")
    _, size, checksum, start, raw_size = _ENTRY.unpack(first[: _ENTRY.size])
    return size, checksum, start, raw_size


def _checksum(content: bytes | memoryview, start: int, raw_size: int) -> int:
    return zlib.crc32(content, zlib.crc32(struct.pack("<qQ", start, raw_size)))


def _pieces(size: int) -> int:
    """The pieces of an entry whose content has so many bytes."""
    return -(-(_ENTRY.size + size) // LOG_PIECE_BYTES)


def _snapshot_key(version: int) -> int:
    """Snapshots are stored under negative step numbers; this maps versions to them, and back."""
    return -version - 1
