"""State beyond the memory limit on Spark: same results, no file after a kill, errors that lose nothing."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.measurement import Property

pytestmark = pytest.mark.spark

ROWS = 3000
QUERY = "SELECT ISTREAM ALL(A.k, A.s, B.s AS r) FROM A [RANGE 5000], B [RANGE 5000] WHERE A.k = B.k"


def write(root: Path, number: int) -> None:
    for name, step in (("A", 7), ("B", 11)):
        t = np.arange(number * ROWS, (number + 1) * ROWS)
        k = t * step % 4001
        rows = pa.table({"k": k, "s": [f"{name}{i}" for i in t], "t": t})
        (root / name).mkdir(exist_ok=True)
        pq.write_table(rows, root / name / f"{number}.parquet")


def expected(files: int) -> int:
    """Pairs at most 5000 apart. None of them is found at the last instant, which is not complete."""
    t = np.arange(files * ROWS)
    a, b = t * 7 % 4001, t * 11 % 4001
    by_key: dict[int, list[int]] = {}
    for at, key in enumerate(b):
        by_key.setdefault(int(key), []).append(at)
    return sum(abs(at - other) <= 5000 for at, key in enumerate(a) for other in by_key.get(int(key), ()))


def test_kills_and_missing_directories(spark: Any, tmp_path: Path) -> None:
    place, rows = tmp_path / "overflow", list[Any]()
    write(tmp_path, 0)
    with closing(penstock.connect(spark, partitions=2)) as ps:
        for name in "AB":
            columns = "k BIGINT, s STRING, t BIGINT"
            ps.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t FROM PARQUET '{tmp_path / name}'")
        ps.sql(f"SET penstock.memory_limit = 4 KB; SET penstock.overflow_directory = '{place}'")

        def start() -> Any:
            df = ps.sql(QUERY)
            assert df is not None
            writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
            return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

        with pytest.raises(penstock.QueryFailed, match="cannot be written to .*overflow: No such file"):
            start().processAllAvailable()
        assert not rows
        place.mkdir()
        query = start()
        try:
            query.processAllAvailable()
            found = ps.metrics().query(str(query.runId))
            assert found.total(Property.OVERFLOWED) > 100_000
            assert os.listdir(place) == []
            for pid in found.of(Property.PID):
                os.kill(int(pid.value), signal.SIGKILL)
            write(tmp_path, 1)
            query.processAllAvailable()
        finally:
            query.stop()
    assert os.listdir(place) == []
    assert len(rows) == len(set(rows)) == expected(2)
