"""A Spark standalone cluster on loopback: a master and workers of one core each, of pyspark's own package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
from killing import command_line
from waiting import PATIENCE

HOME = Path(pyspark.__file__).parent


@dataclass
class Standalone:
    """The running cluster."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs."""
        return [
            child
            for worker in self.workers
            for child in psutil.Process(worker.pid).children(recursive=True)
            if any("CoarseGrainedExecutorBackend" in part for part in command_line(child))
        ]


@contextmanager
def standalone(root: Path, workers: int = 2, python: str = sys.executable) -> Iterator[Standalone]:
    """A cluster whose files and logs lie under ``root``; its tasks run ``python`` with nothing added."""
    port = _free_port()
    own = ["--host", "127.0.0.1", "--webui-port", "0"]
    started = [_start(root / "master", python, "master.Master", *own, "--port", str(port))]
    master = f"spark://127.0.0.1:{port}"
    try:
        _until_listening(port, started[0], root / "master")
        for n in range(workers):
            place = root / f"worker{n}"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(place / "work")]
            started.append(_start(place, python, "worker.Worker", *own, *limits, master))
        yield Standalone(master, started[1:])
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _start(place: Path, python: str, what: str, *arguments: str) -> subprocess.Popen[bytes]:
    place.mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": python,
    }
    with open(place / "log.txt", "wb") as log:
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=place,
        )


def _until_listening(port: int, process: subprocess.Popen[bytes], place: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        said = (place / "log.txt").read_text(errors="replace")[-2000:]
        assert process.poll() is None and time.monotonic() < deadline, said
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
