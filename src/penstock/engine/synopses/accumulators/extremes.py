"""MIN and MAX that survive deletions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.element import Bools, Int64s
from penstock.engine.kernels import aggregation, heaps
from penstock.engine.kernels.hashing import validity
from penstock.engine.settings import COMPACT_ROWS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values, extended
from penstock.engine.synopses.order_keys import mapped, order_keys


class Min(Accumulator):
    """MIN, and MAX with the order reversed. One heap per group if values leave."""

    saved = ("_counts", "_best", "_keys", "_heaps")
    _turned = False

    def __init__(self, arguments: tuple[pa.DataType, ...], *more: Any) -> None:
        super().__init__(arguments, *more)
        self._keys = order_keys(arguments[0])
        self._best = np.zeros(0, np.int64)
        self._heaps = None if self.grows else _Heaps()

    def room_for(self, groups: int) -> None:
        super().room_for(groups)
        self._best = extended(self._best, groups, heaps.NONE)
        if self._heaps is not None:
            self._heaps.room_for_groups(groups)

    def update(self, segments: Segments, *columns: pa.Array) -> Values:
        (column,) = columns
        valid = validity(column)
        counts = self._count(segments, valid)
        keys = self._encode(column)
        if self._heaps is None:
            place = (segments.bounds, segments.groups, segments.sign, valid, keys)
            best = aggregation.extreme_growing(*place, self._best)
        else:
            best = self._heaps.update(segments, valid, keys)
        shown = (self._decode(best[0], counts[0] > 0), self._decode(best[1], counts[1] > 0))
        if self._heaps is not None and self._heaps.tidy():
            self._keys.keep(self._turn(self._heaps.keys()))
        return shown

    def _turn(self, keys: Int64s) -> Int64s:
        return ~keys if self._turned else keys

    def _encode(self, column: pa.Array) -> Int64s:
        keys = self._turn(self._keys.encode(column))
        moved = self._keys.moved()
        if moved is not None:
            old, new = (self._turn(m) for m in moved)
            order = np.argsort(old)
            self._best = mapped(self._best, old[order], new[order])
            if self._heaps is not None:
                self._heaps.rename(old[order], new[order])
        return keys

    def _decode(self, keys: Int64s, valid: Bools) -> pa.Array:
        return self._keys.decode(self._turn(keys), valid)

    def keep(self, groups: Int64s) -> None:
        super().keep(groups)
        self._best = self._best[groups]
        if self._heaps is not None:
            self._heaps.keep(groups)

    def nbytes(self) -> int:
        own = int(self._best.nbytes) + self._keys.nbytes()
        return super().nbytes() + own + (self._heaps.nbytes() if self._heaps is not None else 0)


class Max(Min):
    """MAX."""

    _turned = True


class _Heaps(Stateful):
    """The arrays that ``kernels.heaps`` works on."""

    def __init__(self) -> None:
        self._roots = np.full(0, -1, np.int64)
        self._clear(COMPACT_ROWS)

    def _clear(self, capacity: int) -> None:
        self._nodes = np.zeros((capacity, 6), np.int64)
        self._heads = np.full(capacity, -1, np.int64)
        self._free = np.full(capacity, -1, np.int64)
        self._room = np.array([0, -1], np.int64)

    def _state(self) -> tuple[np.ndarray, Int64s, Int64s, Int64s, Int64s]:
        return self._nodes, self._heads, self._roots, self._free, self._room

    def room_for_groups(self, groups: int) -> None:
        self._roots = extended(self._roots, groups, -1)

    def update(self, segments: Segments, valid: Bools, keys: Int64s) -> tuple[Int64s, Int64s]:
        need = int(self._room[0]) + int((segments.sign > 0).sum())
        if need > len(self._nodes):
            self._rebuild(2 * need)
        place = (segments.bounds, segments.groups, segments.sign, valid, keys)
        return heaps.extreme_changing(*place, *self._state())

    def _used(self) -> np.ndarray:
        nodes = self._nodes[: self._room[0]]
        return nodes[(nodes[:, heaps.GROUP] >= 0) & (nodes[:, heaps.COUNT] > 0)]

    def keys(self) -> Int64s:
        return self._used()[:, heaps.KEY]

    def tidy(self) -> bool:
        """Rebuild when removed values are the majority."""
        used = int(self._room[0])
        if used < COMPACT_ROWS or used < len(self._nodes) // 2:
            return False
        self._rebuild(2 * len(self._used()))
        return True

    def _rebuild(self, capacity: int) -> None:
        used = self._used().copy()
        self._clear(1 << max(10, int(max(capacity, 2 * len(used))).bit_length()))
        self._roots[:] = -1
        self._fill(used)

    def _fill(self, used: np.ndarray) -> None:
        group, key, count = (np.ascontiguousarray(used[:, c]) for c in (heaps.GROUP, heaps.KEY, heaps.COUNT))
        heaps.fill(group, key, count, *self._state())

    def rename(self, old: Int64s, new: Int64s) -> None:
        used = self._used().copy()
        used[:, heaps.KEY] = mapped(np.ascontiguousarray(used[:, heaps.KEY]), old, new)
        self._clear(len(self._nodes))
        self._roots[:] = -1
        self._fill(used)

    def keep(self, groups: Int64s) -> None:
        used = self._used().copy()
        number = np.full(len(self._roots), -1, np.int64)
        number[groups] = np.arange(len(groups))
        used[:, heaps.GROUP] = number[used[:, heaps.GROUP]]
        self._clear(len(self._nodes))
        self._roots = np.full(max(len(groups), 1), -1, np.int64)
        self._fill(used[used[:, heaps.GROUP] >= 0])

    def state(self) -> dict[str, State]:
        used = self._used()[:, [heaps.GROUP, heaps.KEY, heaps.COUNT]]
        return {"groups": len(self._roots), "used": used[np.lexsort((used[:, 1], used[:, 0]))]}

    def _load(self, state: dict[str, State]) -> None:
        self._clear(1 << max(10, int(2 * len(state["used"])).bit_length()))
        self._roots = np.full(state["groups"], -1, np.int64)
        group, key, count = np.ascontiguousarray(state["used"].T)
        heaps.fill(group, key, count, *self._state())

    def nbytes(self) -> int:
        return int(self._nodes.nbytes + self._heads.nbytes + self._free.nbytes + self._roots.nbytes)
