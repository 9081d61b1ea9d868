"""What Spark's state store keeps for a partition: the log that its engine can be rebuilt from.

One state variable, since opening one costs milliseconds a batch: a map from (step, piece) to bytes. It holds
each step's record as it arrived, cut in pieces of the size at which the state API is fastest; the newest
snapshot under a negative step; and, under a step of its own, the control: how many steps there were, which
entries exist, the engine's header.

Rebuilding is: a new engine, given the newest header, takes the steps from ``needs_from`` on again; or, while
a snapshot is still needed (the engine says so by needing the first step after it), the snapshot and the
steps since.

Spark makes the changes of a task's attempt durable together or not at all, so the log is always that of
a whole number of steps. Entries that the engine no longer needs are deleted during the next step, while the
engine computes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.errors import CatalogError, EngineError

PIECE = 256 << 10
"""Bytes a map entry: PySpark's state API moved 140-180 MB/s at this size, 56 MB/s at 4 MB."""
SNAPSHOT_AFTER = 64 << 20
"""Log bytes that are replayed rather than replaced by a snapshot, however small the engine's state."""
FORMAT = 1

_CONTROL = (-(1 << 62), 0)
"""The key of the control."""


class MapState(Protocol):
    """The part of pyspark's MapState that is used."""

    def getValue(self, key: Any) -> Any:
        """The row of a key or None."""

    def updateValue(self, key: Any, value: Any) -> None:
        """Replace it."""

    def removeKey(self, key: Any) -> None:
        """Delete it."""


@dataclass(frozen=True)
class Control:
    """What the log consists of. ``steps`` is (step, bytes) for each one logged, oldest first."""

    version: int = 0
    fingerprint: str = ""
    needs_from: int = 0
    snapshot: int | None = None
    snapshot_size: int = 0
    snapshot_raw: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    header: bytes = b""

    def encode(self) -> bytes:
        """As the state store keeps it: a line of JSON, then the header."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "header"}
        return json.dumps({"format": FORMAT, **fields}).encode() + b"\n" + self.header

    @staticmethod
    def decode(data: bytes) -> Control:
        """The inverse of ``encode``."""
        line, _, header = data.partition(b"\n")
        fields = json.loads(line)
        if fields.pop("format") != FORMAT:
            raise EngineError(
                f"the checkpoint's log is not of format {FORMAT}, which this version of Penstock reads; "
                "start the query with a new checkpoint, or with the version that wrote this one"
            )
        steps = tuple((step, size) for step, size in fields.pop("steps"))
        return Control(**fields, steps=steps, header=header)


@dataclass(frozen=True)
class Entry:
    """A logged step: its number, and the record as it arrived."""

    step: int
    record: memoryview


class StateLog:
    """The log of one partition, during one step."""

    def __init__(self, entries: MapState, fingerprint: str) -> None:
        self._entries = entries
        row = entries.getValue(_CONTROL)
        self.control = Control(fingerprint=fingerprint) if row is None else Control.decode(row[0])
        if self.control.fingerprint != fingerprint:
            raise CatalogError(
                "the checkpoint was written by another query, or with another number of partitions; "
                f"use a new checkpoint (it has {self.control.fingerprint}, this query is {fingerprint})"
            )

    def append(self, record: Sequence[bytes | memoryview]) -> None:
        """Log the arrivals of the step that is being taken, and delete what is no longer needed."""
        control = self.control
        size = self._write(control.version, record)
        self._trim()
        self.control = replace(self.control, steps=(*self.control.steps, (control.version, size)))

    def commit(self, header: bytes, needs_from: int) -> None:
        """The step was taken: the version goes up by one."""
        version = self.control.version + 1
        self.control = replace(self.control, version=version, header=header, needs_from=needs_from)
        self._write_control()

    def wants_snapshot(self, needs_from: int, state_bytes: int) -> bool:
        """Whether replaying the log would cost more than writing the state."""
        needed = sum(size for step, size in self.control.steps if step >= needs_from)
        return needed > max(SNAPSHOT_AFTER, 2 * state_bytes)

    def put_snapshot(self, data: memoryview, raw_size: int) -> None:
        """Store a snapshot of the version just committed; it replaces the log and any older snapshot."""
        control = self.control
        self._drop_snapshot()
        self._remove(control.steps)
        size = self._write(_snapshot_key(control.version), [data])
        self.control = replace(
            control, snapshot=control.version, snapshot_size=size, snapshot_raw=raw_size, steps=()
        )
        self._write_control()

    def base(self) -> tuple[int, bytes, memoryview]:
        """Where rebuilding starts: a version, its header, and a snapshot (empty if there is none)."""
        control = self.control
        if control.snapshot is not None and control.needs_from <= control.snapshot:
            return control.snapshot, b"", self._read(_snapshot_key(control.snapshot), control.snapshot_size)
        return control.needs_from, control.header, memoryview(b"")

    def entries(self) -> Iterator[Entry]:
        """The steps that a rebuilt engine has to take again, oldest first; not the one being taken."""
        for step, size in self.control.steps:
            if self.control.needs_from <= step < self.control.version:
                yield Entry(step, self._read(step, size))

    def _trim(self) -> None:
        control = self.control
        old = [s for s in control.steps if s[0] < control.needs_from]
        self._remove(old)
        self.control = replace(control, steps=control.steps[len(old) :])
        if control.snapshot is not None and control.needs_from > control.snapshot:
            self._drop_snapshot()

    def _drop_snapshot(self) -> None:
        if self.control.snapshot is not None:
            self._remove([(_snapshot_key(self.control.snapshot), self.control.snapshot_size)])
            self.control = replace(self.control, snapshot=None, snapshot_size=0, snapshot_raw=0)

    def _write_control(self) -> None:
        self._entries.updateValue(_CONTROL, (self.control.encode(),))

    def _write(self, step: int, parts: Sequence[bytes | memoryview]) -> int:
        data = b"".join(parts)
        for piece, start in enumerate(range(0, len(data), PIECE)):
            self._entries.updateValue((step, piece), (data[start : start + PIECE],))
        return len(data)

    def _read(self, step: int, size: int) -> memoryview:
        pieces = [self._entries.getValue((step, piece)) for piece in range(_pieces(size))]
        data = b"".join(p[0] for p in pieces if p is not None)
        if len(data) != size:
            found = f"{len(data)} of {size} bytes"
            raise EngineError(f"the checkpoint is damaged: entry {step} of the log has {found}")
        return memoryview(data)

    def _remove(self, steps: Sequence[tuple[int, int]]) -> None:
        for step, size in steps:
            for piece in range(_pieces(size)):
                self._entries.removeKey((step, piece))


def _pieces(size: int) -> int:
    return -(-size // PIECE)


def _snapshot_key(version: int) -> int:
    """Snapshots lie beside the steps, under negative numbers."""
    return -version - 1
