"""Looking again and again, in a thread that does not keep the process alive."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from penstock.server.settings import SAMPLE_S

_log = logging.getLogger("penstock")


class Watching(ABC):
    """Samples about once per second from ``watch`` until ``close``; ``watched``: what, for the log."""

    watched: ClassVar[str]

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self) -> Self:
        """Begin to sample, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name=f"penstock-{self.watched}", daemon=True)
            self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            try:
                self.sample()
            except Exception:  # a query may end while it is looked at; the next look is right again
                _log.debug("the server could not sample its %s", self.watched, exc_info=True)

    def close(self) -> None:
        """Stop sampling."""
        self._stop.set()

    @abstractmethod
    def sample(self) -> None:
        """Look once."""
