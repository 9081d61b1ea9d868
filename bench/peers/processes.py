"""CPU time and memory of everything that a benchmark started: the JVM, Python workers, engines.

They are found by a mark in their environment, which they inherit: an engine is no child of its worker.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

import psutil

MARK = "PENSTOCK_BENCH_RUN"


def mark() -> None:
    """Mark this process and those that it starts from now on."""
    os.environ.setdefault(MARK, uuid.uuid4().hex)


def _marked(mark: str | None = None) -> list[psutil.Process]:
    # Of itself, a process reads the environment it began with.
    found = [psutil.Process()] if mark is None else []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == (mark or os.environ[MARK]) and process.pid != os.getpid():
                found.append(process)
    return found


def cpu_seconds(mark: str | None = None) -> float:
    """What they have used so far; of processes with another ``mark``, those alone."""
    total = 0.0
    for process in _marked(mark):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory_bytes() -> int:
    """What they hold for themselves alone (unique set size)."""
    total = 0
    for process in _marked():
        with suppress(psutil.Error):
            total += process.memory_full_info().uss
    return total
