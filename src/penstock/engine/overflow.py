"""Overflow of state to disk (thesis 2.2.3): synopses and queues that outgrow a limit go to local files.

What an engine keeps is NumPy arrays and Arrow data. If they are larger than the limit after a step, some are
moved into files that are mapped into memory: the same values at another address, so that no operator knows of
it and no result changes. Payload goes first, since it is read only for results, the latest piece of a list
last; keys, lives and indexes go if they alone exceed the limit. Before anything is moved, operators give up
what they can do without, as caches. Arrays that grow while a step runs, and
chunks that wait in queues, are made in a file at once. Of a file, the system keeps the pages in memory that
are in use, as far as it has memory.

A file has no name from the beginning (or loses it at once), so it is gone when the engine is, however that
ends. Its blocks are reserved when it is made: a full disk is an error of that step, and the log still has
what a rebuild needs.

>>> memory = Memory(MemoryLimit(bytes=1000))
>>> class Synopsis:
...     __module__ = "penstock.example"
...     def __init__(self) -> None:
...         self.keys, self.rows = np.arange(5000), pa.array(["row"] * 5000)
>>> synopsis = Synopsis()
>>> memory.settle([synopsis])
>>> memory.held, memory.on_disk >= 40_000, int(synopsis.keys.sum())
(0, True, 12497500)
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import prod
from types import FunctionType
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import pyarrow as pa

from penstock.engine.element import Chunk
from penstock.engine.settings import OVERFLOW_BYTES, OVERFLOW_RETURN
from penstock.engine.stage import MemoryLimit
from penstock.errors import EngineError

Data = Any
"""A NumPy array, an Arrow array or a record batch."""
_DATA = (np.ndarray, pa.Array, pa.RecordBatch)
_PLAIN = (str, int, float, bytes, type(None), type, FunctionType, pa.Schema, pa.DataType)
Move = Callable[[Data, bool, bool], Data]
"""Takes data, whether it is payload, and whether it is the latest piece of a list."""

_current: ContextVar[Memory | None] = ContextVar("memory", default=None)
_PLAIN_IPC = pa.ipc.IpcWriteOptions(use_threads=False)
_PAGE_OUT = 21  # MADV_PAGEOUT of Linux, which Python's mmap does not name


class Spare(Protocol):
    """Keeps something that it can do without (``engine.operator.Operator``)."""

    def spare_bytes(self) -> int:
        """The bytes of it."""

    def allow(self, spare: int) -> None:
        """Keep no more than so many bytes of it."""


class _Found(NamedTuple):
    """Data, with what decides where it is: payload is the first to go to disk, the latest piece the last."""

    data: Data
    payload: bool
    latest: bool
    on_disk: bool
    movable: bool

    @property
    def warmth(self) -> tuple[bool, bool, int]:
        """The least is kept in memory first."""
        return self.payload, not self.latest, self.data.nbytes


class Memory:
    """The memory for an engine's state. ``held``: bytes in memory; ``on_disk``: bytes in files."""

    def __init__(self, limit: MemoryLimit | None) -> None:
        self.limit = limit
        self._files: WeakSet[mmap.mmap] = WeakSet()
        # Arrow data does not say where it is. By id: it cannot be hashed.
        self._moved: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.held = 0

    @property
    def on_disk(self) -> int:
        return sum(map(len, self._files))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While this engine computes, ``zeros`` and ``waiting`` keep its limit."""
        token = _current.set(self if self.limit is not None else None)
        try:
            yield
        finally:
            _current.reset(token)

    def settle(self, roots: Sequence[Any], users: Sequence[Spare] = ()) -> None:
        """Move what is kept in these objects to disk, as far as it exceeds the limit, after ``users`` among
        them have given up what they can do without.
        """
        if self.limit is None and not self._files:
            return
        limit = sys.maxsize if self.limit is None else self.limit.bytes
        found = self._found(roots)
        if self._shed(users, sum(f.data.nbytes for f in found), limit):
            found = self._found(roots)
        self.held = sum(f.data.nbytes for f in found if not f.movable and not f.on_disk)
        places: dict[int, Data] = {}
        for f in sorted((f for f in found if f.movable), key=lambda f: f.warmth):
            if self._belongs_in_memory(f, limit):
                self.held += f.data.nbytes
                if f.on_disk:
                    places[id(f.data)] = f.data.copy()
            elif not f.on_disk:
                places[id(f.data)] = self.moved(f.data)
        if places:
            _walk(roots, lambda data, *_: places.get(id(data), data))

    def _shed(self, users: Sequence[Spare], total: int, limit: int) -> bool:
        """Leave to what operators can do without the memory that the rest does not need, in equal parts."""
        users = [r for r in users if r.spare_bytes()]
        spare = sum(r.spare_bytes() for r in users)
        for user in users:
            user.allow(max(limit - total + spare, 0) // len(users))
        return sum(r.spare_bytes() for r in users) < spare

    def _belongs_in_memory(self, found: _Found, limit: int) -> bool:
        """What is on disk returns if there is room to spare, so that it does not go back and forth."""
        if found.on_disk:
            return not found.payload and self.held + found.data.nbytes <= OVERFLOW_RETURN * limit
        return self.held + found.data.nbytes <= limit

    def _found(self, roots: Sequence[Any]) -> list[_Found]:
        """The data in these objects, without views. Arrays that others are views of stay where they are."""
        found: dict[int, _Found] = {}
        viewed: set[int] = set()

        def note(data: Data, payload: bool, latest: bool) -> Data:
            if (base := _base(data)) is not data:
                viewed.add(id(base))
            found[id(data)] = _Found(data, payload, latest, self._is_moved(data), _movable(data))
            return data

        _walk(roots, note)
        owners = [f for f in found.values() if (base := _base(f.data)) is f.data or id(base) not in found]
        return [f._replace(movable=f.movable and id(f.data) not in viewed) for f in owners]

    def _is_moved(self, data: Data) -> bool:
        if isinstance(data, np.ndarray):
            return isinstance(_base(data), mmap.mmap)
        return self._moved.get(id(data)) is data

    def moved(self, data: Data) -> Data:
        """The same data in a file."""
        if not isinstance(data, np.ndarray):
            moved = self._moved_batch(data) if isinstance(data, pa.RecordBatch) else self._moved_array(data)
            self._moved[id(moved)] = moved
            return moved
        content = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        array = np.ndarray(data.shape, data.dtype, self._file(data.nbytes, content))
        array.flags.writeable = data.flags.writeable
        return array

    def _moved_array(self, array: pa.Array) -> pa.Array:
        return self._moved_batch(pa.RecordBatch.from_arrays([array], [""])).column(0)

    def _moved_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_PLAIN_IPC) as writer:
            writer.write_batch(batch)
        content = sink.getvalue()
        return pa.ipc.open_stream(pa.py_buffer(self._file(content.size, content))).read_next_batch()

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Zeros in a file."""
        return np.ndarray(shape, dtype, self._file(prod(shape) * dtype.itemsize))

    def _file(self, size: int, content: Any = b"") -> mmap.mmap:
        assert self.limit is not None
        directory = self.limit.directory or tempfile.gettempdir()
        try:
            with tempfile.TemporaryFile(dir=directory, prefix="penstock-overflow-") as file:
                os.posix_fallocate(file.fileno(), 0, size)
                file.write(content)  # cheaper than page by page through the mapping
                file.flush()
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise EngineError(
                f"the state exceeds penstock.memory_limit, and {size / 1e6:,.1f} MB of it cannot be written "
                f"to {directory}: {error.strerror}; make room there, SET penstock.overflow_directory to "
                "another directory, or raise the limit, and start the query again: it continues from its "
                "checkpoint"
            ) from None
        self._files.add(mapped)
        return mapped

    def exceeds(self, more: int) -> bool:
        """Whether so many bytes more do not fit; if they do, they are counted until the step is settled."""
        assert self.limit is not None
        if more >= OVERFLOW_BYTES and self.held + more > self.limit.bytes:
            return True
        self.held += more
        return False

    def page_out(self) -> None:
        """Write the pages of all files to disk and free their memory, as a system short of memory does."""
        for file in list(self._files):
            file.flush()
            file.madvise(_PAGE_OUT)


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """As ``np.zeros``, for arrays of a synopsis: in a file if the engine's memory is full."""
    memory, kind = _current.get(), np.dtype(dtype)
    if memory is None or not memory.exceeds(prod(shape) * kind.itemsize):
        return np.zeros(shape, kind)
    return memory.array(shape, kind)


