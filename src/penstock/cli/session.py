"""A local session for a command: silent, interruptible, and with errors in one sentence."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets, so that no call into Spark is interrupted."""
    interrupted = threading.Event()
    handled = (signal.SIGINT, signal.SIGTERM)
    previous = {s: signal.signal(s, lambda *_: interrupted.set()) for s in handled}
    try:
        yield interrupted
    finally:
        for s, handler in previous.items():
            signal.signal(s, handler)


def user_error(failure: Exception) -> PenstockError:
    """The failure of a query as an error of one sentence."""
    from penstock.spark.driver.failures import Failure

    return failure if isinstance(failure, PenstockError) else Failure.of(failure)
