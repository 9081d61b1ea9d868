"""A query that runs on: its log, snapshots and checkpoint follow the size of its state, not its age.

Only ``make faults`` runs it, for hundreds of batches (PENSTOCK_SOAK); ``test_state_log`` also tests when a
log is replaced by a snapshot.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.measurement import Measurements, Property
from penstock.spark.driver.session import Session
from penstock.spark.settings import SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("PENSTOCK_SOAK" not in os.environ, reason="only by make faults"),
]

SECONDS = int(os.environ.get("PENSTOCK_SOAK", "14"))
"""Batches, each of a second of the streams' time."""
ROWS = 10_000
"""Rows of each of the two streams per second."""
GROUPS = 5
LONG = 100
"""Batches from which the size of the checkpoint is compared: Spark deletes old files every few seconds."""

QUERY = """
SELECT A.g, COUNT(*) AS n, SUM(B.v) AS total
FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k GROUP BY A.g
"""


def second(root: Path, number: int) -> None:
    """The rows of one second: a file for each stream."""
    draw = np.random.default_rng(number)
    for name in ("A", "B"):
        columns = {
            "t": np.sort(draw.integers(1000 * number, 1000 * (number + 1), ROWS)),
            "k": draw.integers(0, 20 * ROWS, ROWS),
            "g": draw.integers(0, GROUPS, ROWS),
            "v": draw.integers(0, 1000, ROWS),
        }
        new = root / name / ".new"
        pq.write_table(pa.table(columns), new)
        new.rename(root / name / f"{number:05}.parquet")


def bytes_of(directory: Path) -> int:
    return sum(f.stat().st_size for f in directory.rglob("*") if f.is_file())


def check_logs(metrics: Measurements) -> None:
    """Of every engine: the log is at most twice the state it stands for, but for the floor and one record."""
    for place, own in metrics.by_engine().items():
        state = own.entity("engine").value(Property.BYTES)
        log, snapshot = own.value(Property.LOG_BYTES), own.value(Property.SNAPSHOT_BYTES)
        assert log <= 2 * max(SNAPSHOT_LOG_BYTES, SNAPSHOT_LOG_PER_STATE * state), place
        assert snapshot <= max(64 << 10, 2 * state), place


def test_a_checkpoint_does_not_grow_with_the_age_of_its_query(session: Session, tmp_path: Path) -> None:
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        declared = f"CREATE STREAM {name} (t BIGINT, k BIGINT, g BIGINT, v BIGINT) TIMESTAMP BY t "
        session.sql(f"{declared} IN MILLISECONDS FROM PARQUET '{tmp_path / name}'")
    query: Any = session.sql(QUERY).writeStream.format("noop")
    query = query.option("checkpointLocation", str(tmp_path / "c")).start()
    sizes = []
    for number in range(SECONDS):
        second(tmp_path, number)
        query.processAllAvailable()
        check_logs(session.metrics())
        sizes.append(bytes_of(tmp_path / "c"))
        for name in ("A", "B"):
            (tmp_path / name / f"{number - 5:05}.parquet").unlink(missing_ok=True)
    found = session.metrics()
    query.stop()
    snapshots = [m.value for m in found.of(Property.SNAPSHOT_BYTES) if m.stage == 2]
    assert len(snapshots) == 2 and all(snapshots), "both logs of the second stage were replaced"
    third = SECONDS // 3
    if SECONDS >= LONG:
        assert max(sizes[2 * third :]) < 1.5 * max(sizes[third : 2 * third]), sizes[::10]