def filled(shape: tuple[int, ...], value: int, dtype: Any) -> np.ndarray:
    """As ``np.full``."""
    array = zeros(shape, dtype)
    array[...] = value
    return array


def waiting(chunk: Chunk) -> Chunk:
    """A chunk that has to wait in a queue: its payload is in a file if the engine's memory is full."""
    memory = _current.get()
    if memory is None or not memory.exceeds(chunk.columns.nbytes):
        return chunk
    return replace(chunk, columns=memory.moved(chunk.columns))


def taken(chunk: Chunk) -> Chunk:
    """A chunk that has left a queue."""
    if (memory := _current.get()) is not None:
        memory.held = max(0, memory.held - chunk.columns.nbytes)
    return chunk


def _base(data: Data) -> Any:
    """What owns the memory of an array."""
    while isinstance(data, np.ndarray) and data.base is not None:
        data = data.base
    return data


def _movable(data: Data) -> bool:
    return data.nbytes >= OVERFLOW_BYTES and not (isinstance(data, np.ndarray) and data.dtype.hasobject)


class _Walk:
    """Applies ``move`` to all data in objects of Penstock, and puts the result in its place.

    Plan nodes have none that changes. An object with several references is visited once.
    """

    def __init__(self, move: Move) -> None:
        self._move = move
        self._seen: dict[int, tuple[Any, Any]] = {}

    def visit(self, value: Any, payload: bool = False, latest: bool = True) -> Any:
        """What stands in the place of a value."""
        if isinstance(value, _DATA):
            return self._move(value, payload, latest)
        if isinstance(value, _PLAIN):
            return value
        if id(value) not in self._seen:
            self._seen[id(value)] = value, value
            payload = payload or getattr(type(value), "payload", False)
            self._seen[id(value)] = value, self._with_parts(value, payload)
        return self._seen[id(value)][1]

    def _with_parts(self, value: Any, payload: bool) -> Any:
        if isinstance(value, list | deque | tuple):
            new = [self.visit(part, payload, n + 1 == len(value)) for n, part in enumerate(value)]
            if all(a is b for a, b in zip(new, value, strict=True)):
                return value
            if isinstance(value, tuple):
                return type(value)(*new) if hasattr(value, "_fields") else tuple(new)
            for n, part in enumerate(new):
                value[n] = part
        elif isinstance(value, dict):
            value.update({name: self.visit(part, payload) for name, part in value.items()})
        elif _has_state(value):
            for name, part in list(vars(value).items()):
                if (moved := self.visit(part, payload)) is not part:
                    object.__setattr__(value, name, moved)
        return value


def _walk(roots: Sequence[Any], move: Move) -> None:
    walk = _Walk(move)
    for root in roots:
        walk.visit(root)


def _has_state(value: Any) -> bool:
    own = type(value).__module__.startswith("penstock.") and hasattr(value, "__dict__")
    return own and not getattr(value, "is_plan", False)
