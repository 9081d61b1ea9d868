"""The server over queries on Spark: what it shows, what it changes, and what survives."""

from __future__ import annotations

from typing import Any

import pytest
from stage_on_spark import Files, until

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


def test_a_query_is_registered_changed_stopped_and_resumed(session: Any, files: Files, tmp_path: Any) -> None:
    df = session.spark.readStream.schema("k BIGINT, t BIGINT").option("maxFilesPerTrigger", 1)
    session.create_stream("S", df.parquet(str(files.root)), timestamp="t")
    session.sql(f"SET penstock.checkpoint = '{tmp_path / 'checkpoint'}'")
    files.add(ROWS[0])
    server = session.serve(port=0)
    try:
        client = Client(server.url)
        assert client.post("/api/queries", name="counts", text=COUNTS)["state"] == "running"
        feed = server.model.backend.feed("counts")

        def shown() -> list[tuple[Any, ...]]:
            rows = [r for batch in feed.recent() for r in batch.to_pylist()]
            return sorted((r["ts"], r["op"], r["k"], r["n"]) for r in rows)

        until(lambda: shown() == expected(ROWS[0], 9), 90)
        client.post("/api/queries/counts/settings", settings={"scheduler": "chain", "slice_rows": 4})
        files.add(ROWS[1])
        until(lambda: shown() == expected(ROWS[0] + ROWS[1], 19), 60)

        def used(prop: Property) -> set[Any]:
            return {m.text or m.value for m in session.metrics().of(prop)}

        # Spark may have asked for commands just before, and for files just after: then it is the next batch.
        until(lambda: used(Property.SCHEDULER) == {"chain"} and used(Property.SLICE_ROWS) == {4.0}, 60)
        server.model.sample()
        made = [(d["entity"], d["after"]) for d in client.get("/api/decisions") if d["kind"] == "setting"]
        assert made == [("scheduler", "chain"), ("slice_rows", "4")]

        client.post("/api/queries/counts/stop")
        assert client.get("/api/queries/counts")["state"] == "stopped"
        client.post("/api/queries/counts/start")
        files.add(ROWS[2])
        until(lambda: shown() == expected(ROWS[0] + ROWS[1] + ROWS[2], 29), 60)
    finally:
        server.stop()
