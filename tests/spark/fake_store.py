"""Spark's state variable as a dictionary, with commit and rollback."""

from __future__ import annotations

import copy
from typing import Any

from penstock.spark.relay import state_log


class FakeStore:
    """A partition's state: what was written is there for the next attempt only after ``commit``."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, int], Any] = {}
        self._committed: dict[tuple[int, int], Any] = {}

    def commit(self) -> None:
        self._committed = copy.copy(self.entries)

    def rollback(self) -> None:
        self.entries = copy.copy(self._committed)

    def getValue(self, key: Any) -> Any:
        return self.entries.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.entries[key] = value

    def removeKey(self, key: Any) -> None:
        self.entries.pop(key, None)

    def keys(self) -> list[Any]:
        return list(self.entries)

    def steps(self) -> list[tuple[int, int]]:
        """The keys but that of the control."""
        return sorted(k for k in self.entries if k != state_log._CONTROL)
