"""Snapshots: the state of operators and synopses as plain arrays and values, each with its own format
version.

A class that has state derives from :class:`Stateful`, names the attributes that are its state, and raises its
``format`` when they change their meaning. What follows from the plan node, and what an engine can decide
again (orders, indexes, costs), is not state. The codec writes a tree of such objects as::

    4 bytes magic | 4 bytes checksum of the rest | 4 bytes length of head | head | the buffers

The head is JSON: the tree, with a number in the place of each array, and where each numbered array lies.
NumPy arrays are raw bytes, Arrow data is an IPC stream. An object with several references is written once.
Nothing in a snapshot is executed, and state that does not fit is rejected with its name.

>>> class Counter(Stateful):
...     saved = ("_rows",)
...     def __init__(self) -> None:
...         self._rows = np.zeros(2, np.int64)
>>> counter, again = Counter(), Counter()
>>> counter._rows[1] = 7
>>> again.restore(decode(encode(counter)))
>>> again._rows.tolist()
[0, 7]
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk
from penstock.errors import EngineError

_MAGIC = b"PSS1"
_FRAME = struct.Struct("<4sII")
_ALIGNED = 64
_RESTORED = "#restored"
"""In the state of a shared object: the object that it was restored into."""

State = Any
"""None, bool, int, float, str, NumPy or Arrow arrays, RecordBatch, Chunk, Stateful, random generators;
lists, tuples and dataclasses of them, dicts by name."""


class SnapshotError(EngineError):
    """A snapshot that this version cannot read."""


class Stateful:
    """An object whose state can be saved and restored. ``saved`` names the attributes that are state."""

    format: ClassVar[int] = 1
    saved: ClassVar[tuple[str, ...]] = ()
    bound_to: ClassVar[tuple[str, ...]] = ()
    """Attributes that are the state of others, which this one refers to: both are saved, or neither."""

    @property
    def has_state(self) -> bool:
        """Whether there is anything to save."""
        return bool(self.saved) or type(self).state is not Stateful.state

    def state(self) -> dict[str, State]:
        """The state by name. Override it if attributes cannot be written as they are."""
        return {name: getattr(self, name) for name in self.saved}

    def restore(self, state: dict[str, State]) -> None:
        """Load a state that ``state`` returned; ``self`` is new, made from the same plan node."""
        if not isinstance(state, dict) or "format" not in state:
            raise SnapshotError(f"has no state of {type(self).__name__}")
        if state["format"] != self.format:
            raise SnapshotError(f"has format {state['format']}; this version reads {self.format}")
        if state.get(_RESTORED) is self:
            return  # another object holds it too
        state[_RESTORED] = self
        try:
            self._load(state)
        except KeyError as error:
            raise SnapshotError(f"has no {error.args[0]!r} of {type(self).__name__}") from None

    def _load(self, state: dict[str, State]) -> None:
        for name in self.saved:
            what = f"{type(self).__name__}.{name.lstrip('_')}"
            setattr(self, name, _restored(getattr(self, name), state[name], what))


def _restored(current: Any, state: State, what: str) -> Any:
    """The new value of an attribute; Stateful parts are kept and restored in place."""
    if isinstance(current, Stateful):
        try:
            current.restore(state)
        except SnapshotError as error:
            raise SnapshotError(f"{error}, in {what}") from None
        return current
    if isinstance(current, tuple) or (isinstance(current, list) and any(map(_has_parts, current))):
        if not isinstance(state, list) or len(state) != len(current):
            raise SnapshotError(f"does not have the {len(current)} parts of {what}")
        places = enumerate(zip(current, state, strict=True))
        parts = [_restored(part, its, f"{what}[{i}]") for i, (part, its) in places]
        if isinstance(current, tuple):
            return tuple(parts)
        current[:] = parts  # others may hold the list too
        return current
    if isinstance(current, np.random.Generator):
        current.bit_generator.state = state
        return current
    if is_dataclass(current) and not isinstance(current, type | Chunk):
        return replace(current, **_fields(current, state, what))
    if current is not None and state is not None and _kind(current) != _kind(state):
        raise SnapshotError(f"has {_kind(state)} for {what}, which is {_kind(current)}")
    return state


def _has_parts(value: Any) -> bool:
    return isinstance(value, Stateful | np.random.Generator) or is_dataclass(value)


def _fields(current: Any, state: State, what: str) -> dict[str, Any]:
    """The fields of a dataclass, which is restored as a new value."""
    names = [f.name for f in fields(current)]
    if not isinstance(state, dict) or set(state) != set(names):
        raise SnapshotError(f"lacks the fields {names} of {what}")
    return {n: _restored(getattr(current, n), state[n], f"{what}.{n}") for n in names}


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape[1:]) or ''} array"
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return "number" if number else type(value).__name__


def encode(state: State) -> bytes:
    """A tree of state as bytes."""
    writer = _Writer()
    tree = writer.tree(state)
    head = json.dumps({"tree": tree, "buffers": writer.places}).encode()
    head += b" " * (-(_FRAME.size + len(head)) % _ALIGNED)
    checksum = zlib.crc32(head)
    for part in writer.parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([_FRAME.pack(_MAGIC, checksum, len(head)), head, *writer.parts])


class _Writer:
    """Converts a tree to JSON-serializable values and collects the buffers."""

    def __init__(self) -> None:
        self.places: list[list[Any]] = []
        self.parts: list[bytes | memoryview] = []
        self._size = 0
        self._written: dict[int, int] = {}
        self._kept: list[Stateful] = []

    def tree(self, value: State) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case np.integer() | np.floating() | np.bool_():
                return value.item()
            case list() | tuple():
                return [self.tree(v) for v in value]
            case dict():
                return {"map": self._map(value)}
            case Stateful():
                return self._object(value)
            case np.ndarray() if value.dtype.kind in "biuf":
                data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
                return {"array": self._put(value.dtype.str, list(value.shape), data)}
            case pa.Array():
                return {"arrow": self._put("arrow", [], _ipc(pa.record_batch([value], names=[""])))}
            case pa.RecordBatch():
                return {"batch": self._put("arrow", [value.num_rows], _ipc(value))}
            case Chunk():
                return {"chunk": self._map(vars(value))}
            case np.random.Generator():
                return self.tree(value.bit_generator.state)
            case _ if is_dataclass(value):
                return {"map": self._map({f.name: getattr(value, f.name) for f in fields(value)})}
        raise TypeError(f"a {type(value).__name__} is not state: {value!r}")

    def _map(self, values: dict[str, State]) -> dict[str, Any]:
        if not all(isinstance(name, str) for name in values):
            raise TypeError(f"state is named by strings: {list(values)!r}")
        return {name: self.tree(v) for name, v in values.items()}

    def _object(self, value: Stateful) -> dict[str, Any]:
        if id(value) in self._written:
            return {"same": self._written[id(value)]}
        self._written[id(value)] = number = len(self._kept)
        self._kept.append(value)
        return {"object": number, "map": self._map({"format": value.format, **value.state()})}

    def _put(self, kind: str, shape: list[int], data: memoryview) -> int:
        padding = -len(data) % _ALIGNED
        self.places.append([kind, shape, self._size, len(data)])
        self.parts += [data, bytes(padding)]
        self._size += len(data) + padding
        return len(self.places) - 1


def _ipc(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def decode(data: bytes | memoryview) -> State:
    """The encoded tree, with objects as their states by name."""
    view = memoryview(data)
    if len(view) < _FRAME.size or bytes(view[:4]) != _MAGIC:
        raise SnapshotError("the snapshot is not one that this version of Penstock wrote")
    _, checksum, length = _FRAME.unpack(view[: _FRAME.size])
    if zlib.crc32(view[_FRAME.size :]) != checksum:
        raise SnapshotError("the snapshot is damaged: its checksum differs")
    start = _FRAME.size + length
    try:
        head = json.loads(bytes(view[_FRAME.size : start]))
        return _Reader(head["buffers"], view[start:]).tree(head["tree"])
    except (ValueError, KeyError, TypeError, IndexError, pa.ArrowException) as error:
        raise SnapshotError(f"the snapshot is damaged: {error}") from None


class _Reader:
    def __init__(self, places: list[list[Any]], buffers: memoryview) -> None:
        self._places, self._buffers = places, buffers
        self._objects: dict[int, Any] = {}

    def tree(self, value: Any) -> State:
        match value:
            case list():
                return [self.tree(v) for v in value]
            case {"object": number, "map": values}:
                self._objects[number] = {name: self.tree(v) for name, v in values.items()}
                return self._objects[number]
            case {"same": number}:
                return self._objects[number]
            case {"map": values}:
                return {name: self.tree(v) for name, v in values.items()}
            case {"chunk": values}:
                return Chunk(**{name: self.tree(v) for name, v in values.items()})
            case {"array": number}:
                kind, shape, data = self._get(number)
                return np.frombuffer(data, np.dtype(kind)).reshape(shape).copy()
            case {"arrow": number}:
                return self._batch(number).column(0)
            case {"batch": number}:
                return self._batch(number)
        return value

    def _get(self, number: int) -> tuple[str, list[int], memoryview]:
        kind, shape, start, size = self._places[number]
        data = self._buffers[start : start + size]
        if len(data) != size:
            raise ValueError(f"buffer {number} has {len(data)} of {size} bytes")
        return kind, shape, data

    def _batch(self, number: int) -> pa.RecordBatch:
        _, _, data = self._get(number)
        return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
