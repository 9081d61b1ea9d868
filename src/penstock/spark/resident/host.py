"""The host of a JVM's resident engines: ``python -m penstock.spark.resident.host``.

Importing NumPy, Numba, Arrow and the compiled kernels takes a second or two, so it is done once: the host
loads them and forks an engine whenever a relay asks for one. It also ends engines
when their query stops or Spark has ended, and removes their files. Engines end themselves if it dies.
"""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import select
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import EngineError, PenstockError
from penstock.spark.process import keep_freed_memory
from penstock.spark.resident.directory import (
    NO_QUERY,
    EngineId,
    Process,
    ResidentDirectory,
    cannot_start,
    memory_of,
    too_large,
)
from penstock.spark.settings import HOST_REQUEST_S, LIVENESS_POLL_S, MEMORY_POLL_S
from penstock.spark.wire.protocol import Kind, Message, receive, send

_RUN_TIME = ("penstock.engine", "penstock.streamon", "penstock.approx")
"""The packages of which an engine may import modules."""


@dataclass
class Child:
    """A running engine. ``most``: bytes it may hold, with those that it shares with the host."""

    pid: int
    socket: Path
    limit: int | None = None
    most: float = math.inf

    def exceeds(self) -> bool:
        try:
            return self.limit is not None and memory_of(self.pid) > self.most
        except OSError:
            return False  # it has ended


class Host:
    """Starts engines on request and ends them; single-threaded, so requests cannot race."""

    def __init__(self, home: ResidentDirectory, idle_seconds: float) -> None:
        self.home = home
        self.idle_seconds = idle_seconds
        self.children: dict[EngineId, Child] = {}
        self.too_large: dict[EngineId, int] = {}
        self.last_used = time.monotonic()
        self.listening = listen(home.host_socket)
        self._inode = home.host_socket.stat().st_ino

    def run(self) -> None:
        """Serve until the JVM has ended, the host is idle for long, or another host took the directory."""
        try:
            while self._wanted():
                limited = any(child.limit is not None for child in self.children.values())
                wait = MEMORY_POLL_S if limited else LIVENESS_POLL_S
                ready, _, _ = select.select([self.listening], [], [], wait)
                if ready:
                    self._serve()
                self._reap()
                self._end_those_too_large()
        finally:
            self._end(list(self.children))
            if self._reachable():
                shutil.rmtree(self.home.path, ignore_errors=True)

    def _wanted(self) -> bool:
        idle = time.monotonic() - self.last_used
        needed = bool(self.children) or idle < self.idle_seconds
        return needed and self.home.jvm.alive and self._reachable()

    def _reachable(self) -> bool:
        """Whether the socket still exists; if it was removed, another host will start."""
        try:
            return self.home.host_socket.stat().st_ino == self._inode
        except OSError:
            return False

    def _serve(self) -> None:
        connection, _ = self.listening.accept()
        self.last_used = time.monotonic()
        with connection:
            connection.settimeout(HOST_REQUEST_S)
            try:
                self._answer(connection, receive(connection))
            except (ConnectionError, TimeoutError):
                return

    def _answer(self, connection: socket.socket, message: Message) -> None:
        if message.kind is Kind.START:
            send(connection, *self._started(*message.head))
        elif message.kind is Kind.QUIT:
            query, plans = message.head
            homeless = [e for e in self.children if e.query_id == NO_QUERY and e.plan in plans]
            self._end([e for e in self.children if e.query_id == query] + homeless)
            send(connection, Kind.QUIT)

    def _started(self, engine_id: EngineId, memory: int | None) -> tuple[Kind, Any]:
        if self.home.over(engine_id.query_id).exists():
            return _failed(EngineError("the query was stopped"))
        if engine_id in self.too_large:
            return _failed(too_large(engine_id, self.too_large.pop(engine_id)))
        try:
            return Kind.START, self._engine(engine_id, memory).pid
        except OSError as error:
            return _failed(cannot_start(self.home, error))

    def _engine(self, engine_id: EngineId, memory: int | None) -> Child:
        """The requested engine. One that no longer listens is dying: end it first."""
        child = self.children.get(engine_id)
        if child is not None and not _listens(child.socket):
            self._end([engine_id])
            child = None
        return child or self._start(engine_id, memory)

    def _start(self, engine_id: EngineId, memory: int | None) -> Child:
        path = self.home.socket(engine_id)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        listening = listen(path)
        host = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.listening.close()
            _become_engine(engine_id, listening, path, host, self.idle_seconds)
        listening.close()
        most = math.inf if memory is None else memory_of(host) + memory
        self.children[engine_id] = Child(pid, path, memory, most)
        return self.children[engine_id]

    def _reap(self) -> None:
        for engine_id, child in list(self.children.items()):
            if os.waitpid(child.pid, os.WNOHANG)[0]:
                self._forget(engine_id)

    def _end_those_too_large(self) -> None:
        """End engines above their limit; their relays ask for new ones, and get the reason why there is none.

        From outside, since a compiled kernel lets no other code of its process run, and allocations that
        fail under a limit of the system end a process without a word.
        """
        for engine_id, child in list(self.children.items()):
            if child.limit is not None and child.exceeds():
                self.too_large[engine_id] = child.limit
                self._end([engine_id])

    def _end(self, ids: list[EngineId]) -> None:
        """Kill engines: all their state is in the state store."""
        for engine_id in ids:
            os.kill(self.children[engine_id].pid, signal.SIGKILL)
        for engine_id in ids:
            os.waitpid(self.children[engine_id].pid, 0)
            self._forget(engine_id)

    def _forget(self, engine_id: EngineId) -> None:
        child = self.children.pop(engine_id)
        child.socket.unlink(missing_ok=True)
        if not any(o.query_id == engine_id.query_id for o in self.children):
            shutil.rmtree(child.socket.parent, ignore_errors=True)
        self.last_used = time.monotonic()


