"""Writes a workload's slices in real time, as a running system would."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.workloads.files import StreamDirectory


class Sliced(Protocol):
    """A workload that comes in slices of stream time."""

    def slice(self, number: int) -> dict[str, pa.Table]:
        """The rows of every stream in one slice."""


class Feed:
    """Writes a slice every ``period`` seconds, below ``root`` in a directory for each stream."""

    def __init__(self, workload: Sliced, root: str | Path, period: float) -> None:
        self._workload, self._root, self._period = workload, Path(root), period
        self._directories: dict[str, StreamDirectory] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.written = 0
        """How many slices there are."""

    def write(self) -> None:
        """Write the next slice now."""
        for name, table in self._workload.slice(self.written).items():
            if name not in self._directories:
                self._directories[name] = StreamDirectory(self._root / name)
            self._directories[name].append(table)
        self.written += 1

    def start(self) -> None:
        """Write by the clock from now on, in a separate thread."""
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self.write()
            due += self._period
            self._stopped.wait(max(0.0, due - time.monotonic()))
