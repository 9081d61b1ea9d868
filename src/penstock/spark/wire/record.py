"""The input of one step of one engine: commands, envelopes and blobs, as one sequence of bytes.

The same bytes go to the resident engine and, in pieces, into the state log, so that replaying a logged
step is exactly the step. The layout is stable across versions of Penstock::

    4 bytes magic | 4 bytes length of head | head | the blobs, one after another

The head is a JSON object: ``commands`` is a list of [sequence, kind, payload], ``arrivals`` one of [envelope,
bytes of its blob].
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

import pyarrow as pa

from penstock.engine.command import Command
from penstock.errors import EngineError

_MAGIC = b"PSR2"
_FRAME = struct.Struct("<4sI")

Bytes = bytes | memoryview

PRODUCER, PROGRESS = "__producer", "__progress"
"""The columns of a row that reports a query's progress to another one: partition and ticks."""


@dataclass(frozen=True, order=True)
class Envelope:
    """The origin of a blob and its producer's progress; ordered as arrivals are processed."""

    input: str
    producer: int
    piece: int = 0
    rows: int = 0
    min_ts: int | None = None
    max_ts: int | None = None
    progress: int | None = None
    copy: bool = False
    total: int | None = None
    disorder: int = 0
    epochs: list[list[int]] | None = None

    def to_json(self) -> str:
        """The text that is sent beside the blob."""
        return json.dumps([getattr(self, f.name) for f in fields(self)])

    @staticmethod
    def from_json(text: str) -> Envelope:
        return Envelope(*json.loads(text))

    @property
    def place(self) -> tuple[str, int, int]:
        """The sort key of arrivals, so that results do not depend on Spark's order."""
        return self.input, self.producer, self.piece


@dataclass(frozen=True)
class Record:
    """The arrivals of a step, and the commands that are applied before them."""

    items: tuple[tuple[Envelope, Bytes], ...]
    commands: tuple[Command, ...] = ()

    @staticmethod
    def of(items: Iterable[tuple[Envelope, Bytes]], commands: Iterable[Command] = ()) -> Record:
        """A record with arrivals ordered by input, producer and piece, and commands in sequence."""
        return Record(
            tuple(sorted(items, key=lambda item: item[0].place)),
            tuple(sorted(commands, key=lambda command: command.sequence)),
        )

    def parts(self) -> list[Bytes]:
        """The bytes, without copying a blob."""
        commands = [[c.sequence, c.kind, c.payload] for c in self.commands]
        arrivals = [[e.to_json(), len(blob)] for e, blob in self.items]
        head = json.dumps({"commands": commands, "arrivals": arrivals}).encode()
        return [_FRAME.pack(_MAGIC, len(head)) + head, *(blob for _, blob in self.items)]

    @staticmethod
    def parse(data: Bytes) -> Record:
        """The record in the bytes; its blobs are views of them."""
        view = memoryview(data)
        if len(view) < _FRAME.size or bytes(view[:4]) != _MAGIC:
            raise EngineError("a logged step is not one that this version of Penstock wrote")
        start = _FRAME.size + _FRAME.unpack(view[: _FRAME.size])[1]
        head, items = json.loads(bytes(view[_FRAME.size : start])), []
        for envelope, size in head["arrivals"]:
            items.append((Envelope.from_json(envelope), view[start : start + size]))
            start += size
        if start != len(view):
            raise EngineError("a logged step is truncated")
        return Record(tuple(items), tuple(Command(*c) for c in head["commands"]))


SNAPSHOT_TAKEN = "snapshot"
"""In place of a record's digest: a snapshot was taken after the step."""


def digest_of(parts: Iterable[Bytes]) -> str:
    """The digest of a record's bytes."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.hexdigest()


def chained(digest: str, record: str) -> str:
    """The digest of all records: of those before by their digest, and of one more by its own."""
    return digest_of([(digest + record).encode()])


def binary_column(blobs: list[pa.Buffer]) -> pa.Array:
    """Blobs as an Arrow column; a single one is not copied."""
    if len(blobs) != 1:
        return pa.array([b.to_pybytes() for b in blobs], pa.binary())
    offsets = pa.array([0, blobs[0].size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, blobs[0]])


def command_to_json(command: Command) -> str:
    """The text of a command, as stored beside a checkpoint and sent in place of an envelope."""
    return json.dumps(asdict(command))


def command_from_json(text: str) -> Command:
    """The inverse of ``command_to_json``."""
    return Command(**json.loads(text))


def is_command(text: str) -> bool:
    """Whether the text is a command's, a JSON object, and not an envelope's, a list."""
    return text.startswith("{")
