"""Spark's state variables as dictionaries, with commit and rollback."""

from __future__ import annotations

import copy
from typing import Any


class FakeStore:
    """A partition's state: what was written is there for the next attempt only after ``commit``."""

    def __init__(self) -> None:
        self.value: Any = None
        self.entries: dict[tuple[int, int], Any] = {}
        self._committed: tuple[Any, dict[tuple[int, int], Any]] = (None, {})

    def commit(self) -> None:
        self._committed = (self.value, copy.copy(self.entries))

    def rollback(self) -> None:
        self.value, entries = self._committed
        self.entries = copy.copy(entries)

    def get(self) -> Any:
        return self.value

    def update(self, newValue: Any) -> None:
        self.value = newValue

    def getValue(self, key: Any) -> Any:
        return self.entries.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def removeKey(self, key: Any) -> None:
        del self.entries[key]
