"""What is told where the JVM cannot do what it was asked, or has ended: a sentence, in place of Py4J's
traces.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import ERROR, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from penstock.errors import CatalogError, EngineError
from penstock.spark.settings import JVM_ANSWERS_S

_ENDED = (
    "Spark's JVM has ended: it was killed, or the machine had no memory left (dmesg tells); start the "
    "program again, and queries with a checkpoint continue there"
)
_REASONS = {
    r"Class org\.apache\.hadoop\.fs\.s3a\.\S+ not found": (
        "Spark lacks the package for s3a://; add org.apache.hadoop:hadoop-aws, in the version of Spark's "
        "Hadoop, to spark.jars.packages"
    ),
    r"Class (org\.apache\.hadoop\.\S+) not found": (
        "Spark lacks the package that has {0}; add it to spark.jars.packages"
    ),
    r'No FileSystem for scheme "(\S+)"': (
        "Spark knows no file system {0}://; check the address, or add the package that brings it"
    ),
    r"(?:Destination exists and is not|Parent path is not) a directory: (\S+)": (
        "{0} is a file; name a directory"
    ),
    r"Mkdirs failed to create (\S+)": "{0} cannot be written; name a directory that you may write to",
    r"(\S+) \((?:Permission denied|Read-only file system)\)": (
        "{0} cannot be written; name a directory that you may write to"
    ),
    r"Option 'basePath' must be a directory": (
        "the path of a stream is a file; name the directory that the file is in"
    ),
    r"(\S+) is not a Parquet file": (
        "{0} is not a Parquet file; put a good file in its place, under the same name, or declare the format "
        "that it has"
    ),
    r"\[DATA_SOURCE_NOT_FOUND\]": (
        "Spark has no such format; check its spelling, or add the package that brings it"
    ),
    r"Python worker failed to connect back": (
        "Spark's Python workers did not start in time, since the machine is overloaded; stop what else "
        "runs on it, or use fewer partitions, and start the query again"
    ),
    r"Python worker exited unexpectedly": (
        "a Python worker of Spark was killed, most often for want of memory (dmesg tells); give the machine "
        "more memory or less to do, and start the query again"
    ),
}
"""What to say and to do, by what Hadoop or Spark says."""
PREAMBLE = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
"""What Spark writes before the reason of a query's failure."""
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\S* Encountered error while reading file (\S+?)\.\s")


Kind = TypeVar("Kind", bound=type[BaseException])


def shown_as(kind: type[BaseException]) -> Callable[[Kind], Kind]:
    """Let an exception be printed by the name that users catch it by."""

    def named(own: Kind) -> Kind:
        own.__module__, own.__name__, own.__qualname__ = "penstock", kind.__name__, kind.__name__
        return own

    return named


@shown_as(EngineError)
class JvmEnded(EngineError, Py4JNetworkError):
    """The JVM is gone; whoever expects Py4J's error finds it."""

    def __init__(self) -> None:
        Py4JNetworkError.__init__(self, _ENDED)

    def __str__(self) -> str:
        return _ENDED


def watch(gateway: Any) -> None:
    """Raise ``JvmEnded`` from every call into a JVM that has ended; Py4J raises what its sockets do."""
    client = gateway._gateway_client
    send = client.send_command
    if getattr(send, "watched", False):
        return

    def watched(*args: Any, **how: Any) -> Any:
        try:
            answer = send(*args, **how)
        except (Py4JNetworkError, ConnectionError):
            raise JvmEnded from None
        if answer == ERROR and not _listens(client.address, client.port):
            raise JvmEnded
        return answer

    watched.watched = True  # type: ignore[attr-defined]
    client.send_command = watched


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=JVM_ANSWERS_S).close()
    except OSError:
        return False
    return True


@shown_as(CatalogError)
class Refused(CatalogError):
    """Spark or its JVM could not do something, such as reach a file system; ``reason``: why."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.reason = reason


@contextmanager
def told(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise what Spark refuses as a sentence that begins with what could not be done; ``kinds``: only
    these.
    """
    refusals: tuple[type[Exception], ...] = kinds or (Py4JJavaError, PySparkException)
    try:
        yield
    except refusals as error:
        raise Refused(what, reason(error)) from None


def reason(error: BaseException) -> str:
    """Why Spark refuses, from the error and its causes: the first that is known, or else the error's first
    line.

    >>> reason(RuntimeError("Parent path is not a directory: /a/b"))
    '/a/b is a file; name a directory'
    """
    every = messages(error)
    for text in reversed(every):
        for pattern, sentence in _REASONS.items():
            if found := re.search(pattern, text):
                return sentence.format(*map(_local, found.groups()))
        if found := _UNREADABLE.search(text):
            return f"{_local(found[1])} cannot be read: {without_marks(every[-1])}"
    return without_marks(every[0])


def _local(path: str) -> str:
    """A path without the scheme of this machine's files."""
    return re.sub(r"^file:/+", "/", path)


def messages(error: BaseException) -> list[str]:
    """What an error and its causes say, from the outermost; each in whole."""
    if isinstance(error, Py4JJavaError):
        return [m for m in _of_throwable(error.java_exception) if m] or [str(error)]
    found = [PREAMBLE.sub("", str(error).strip())]
    cause = getattr(error, "_cause", None)
    return found + (messages(cause) if isinstance(cause, BaseException) else [])


def _of_throwable(thrown: Any) -> Iterator[str]:
    while thrown is not None:
        yield str(thrown.getMessage() or thrown.getClass().getSimpleName())
        thrown = thrown.getCause()


def without_marks(text: str) -> str:
    """The first line of a message of Spark, without its codes.

    >>> without_marks("[A_B.C] No such thing.  SQLSTATE: KD001 SQLSTATE: XXKST")
    'No such thing.'
    """
    first = re.sub(r"^\[[A-Z0-9_.]+\] ", "", (text.strip().splitlines() or [""])[0])
    return re.sub(r"(\s+SQLSTATE: \w+)+.*$", "", first)
