"""The directory of a JVM's resident engines on a machine, and the processes they must not outlive.

Every JVM that runs Spark tasks has its own directory, accessible to its owner only and named by the JVM's
process id and start time (ids are reused). A directory whose JVM has ended is removed by the next process
that makes one. Within it each query has a directory with a socket per engine.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import shutil
import socket
import stat
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.errors import DataError, EngineError, PenstockError

_LONGEST_PATH = 100
"""A Unix socket's path has 108 bytes on Linux, 104 elsewhere."""


@dataclass(frozen=True)
class Process:
    """A process, identified by its id and start time."""

    pid: int
    started: str

    @staticmethod
    def of(pid: int) -> Process:
        """The process that has this id now."""
        return Process(pid, _stat(pid)[19])

    @property
    def alive(self) -> bool:
        try:
            fields = _stat(self.pid)
        except OSError:
            return False
        return fields[19] == self.started and fields[0] != "Z"


def _stat(pid: int) -> list[str]:
    """Fields of /proc/pid/stat after the command: 0 is the state, 1 the parent, 19 the start time."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def memory_of(pid: int) -> int:
    """Bytes of memory that a process holds for itself, in RAM or swapped out; not address space or files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    held = [line.split() for line in lines if line.startswith(("RssAnon:", "VmSwap:"))]
    return sum(int(kilobytes) for _, kilobytes, _ in held) << 10


def _is_jvm(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "java"


@lru_cache(maxsize=1)
def spark_ancestors(pid: int) -> tuple[Process, ...]:
    """The processes between a Python worker and its JVM: the daemon that forked it, then the JVM itself."""
    chain: list[Process] = []
    while pid > 1:
        pid = int(_stat(pid)[1])
        chain.append(Process.of(pid))
        if pid > 1 and _is_jvm(pid):
            return tuple(chain)
    raise EngineError("this Python worker has no JVM above it; resident engines only run under Spark")


NO_QUERY = ""
"""The query of an engine whose task does not know it: its job came from a thread that Spark does not know."""


@dataclass(frozen=True)
class EngineId:
    """Identifies an engine: by the query, which keeps its id over its runs, and a stage of a plan of ours.

    Several plans may be parts of one Spark query, so stage numbers alone identify nothing. ``plan`` is an
    identity that is made with the plan's DataFrame and pickled into its tasks. Neither depends on anything
    that a user sets, such as job groups.
    """

    query_id: str
    plan: str
    stage: int
    partition: int

    def __str__(self) -> str:
        return f"stage {self.stage + 1}, partition {self.partition}"


@dataclass(frozen=True)
class ResidentDirectory:
    """The directory of one JVM's residents."""

    jvm: Process
    root: Path

    @staticmethod
    def all(root: Path) -> list[ResidentDirectory]:
        """The directories below a root, of whichever JVMs."""
        names = [path.name.partition("-") for path in root.glob("[0-9]*-[0-9]*")]
        return [ResidentDirectory(Process(int(pid), started), root) for pid, _, started in names]

    @staticmethod
    def of_jvm(pid: int) -> ResidentDirectory:
        """The directory of a JVM by process id; it need not exist yet."""
        return ResidentDirectory(Process.of(pid), _root())

    @staticmethod
    def of_worker() -> ResidentDirectory:
        """The directory for the Python worker that calls this."""
        return ResidentDirectory(spark_ancestors(os.getpid())[-1], _root())

    @property
    def path(self) -> Path:
        return self.root / f"{self.jvm.pid}-{self.jvm.started}"

    @property
    def host_socket(self) -> Path:
        return self.path / "host.sock"

    def query(self, query_id: str) -> Path:
        return self.path / _short(query_id)

    def over(self, query_id: str) -> Path:
        """The file that marks a query as stopped: no engine of it is started until it is started again."""
        return self.path / f"{_short(query_id)}.over"

    def marks(self) -> list[Path]:
        """The marks of all stopped queries."""
        return list(self.path.glob("*.over"))

    def socket(self, engine: EngineId) -> Path:
        """The socket of an engine."""
        return self.query(engine.query_id) / f"{engine.plan}s{engine.stage}p{engine.partition}.sock"

    def make(self) -> None:
        """Make the directory, for the owner only, and remove those of JVMs that have ended."""
        for directory in (self.root, self.path):
            directory.mkdir(mode=0o700, exist_ok=True)
            _check_private(directory)
        for other in ResidentDirectory.all(self.root):
            if not other.jvm.alive:
                shutil.rmtree(other.path, ignore_errors=True)


_plans = itertools.count()


def new_plan() -> str:
    """An identity for the plan of a DataFrame, short because paths of sockets are limited.

    Those of one process sort as they were made.
    """
    return f"{next(_plans):04x}{secrets.token_hex(4)}"


def _short(query_id: str) -> str:
    """The name of a query's directory."""
    return hashlib.sha256(query_id.encode()).hexdigest()[:12]


def cannot_start(home: ResidentDirectory, error: OSError) -> PenstockError:
    """The error for a directory in which no engine can be started."""
    return DataError(
        f"no engine can be started in {home.path} on {socket.gethostname()}: {error}; make room there, "
        "or point TMPDIR to another directory before Spark starts"
    )


def too_large(engine_id: EngineId, limit: int | None = None) -> PenstockError:
    """The error for an engine that needs more memory than its limit, or than the machine has."""
    which = "the machine has" if limit is None else f"penstock.engine_memory = {_mb(limit)} allows"
    return DataError(
        f"the engine of {engine_id} needs more memory than {which}; raise the limit, use smaller windows, "
        "or start the query with more partitions and a new checkpoint"
    )


def _mb(size: int) -> str:
    return f"{size >> 20} MB" if size >> 20 else f"{size >> 10} KB"


def _root() -> Path:
    name = f"penstock-{os.getuid()}"
    wanted = Path(tempfile.gettempdir()) / name
    return wanted if len(str(wanted)) + 60 < _LONGEST_PATH else Path("/tmp") / name


def _check_private(directory: Path) -> None:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EngineError(f"{directory} must be a directory that only you can enter; remove it")
