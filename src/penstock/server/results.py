"""Results of a query for any number of readers: recent rows, and a queue for each reader.

A reader that does not keep up loses its oldest batches, and gets their number: a slow browser must hold back
neither the query nor the server. A reader that goes leaves nothing behind.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.server.settings import FEED_BATCHES, KEPT_ROWS


@dataclass
class Reader:
    """One reader: what waits for it, and how many rows it has lost."""

    waiting: queue.Queue[pa.RecordBatch | None] = field(default_factory=lambda: queue.Queue(FEED_BATCHES))
    lost: int = 0
    arrived: Callable[[], object] = lambda: None
    """Called when something has come."""

    def put(self, batch: pa.RecordBatch | None) -> None:
        """Add a batch, None for the end; if there is no room the oldest goes."""
        while True:
            try:
                self.waiting.put_nowait(batch)
                break
            except queue.Full:
                try:
                    gone = self.waiting.get_nowait()
                    self.lost += gone.num_rows if gone is not None else 0
                except queue.Empty:
                    pass
        with suppress(RuntimeError):  # the server that it wakes up has stopped
            self.arrived()

    def take_lost(self) -> int:
        """How many rows were lost since the last call."""
        lost, self.lost = self.lost, 0
        return lost


class Feed:
    """The results of one query, as its sink puts them in."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._recent: deque[pa.RecordBatch] = deque()
        self._rows = 0
        self._readers: list[Reader] = []
        self._ended = False
        self._lock = threading.Lock()

    def put(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        with self._lock:
            self._ended = False  # its query may have been started again
            kept = batch.slice(max(0, batch.num_rows - KEPT_ROWS))
            self._recent.append(kept)
            self._rows += kept.num_rows
            while self._rows - self._recent[0].num_rows >= KEPT_ROWS:
                self._rows -= self._recent.popleft().num_rows
            readers = list(self._readers)
        for reader in readers:
            reader.put(batch)

    def end(self) -> None:
        """No more rows come."""
        with self._lock:
            readers = [] if self._ended else list(self._readers)
            self._ended = True
        for reader in readers:
            reader.put(None)

    def recent(self) -> list[pa.RecordBatch]:
        """The newest rows, up to ``KEPT_ROWS``."""
        with self._lock:
            return list(self._recent)

    @contextmanager
    def reading(self, recent: bool = True) -> Iterator[Reader]:
        """A reader of what comes, and of the newest rows before."""
        reader = Reader()
        with self._lock:
            for batch in self._recent if recent else ():
                reader.put(batch)
            if self._ended:
                reader.put(None)
            self._readers.append(reader)
        try:
            yield reader
        finally:
            with self._lock:
                self._readers.remove(reader)

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)
