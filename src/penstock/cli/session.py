"""A local session for a command: with a log, interruptible, and with errors in one sentence."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.spark.driver.session import Session


@contextmanager
def local_session() -> Iterator[Session]:
    """A session on local Spark, stopped at the end."""
    import penstock

    on_interrupt = signal.getsignal(signal.SIGINT)
    session = penstock.connect()
    signal.signal(signal.SIGINT, on_interrupt)  # pyspark has replaced it
    try:
        yield session
    finally:
        session.spark.stop()


class Stop(threading.Event):
    """Set by a signal to stop; the first one, and how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None
        self.signals = 0

    def note(self, number: int) -> None:
        """Take a signal."""
        self.first = self.first or number
        self.signals += 1
        self.set()


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM, so that no call into Spark is interrupted."""
    stop = Stop()
    handled = (signal.SIGINT, signal.SIGTERM)
    previous = {s: signal.signal(s, lambda number, _: stop.note(number)) for s in handled}
    try:
        yield stop
    finally:
        for s, handler in previous.items():
            signal.signal(s, handler)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report a file or directory that cannot be written as the user's error."""
    try:
        yield
    except OSError as error:
        raise PenstockError(f"cannot write {path}: {error.strerror or error}; name another place") from None


@contextmanager
def logged(file: Path | None) -> Iterator[None]:
    """Write what Penstock reports to a file, or to standard error."""
    log = logging.getLogger("penstock")
    with writing(file or Path()):
        handler = logging.StreamHandler() if file is None else logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        handler.close()


def user_error(failure: Exception) -> PenstockError:
    """The failure of a query as an error of one sentence."""
    from penstock.spark.driver.failures import Failure

    return failure if isinstance(failure, PenstockError) else Failure.of(failure)