def _become_engine(
    engine_id: EngineId, listening: socket.socket, path: Path, host: int, idle_seconds: float
) -> None:
    """Run the engine in the forked child; never returns."""
    from penstock.spark.resident.server import ResidentEngine, Watchdog, serve

    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        engine = ResidentEngine(engine_id)
        serve(listening, engine, Watchdog(idle_seconds, host))
    finally:
        os._exit(1)


def _failed(error: PenstockError) -> tuple[Kind, Any]:
    return Kind.FAILED, {"error": error, "trace": ""}


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at a path."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    sock.listen(16)
    return sock


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        return sock.connect_ex(str(path)) == 0


def preload() -> None:
    """Import what every engine needs before the first fork, with one thread: engines run in parallel."""
    keep_freed_memory()
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    import pandas  # noqa: F401  pyarrow looks for it when it meets the first NumPy array

    import penstock.spark.resident.server  # noqa: F401

    for package in _RUN_TIME:
        _import_all(package)
    from penstock.engine.kernels.hashing import hash_rows

    # The first call of a kernel starts Numba: half a second of CPU that each engine then saves.
    hash_rows([pa.array([1])], 1)


def _import_all(package: str) -> None:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def main(arguments: list[str]) -> None:
    """Arguments: the JVM's process id and start time, the root directory, seconds of idleness."""
    pid, started, root, idle_seconds = arguments
    tell_ready = _detach()
    home = ResidentDirectory(Process(int(pid), started), Path(root))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    host = Host(home, float(idle_seconds))
    os.write(tell_ready, b"1")
    os.close(tell_ready)
    host.run()


def _detach() -> int:
    """Continue in a detached child; the caller's process exits when the child is ready or has failed."""
    is_ready, tell_ready = os.pipe()
    if os.fork():
        os.close(tell_ready)
        os._exit(0 if os.read(is_ready, 1) else 1)
    os.close(is_ready)
    os.setsid()
    return tell_ready


if __name__ == "__main__":
    main(sys.argv[1:])
