"""How code of Penstock behaves in a process of Spark's or of its own: memory, garbage collection, errors.

Spark shows the whole traceback of a Python worker's exception, with the sentence that matters at its end. For
a mistake in the data or in the use of Penstock the sentence alone is reported.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar

from penstock.errors import PenstockError
from penstock.spark.settings import FREE_BYTES_KEPT, MMAP_FROM_BYTES

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The names that glibc's mallopt(3) has for them."""


@cache
def keep_freed_memory() -> None:
    """Keep what is freed for the next step, up to a bound, rather than give it back to the system; once.

    A step allocates and frees the same megabytes as the one before. Given back, every page of them is faulted
    in and zeroed anew. Where the C library is not glibc nothing is done.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_MMAP_THRESHOLD, MMAP_FROM_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, FREE_BYTES_KEPT)


@cache
def settle() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once in a process.

    pyspark's daemon collects garbage after every task, and with pandas and Arrow loaded each collection
    walks 75,000 objects that never die: 45-90 ms of CPU a task, more than the task itself.
    """
    gc.collect()
    gc.freeze()


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


def plain(function: Called) -> Called:
    """Make a function's Penstock errors reach the user as their sentence alone."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _sentence_alone():
            return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def readable(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The same for a generator's."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with _sentence_alone():
            yield from function(*args, **kwargs)

    return wrapper
