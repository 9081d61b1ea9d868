"""Penstock's code in processes of Spark and of its own: memory, garbage collection, errors.

Spark reports the whole traceback of a Python worker's exception, with the error message at its end. For a
mistake in the data or in the use of Penstock the message alone is reported.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import PenstockError
from penstock.spark.settings import FREE_BYTES_KEPT, MMAP_FROM_BYTES

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt(3)."""


@cache
def keep_freed_memory() -> None:
    """Keep freed memory for the next step, up to a bound, instead of returning it to the system; once.

    A step allocates and frees the same megabytes as the one before. If they were returned, every page would
    be faulted in and zeroed again. Has no effect if the C library is not glibc.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_MMAP_THRESHOLD, MMAP_FROM_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, FREE_BYTES_KEPT)


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collection, once per process.

    pyspark's daemon collects garbage after every task, and with pandas and Arrow loaded each collection
    walks 75,000 objects that never die: 45-90 ms of CPU per task, more than the task itself.
    """
    gc.collect()
    gc.freeze()


_QUIET = Path(__file__).parent / "quiet"
"""The directory of what Python runs at the start of a worker."""
_BROKEN = "PySpark daemon failed to flush"


class _WithoutBrokenPipes:
    """Standard error without the trace that a worker leaves whose task was killed, as by ``query.stop()``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if text.startswith(_BROKEN) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@cache
def quiet_worker() -> None:
    """Keep from the user's terminal what pyspark prints when a task was killed; once per process."""
    if "pyspark" in sys.argv[0]:
        sys.stderr = _WithoutBrokenPipes(sys.stderr)


@contextmanager
def quiet_workers(environment: dict[str, str]) -> Iterator[None]:
    """Python functions that are made meanwhile run in workers that do not print what they do.

    ``environment`` is that of the Spark context, which a function takes with it.
    """
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_QUIET), *([before] if before else [])])
    try:
        yield
    finally:
        environment.pop("PYTHONPATH")
        environment.update({} if before is None else {"PYTHONPATH": before})


_HIDE = "SPARK_HIDE_TRACEBACK"
"""Read by pyspark's worker when it reports an exception, after which that worker process ends."""

Called = TypeVar("Called", bound=Callable[..., Any])


@contextmanager
def _sentence_alone() -> Iterator[None]:
    try:
        yield
    except PenstockError:
        os.environ[_HIDE] = "1"
        raise


def without_traceback(function: Called) -> Called:
    """Report a function's Penstock errors to the user without a traceback."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _sentence_alone():
            return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def generator_without_traceback(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The same for a generator."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with _sentence_alone():
            yield from function(*args, **kwargs)

    return wrapper
