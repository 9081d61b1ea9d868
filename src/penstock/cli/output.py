"""Standard output that cannot be written: a reader that has gone ends a command quietly, a full disk does so
with a sentence.

Python reports both where it writes. The console sink writes in the JVM, which loses what it cannot write
without a word, so its stream is asked (``Printed``).
"""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from penstock.cli.settings import POLL_S
from penstock.errors import PenstockError

READER_GONE = 141
"""Exit code of a command whose reader has gone: that of one which SIGPIPE has ended."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextmanager
def written() -> Iterator[None]:
    """Write out what a command prints before it ends, and report what cannot be written.

    A reader that has gone is raised as ``BrokenPipeError``; nothing is written to it any more.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _write_nowhere()
        raise
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _write_nowhere()
        raise _lost(os.strerror(error.errno or 0)) from None


def _lost(why: str) -> PenstockError:
    return PenstockError(f"standard output cannot be written: {why}; make room, or send it elsewhere")


def _write_nowhere() -> None:
    """Python flushes standard output when it ends, and would report the same again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Terminal(Console):
    """Rich's console; a reader that has gone is left to ``written``, where Rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Printed:
    """What the JVM prints: asks its standard output again and again whether it could write all.

    In a thread, since the question waits while a slow reader holds back what is printed.
    """

    def __init__(self, jvm: Any) -> None:
        self._out = jvm.java.lang.System.out
        self._failed = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="penstock-output", daemon=True).start()

    def _watch(self) -> None:
        with suppress(Exception):  # Spark may have ended
            while not self._ended.wait(POLL_S):
                self._ask()

    def _ask(self) -> None:
        if self._out.checkError():
            self._failed.set()

    @property
    def failed(self) -> bool:
        """Whether something could not be written."""
        return self._failed.is_set()

    def end(self) -> None:
        """Ask a last time, when nothing is printed any more, and raise if something was lost."""
        self._ended.set()
        if not self.failed:
            with suppress(Exception):
                self._ask()
        self.check()

    def check(self) -> None:
        """Raise if something could not be written."""
        if self.failed:
            if _reader_is_gone():
                raise BrokenPipeError
            raise _lost("the device is full, or refuses what is written")


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads."""
    asked = select.poll()
    asked.register(1, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))
