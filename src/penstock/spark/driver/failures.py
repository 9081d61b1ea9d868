"""Why a query failed, as a sentence: Spark's text has it within pages of the traces of two languages."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar
from weakref import WeakSet

from pyspark.errors import StreamingQueryException

from penstock.errors import PenstockError, QueryFailed
from penstock.spark.map_side.bad_rows import with_line

Called = TypeVar("Called", bound=Callable[..., Any])

_RAISED = re.compile(r"penstock\.errors\.\w+: (.+)")
"""A Penstock error raised in a Python worker, within the text of Spark's exception."""
_REJECTED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: .*)?$", re.MULTILINE)
"""A bad row that Catalyst has rejected."""
_PREAMBLE = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)


def sentence(failure: BaseException) -> str:
    """The reason of a failure: the message of a Penstock error in it, or else its first line.

    >>> sentence(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no space"))
    'the query failed: no space'
    """
    text = str(failure)
    raised = _RAISED.findall(text) or _REJECTED.findall(text)
    if raised or isinstance(failure, PenstockError):
        return with_line(str(raised[-1]).strip()) if raised else text
    lines = _PREAMBLE.sub("", text.strip()).splitlines() or [type(failure).__name__]
    return f"the query failed: {lines[0]}"


class Failure(QueryFailed, StreamingQueryException):
    """A query's failure as a sentence; whoever expects Spark's exception finds it."""

    def __init__(self, message: str, trace: str = "") -> None:
        StreamingQueryException.__init__(self, message=message)
        self.trace = trace

    @staticmethod
    def of(failure: BaseException) -> Failure:
        """The same failure with the sentence first."""
        return failure if isinstance(failure, Failure) else Failure(sentence(failure), str(failure))


_told: WeakSet[BaseException] = WeakSet()
"""Exceptions that a query ends with, which its exception names."""


def told_by_spark(function: Called) -> Called:
    """A function that Spark calls in the driver: its exceptions end the query, and py4j does not log them."""

    @wraps(function)
    def wrapper(*args: Any, **given: Any) -> Any:
        _quiet()
        try:
            return function(*args, **given)
        except Exception as error:
            _told.add(error)
            raise

    return wrapper  # type: ignore[return-value]


@cache
def _quiet() -> None:
    logging.getLogger("py4j.clientserver").addFilter(
        lambda record: not (record.exc_info and record.exc_info[1] in _told)
    )


@contextmanager
def as_a_sentence() -> Iterator[None]:
    """Raise the failure of a query as a sentence."""
    try:
        yield
    except StreamingQueryException as failure:
        raise Failure.of(failure) from None
