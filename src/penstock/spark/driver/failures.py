"""Why a query failed, as a sentence: Spark's text has it within pages of the traces of two languages."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException

import penstock.errors
from penstock.errors import PenstockError, QueryFailed
from penstock.spark.driver.jvm import reason, shown_as, without_marks
from penstock.spark.map_side.bad_rows import with_line

Called = TypeVar("Called", bound=Callable[..., Any])

_RAISED = re.compile(r"penstock\.errors\.\w+: (.+)")
"""A Penstock error raised in a Python worker, within the text of Spark's exception."""
_REJECTED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: .*)?$", re.MULTILINE)
"""A bad row that Catalyst has rejected."""
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n"
    r"((?:[ \t]+[^\n]*\n)+)"
    r"(.*?)(?=\s+SQLSTATE:|\n\n|\n===|\Z)",
    re.DOTALL,
)
"""The frames of a Python exception within Spark's text, and what the exception says."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LIBRARY = re.compile(r"/(?:site-packages|dist-packages|lib/python3\.\d+|pyspark|py4j)/|<frozen ")
_OURS = str(Path(penstock.errors.__file__).parent)


def sentence(failure: BaseException) -> str:
    """The reason of a failure: the message of a Penstock error in it, an exception of the user's own code and
    its place, or else what Spark says first.

    >>> sentence(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no space"))
    'the query failed: no space'
    """
    text = str(failure)
    raised = _RAISED.findall(text) or _REJECTED.findall(text)
    if raised or isinstance(failure, PenstockError):
        return with_line(str(raised[-1]).strip()) if raised else text
    return _python_failure(text) or f"the query failed: {reason(failure) or type(failure).__name__}"


def _python_failure(text: str) -> str | None:
    """An exception in Python with the last line of the user's own code that it came through.

    Of one with a cause in a Python worker of Spark the text has the cause last, and the reason is there.
    """
    # What an exception says may contain that line, too; then no frame follows.
    begins = [m.start() for m in re.finditer(r"Traceback \(most recent call last\)", text)]
    found = next(filter(None, (_TRACEBACK.match(text, at) for at in reversed(begins))), None)
    if not found:
        return None
    frames, said = found.groups()
    own = [(file, line) for file, line in _FRAME.findall(frames) if _is_users(file)]
    where = f" at {own[-1][0]}, line {own[-1][1]}" if own else ""
    kind, _, message = said.strip().partition(": ")
    if kind.startswith("pyspark."):
        message = without_marks(message)
    what = ": ".join(filter(None, (kind.rpartition(".")[2], " ".join(message.split()))))
    if "[FOREACH_BATCH_USER_FUNCTION_ERROR]" in text:
        return f"the function that gets each batch failed{where}: {what}"
    return f"Python code of the query failed{where}: {what}"


def _is_users(file: str) -> bool:
    return not _LIBRARY.search(file) and not file.startswith(_OURS)


def why(failure: BaseException) -> str:
    """The reason alone, for a sentence that says what failed."""
    return sentence(failure).removeprefix("the query failed: ")


@shown_as(QueryFailed)
class Failure(QueryFailed, StreamingQueryException):
    """A query's failure as a sentence; whoever expects Spark's exception finds it."""

    def __init__(self, message: str, trace: str = "") -> None:
        StreamingQueryException.__init__(self, message=message)
        self.trace = trace

    @staticmethod
    def of(failure: BaseException) -> Failure:
        """The same failure with the sentence first."""
        return failure if isinstance(failure, Failure) else Failure(sentence(failure), str(failure))


_TOLD = "_told_by_spark"
"""Marks exceptions that a query ends with, which its exception names."""


def told_by_spark(function: Called) -> Called:
    """A function that Spark calls in the driver: its exceptions end the query, and py4j does not log them."""

    @wraps(function)
    def wrapper(*args: Any, **given: Any) -> Any:
        _quiet()
        try:
            return function(*args, **given)
        except Exception as error:
            with suppress(AttributeError):  # one without room for marks is logged as well
                setattr(error, _TOLD, True)
            raise

    return wrapper  # type: ignore[return-value]


@cache
def _quiet() -> None:
    logging.getLogger("py4j.clientserver").addFilter(
        lambda record: not (record.exc_info and hasattr(record.exc_info[1], _TOLD))
    )


@contextmanager
def as_a_sentence() -> Iterator[None]:
    """Raise the failure of a query as a sentence."""
    try:
        yield
    except StreamingQueryException as failure:
        raise Failure.of(failure) from None
