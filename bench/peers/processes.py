"""CPU time and memory of everything that a benchmark started: the JVM, Python workers, engines.

They are found by a mark in their environment, which they inherit: an engine is no child of its worker.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from typing import Any

import psutil
from pyspark.sql import SparkSession

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


def live_bytes(spark: SparkSession, python: bool) -> int:
    """What the JVM holds for itself, of its heap what is left after a collection; with ``python`` also what
    Python workers and engines hold, each for itself alone (unique set size).
    """
    jvm: Any = spark.sparkContext._jvm
    java = psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.Runtime.getRuntime()
    free = int(heap.freeMemory())
    total = max(java.memory_full_info().uss - free, int(heap.totalMemory()) - free)
    for process in _marked() if python else ():
        with suppress(psutil.Error):
            if process.pid not in (java.pid, os.getpid()):
                total += process.memory_full_info().uss
    return total
