"""Connections of a relay to the resident engine of its partition; starts it and its host if necessary."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.errors import EngineError
from penstock.spark.resident.directory import EngineId, ResidentDirectory, cannot_start
from penstock.spark.settings import ENGINE_IDLE_S, HOST_START_S, SHOWN_LOG_CHARS, STOPPED_MARK_S
from penstock.spark.wire.protocol import Kind, Message, receive, send

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def connect(
    home: ResidentDirectory,
    engine_id: EngineId,
    memory: int | None = None,
    idle_seconds: float = ENGINE_IDLE_S,
) -> socket.socket:
    """A connection to an engine; if it is not running it is started, with a limit in bytes of its memory."""
    path = home.socket(engine_id)
    sock = _try_connect(path)
    if sock is not None:
        return sock
    with host(home, idle_seconds) as to_host:
        ask(to_host, Kind.START, (engine_id, memory))
    sock = _try_connect(path)
    if sock is None:
        raise ConnectionError(f"no engine answers at {path}")
    return sock


def quit_query(root: Path, query_id: str, plans: Collection[str] = ()) -> None:
    """End the engines of a query in all hosts on this machine, until it is started again.

    A task of the query that still works loses its engine and asks for a new one. The mark, which is there
    first, lets its host refuse. ``plans`` are the query's: their engines of no known query end as well.
    """
    for home in ResidentDirectory.all(root):
        with suppress(FileNotFoundError):
            home.over(query_id).touch()
            _forget_stopped(home)
        sock = _try_connect(home.host_socket)
        if sock is not None:
            with sock, suppress(ConnectionError):
                send(sock, Kind.QUIT, (query_id, tuple(plans)))
                receive(sock)


def admit_query(root: Path, query_id: str) -> None:
    """Let a query that starts have engines, though it was stopped before."""
    for home in ResidentDirectory.all(root):
        home.over(query_id).unlink(missing_ok=True)


def _forget_stopped(home: ResidentDirectory) -> None:
    """Remove the marks of queries that were stopped so long ago that none of their tasks works any more."""
    for mark in home.marks():
        with suppress(FileNotFoundError):
            if time.time() - mark.stat().st_mtime > STOPPED_MARK_S:
                mark.unlink()


def prestart(home: ResidentDirectory) -> threading.Thread:
    """Start the host in the background; if it fails, whoever needs it first reports it."""

    def start() -> None:
        with suppress(Exception), host(home, ENGINE_IDLE_S):
            pass

    thread = threading.Thread(target=start, name="penstock-host", daemon=True)
    thread.start()
    return thread


@contextmanager
def host(home: ResidentDirectory, idle_seconds: float) -> Iterator[socket.socket]:
    """A connection to the directory's host; the first caller starts it, the others wait."""
    sock = _try_connect(home.host_socket)
    if sock is None:
        try:
            home.make()
            with _lock(home.path / "host.lock"):
                sock = _try_connect(home.host_socket) or _start_host(home, idle_seconds)
        except (ConnectionError, FileNotFoundError):
            raise  # it was swept in that moment: the caller tries again
        except OSError as error:
            raise cannot_start(home, error) from None
    with sock:
        yield sock


def ask(sock: socket.socket, kind: Kind, head: Any = None) -> Message:
    """Send a message and wait for its answer; an engine's failure is raised here."""
    send(sock, kind, head)
    return answer(sock)


def answer(sock: socket.socket) -> Message:
    """The next message, or the error it reports."""
    message = receive(sock)
    if message.kind is Kind.FAILED:
        error: Exception = message.head["error"]
        if isinstance(error, EngineError):
            raise EngineError(f"{error}\n{message.head['trace']}")
        raise error
    return message


def _try_connect(path: Path) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    return sock


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_host(home: ResidentDirectory, idle_seconds: float) -> socket.socket:
    """Start a host, detached from this process; the command returns when it listens."""
    home.host_socket.unlink(missing_ok=True)
    log = home.path / "host.log"
    arguments = [str(home.jvm.pid), home.jvm.started, str(home.root), str(idle_seconds)]
    with open(log, "ab") as out:
        started = subprocess.run(
            [sys.executable, "-m", "penstock.spark.resident.host", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=_environment(),
            cwd=home.path,
            timeout=HOST_START_S,
        )
    sock = _try_connect(home.host_socket)
    if started.returncode or sock is None:
        tail = log.read_text(errors="replace")[-SHOWN_LOG_CHARS:]
        raise EngineError(f"the host of resident engines did not start on {socket.gethostname()}\n{tail}")
    return sock


def _environment() -> dict[str, str]:
    """The caller's environment, with the same import path and one thread per library."""
    path = os.pathsep.join(os.path.abspath(p) for p in sys.path)
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": path}
