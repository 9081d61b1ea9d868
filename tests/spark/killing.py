"""Runs ``program_to_kill`` and kills it, or what works for it; then holds its result against the oracle."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oracle
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = Path(__file__).with_name("program_to_kill.py")
QUERY = "SELECT L.k, COUNT(*) AS n, SUM(R.v) AS s FROM L [RANGE 20], R [ROWS 25] WHERE L.k = R.k GROUP BY L.k"
_PATIENCE = 240
"""Seconds that a busy machine may take for a start and a batch."""


@dataclass
class World:
    """Two streams in files, each a micro-batch, and what a query over them has written so far.

    ``command`` starts a program, in ``directory`` with ``environment``.
    """

    root: Path
    files: int
    query: str = QUERY
    seed: int = 1
    rows: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    running: Program | None = None
    command: tuple[str, ...] = (sys.executable,)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: Path = Path.cwd()

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        for name in ("L", "R"):
            self.rows[name] = []
            (self.root / name).mkdir(parents=True)
            for number in range(self.files):
                times = sorted(draw.randint(5 * number, 5 * number + 4) for _ in range(8))
                part = [(t, {"k": draw.randint(0, 4), "v": draw.randint(0, 9)}) for t in times]
                self.rows[name] += part
                self._write(name, number, [{**row, "t": t, "beat": False} for t, row in part])
            self._write(name, self.files, [{"k": 0, "v": 0, "t": self.end + 1, "beat": True}])

    @property
    def end(self) -> int:
        return 5 * self.files

    def _write(self, name: str, number: int, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64()), ("beat", pa.bool_())])
        path = self.root / name / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        os.utime(path, (number, number))

    def start(self, **told: Any) -> Program:
        """The program, from where it was."""
        given = {"master": "local[2,8]", "partitions": 2, "shuffle": 2, "conf": {}, "settings": []}
        self.running = Program(self, {**given, "root": str(self.root), "query": self.query, **told})
        return self.running

    def workers_and_engines(self) -> list[psutil.Process]:
        """Of the running program: Python workers, resident engines and their host."""
        jvm = self.running.jvm() if self.running else None
        if jvm is None or self.running is None:
            return []
        workers = [p for p in self.running.family() if _kind(p) == "worker"]
        return workers + residents(jvm.pid)

    def batches(self) -> int:
        """How many are committed; of the older ones Spark has deleted the files."""
        found = (f.name for f in (self.root / "checkpoint" / "commits").glob("[0-9]*"))
        return max((int(name) for name in found if name.isdigit()), default=-1) + 1

    def check(self, spark: Any) -> None:
        """Nothing lost, nothing twice."""
        rows = [row.asDict() for row in spark.read.parquet(str(self.root / "out")).drop("batch").collect()]
        found = [(row.pop("ts"), row.pop("op", "+"), row) for row in sorted(rows, key=lambda r: r["ts"])]
        expected = oracle.evaluate(self.query, self.rows, until=self.end)
        assert len(expected) > 10
        oracle.assert_same([c for c in found if c[0] <= self.end], expected, self.query)


class Program:
    """A started program, in a session of its own."""

    def __init__(self, world: World, told: dict[str, Any]) -> None:
        self.world = world
        self.log = world.root / "log.txt"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*world.command, str(PROGRAM), json.dumps(told)],
                env=world.environment,
                cwd=world.directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def jvm(self) -> psutil.Process | None:
        """The driver's JVM."""
        return next((p for p in self.family() if _name(p) == "java"), None)

    def family(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def wait_for_batches(self, more: int) -> bool:
        """Until so many more are committed; false if the program ended before."""
        wanted, deadline = self.world.batches() + more, time.monotonic() + _PATIENCE
        while self.world.batches() < wanted:
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)
        return True

    def kill(self, how: str) -> None:
        """ "driver", "jvm" or "all"; returns when everything is gone."""
        family, jvm = self.family(), self.jvm()
        if how == "jvm" and jvm is not None:
            jvm.kill()
        elif how == "driver":
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_PATIENCE)
        psutil.wait_procs(family, _PATIENCE)

    def finish(self) -> None:
        """To the end, which must be a good one."""
        assert self.end() == 0, self.said()

    def end(self) -> int:
        """Its exit code; however long it takes, as long as batches are committed."""
        seen, deadline = self.world.batches(), time.monotonic() + _PATIENCE
        while (code := self.process.poll()) is None:
            if self.world.batches() > seen:
                seen, deadline = self.world.batches(), time.monotonic() + _PATIENCE
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)
        return code

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def kill_again_and_again(world: World, kills: int, draw: random.Random, **told: Any) -> None:
    """Start, let it commit something, kill at a random moment; then let it come to its end."""
    for done in range(kills):
        program = world.start(**told)
        code = None if program.wait_for_batches(draw.randint(1, 2)) else program.process.returncode
        assert code is None, f"ended with {code} before kill {done + 1}: {program.said()}"
        time.sleep(draw.uniform(0, 1.5))
        program.kill(("all", "driver", "jvm")[done % 3])


def finish(world: World, **told: Any) -> None:
    """To the end. A query that fails because of what is killed meanwhile is started again, as one does."""
    for _ in range(10):
        program = world.start(**told)
        if program.end() == 0:
            return
    raise AssertionError(program.said())


@contextmanager
def random_deaths(world: World, draw: random.Random) -> Iterator[list[str]]:
    """Meanwhile kill a worker or an engine in every other batch, at a random moment; what was killed.

    Looked at often enough that few batches are time enough for a death.
    """
    over, killed = threading.Event(), []

    def reap() -> None:
        seen = world.batches()
        while not over.wait(draw.uniform(0.05, 0.5)):
            victims = world.workers_and_engines() if world.batches() >= seen + 1 else []
            if victims:
                victim = draw.choice(victims)
                killed.append(_kind(victim))
                _kill(victim)
                seen = world.batches() + 1

    thread = threading.Thread(target=reap, daemon=True)
    thread.start()
    yield killed
    over.set()
    thread.join()


def residents(jvm: int) -> list[psutil.Process]:
    """The engines of a JVM and their host; they are nobody's children."""
    found = []
    for process in psutil.process_iter():
        line = command_line(process)
        if "penstock.spark.resident.host" in line and str(jvm) in line:
            found.append(process)
    return found


def _kind(process: psutil.Process) -> str:
    line = " ".join(command_line(process))
    if "penstock.spark.resident.host" in line:
        return "resident"
    if "pyspark.daemon" in line:
        return "daemon" if _name(_parent(process)) == "java" else "worker"
    return _name(process)


def command_line(process: psutil.Process | None) -> list[str]:
    """Nothing of one that has gone."""
    try:
        return process.cmdline() if process else []
    except psutil.Error:
        return []


def _name(process: psutil.Process | None) -> str:
    try:
        return process.name() if process else ""
    except psutil.Error:
        return ""


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.Error:
        return None


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        pass
