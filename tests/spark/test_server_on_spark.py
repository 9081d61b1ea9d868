"""The server over queries on Spark: what it shows, what it changes, and what survives."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from killing import command_line
from stage_on_spark import Files
from waiting import PATIENCE, until

import penstock
from penstock.cli.shell_client import Client
from penstock.measurement import Property

pytestmark = pytest.mark.spark

COUNTS = "SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k"
ROWS = [[(t % 3, t) for t in range(first, first + 10)] for first in (0, 10, 20)]


def expected(rows: list[tuple[int, int]], upto: int) -> list[tuple[int, str, int, int]]:
    """The changes whose instants are complete: those before the last row's."""
    found = penstock.evaluate(COUNTS, {"S": [(t, {"k": k}) for k, t in rows]}, {"S": "k BIGINT"})
    return sorted((ts, op, row["k"], row["n"]) for ts, op, row in found if ts < upto)


class Counts:
    """The query of counts, registered through a server."""

    def __init__(self, session: Any, server: Any, files: Files) -> None:
        self.session, self.server, self.files = session, server, files
        self.client = Client(server.link())
        self.rows: list[tuple[int, int]] = []
        self.add()
        assert self.client.post("/api/queries", name="counts", text=COUNTS)["state"] == "running"
        self.feed = server.model.backend.feed("counts")

    def add(self) -> None:
        """The next ten rows."""
        new = ROWS[len(self.rows) // 10]
        self.rows += new
        self.files.add(new)

    def shown(self) -> list[tuple[Any, ...]]:
        rows = [r for batch in self.feed.recent() for r in batch.to_pylist()]
        return sorted((r["ts"], r["op"], r["k"], r["n"]) for r in rows)

    def complete(self) -> bool:
        """Whether all results of the rows so far are there."""
        return self.shown() == expected(self.rows, len(self.rows) - 1)

    def state(self) -> str:
        self.server.model.sample()
        return str(self.client.get("/api/queries/counts")["state"])

    def used(self, prop: Property) -> set[Any]:
        return {m.text or m.value for m in self.session.metrics().of(prop)}


@pytest.fixture
def counts(session: Any, files: Files, tmp_path: Path) -> Iterator[Counts]:
    df = session.spark.readStream.schema("k BIGINT, t BIGINT").option("maxFilesPerTrigger", 1)
    session.create_stream("S", df.parquet(str(files.root)), timestamp="t")
    session.sql(f"SET penstock.checkpoint = '{tmp_path / 'checkpoint'}'")
    server = session.serve(port=0)
    try:
        yield Counts(session, server, files)
    finally:
        server.stop()


def test_a_query_is_registered_changed_stopped_and_resumed(counts: Counts) -> None:
    client = counts.client
    until(counts.complete)
    client.post("/api/queries/counts/settings", settings={"scheduler": "chain", "slice_rows": 4})
    counts.add()
    until(counts.complete)
    # Spark may have asked for commands just before, and for files just after: then it is the next batch.
    until(lambda: counts.used(Property.SCHEDULER) == {"chain"} and counts.used(Property.SLICE_ROWS) == {4.0})
    counts.server.model.sample()
    made = [(d["entity"], d["after"]) for d in client.get("/api/decisions") if d["kind"] == "setting"]
    assert made == [("scheduler", "chain"), ("slice_rows", "4")]
    client.post("/api/queries/counts/stop")
    assert client.get("/api/queries/counts")["state"] == "stopped"
    client.post("/api/queries/counts/start")
    counts.add()
    until(counts.complete)
    until(lambda: counts.used(Property.SCHEDULER) == {"chain"})  # a restart keeps what was changed


def test_the_server_outlives_killed_engines_workers_and_restarts(counts: Counts) -> None:
    until(counts.complete)
    for victims in (engines, workers):
        for pid in victims(counts):
            os.kill(pid, signal.SIGKILL)
        pages_answer(counts)
        counts.add()
        until(lambda: counts.complete() or counts.state() == "failed")
        pages_answer(counts)
        if counts.state() == "failed":
            told = counts.client.get("/api/queries/counts")
            assert told["error"] and told["advice"]
            counts.client.post("/api/queries/counts/start")
            until(counts.complete)
    until(lambda: counts.state() == "running")
    counts.client.post("/api/queries/counts/stop")
    pages_answer(counts)
    counts.client.post("/api/queries/counts/start")
    until(lambda: counts.state() == "running")
    pages_answer(counts)


def engines(counts: Counts) -> list[int]:
    return list({int(m.value) for m in counts.session.metrics().of(Property.PID)})


def workers(counts: Counts) -> list[int]:
    """Python workers of Spark, but not the daemon that starts them."""
    below = psutil.Process().children(recursive=True)
    found = [p for p in below if "pyspark.daemon" in command_line(p) and p.ppid() in {q.pid for q in below}]
    daemons = {p.pid for p in found if not any(p.ppid() == q.pid for q in found)}
    return [p.pid for p in found if p.pid not in daemons]


def pages_answer(counts: Counts) -> None:
    for path in ("/", "/plan?query=counts", "/graphs", "/decisions"):
        own = {"Authorization": f"Bearer {counts.server.access.token}"}
        request = urllib.request.Request(f"{counts.server.url}{path}", headers=own)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 200, path
    for path in ("plan", "findings", "memory", "settings", "history"):
        counts.client.get(f"/api/queries/counts/{path}")
