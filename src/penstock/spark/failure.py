"""Errors on their way from a Python worker to the user.

Spark shows the whole traceback of a worker's exception, with the sentence that matters at its end. For a
mistake in the data or in the use of Penstock the sentence is all there is to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from penstock.errors import PenstockError

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
