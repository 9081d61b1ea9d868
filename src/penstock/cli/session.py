"""A local session for a command: silent, interruptible, and with errors in one sentence."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import EngineError, PenstockError

if TYPE_CHECKING:
    from penstock.spark.driver.session import Session

_RAISED = re.compile(r"penstock\.errors\.\w+: (.+)")
"""A Penstock error raised in a Python worker, within the text of Spark's exception."""


@contextmanager
def local_session(log: Path) -> Iterator[Session]:
    """A session on local Spark, stopped at the end; Spark's output goes to ``log``."""
    from pyspark.errors import PySparkException

    import penstock

    # Spark resolves this machine's name, which may fail in a container.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with stderr_to(log):
            session = penstock.connect()
    except PySparkException:
        raise EngineError(f"Spark did not start: {_reason(log)}") from None
    signal.signal(signal.SIGINT, on_interrupt)  # pyspark has replaced it
    try:
        yield session
    finally:
        session.spark.stop()


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Processes started within, such as Spark's JVM, write their standard error to a file for good."""
    sys.stderr.flush()
    terminal = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


def _reason(log: Path) -> str:
    """The line of Spark's log with the reason: the innermost cause, else the first line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    causes = [line for line in reversed(lines) if line.startswith("Caused by:")]
    lines = causes or [line for line in lines if not line.startswith("WARNING")]
    return lines[0] if lines else "it wrote nothing; is Java 17 or newer installed?"


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
    if isinstance(failure, PenstockError):
        return failure
    text = str(failure)
    raised = _RAISED.findall(text)
    if raised:
        return PenstockError(raised[-1].strip())
    lines = text.strip().splitlines() or [type(failure).__name__]
    return EngineError(f"the query failed: {lines[0]}")
