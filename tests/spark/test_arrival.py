"""Streams without timestamps on Spark: rows have the time of their batch, also if a batch is repeated."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from longer import longer

import penstock

pytestmark = pytest.mark.spark

FILES = [[1, 2, 1], [2, 2], [3, 1]]
# NEXMark's query 12: bids by bidder in windows of processing time
QUERY = "SELECT bidder, COUNT(*) AS n FROM bids [RANGE 1 HOUR] GROUP BY bidder"


def run(spark: Any, root: Path, partitions: int) -> dict[int, set[tuple[Any, ...]]]:
    """The changes of each batch, times in milliseconds."""
    found: dict[int, set[tuple[Any, ...]]] = {}

    def note(batch: Any, number: int) -> None:
        rows = batch.selectExpr("unix_millis(ts) AS t", "op", "bidder", "n").collect()
        found[number] = {tuple(r) for r in rows}

    with closing(penstock.connect(spark, partitions=partitions)) as ps:
        ps.sql(
            "CREATE STREAM bids (bidder BIGINT, beat BOOLEAN) TIMESTAMP BY ARRIVAL HEARTBEAT BY beat "
            f"FROM PARQUET '{root / 'bids'}' OPTIONS (maxFilesPerTrigger '1')"
        )
        df = ps.sql(QUERY)
        assert df is not None
        writer = df.writeStream.foreachBatch(note).option("checkpointLocation", str(root / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    return found


@pytest.mark.parametrize("partitions", [2, *longer(1)])
def test_rows_have_the_time_of_their_batch(spark: Any, tmp_path: Path, partitions: int) -> None:
    (tmp_path / "bids").mkdir()
    for number, bidders in enumerate(FILES):
        path = tmp_path / "bids" / f"{number}.parquet"
        beats = [False] * len(bidders)
        pq.write_table(pa.table({"bidder": [*bidders, 7], "beat": [*beats, True]}), path)
        os.utime(path, (number, number))
    found = run(spark, tmp_path, partitions)
    times, counts = [], dict[int, int]()
    for number, bidders in enumerate(FILES):
        logged = (tmp_path / "checkpoint" / "offsets" / str(number)).read_text().splitlines()[1]
        time = json.loads(logged)["batchTimestampMs"]
        times.append(time)
        changed = {b: counts.get(b, 0) + bidders.count(b) for b in set(bidders)}
        entered = {(time, "+", b, n) for b, n in changed.items()}
        left = {(time, "-", b, counts[b]) for b in changed if b in counts}
        assert found[number] == entered | left, number
        counts |= changed
    assert times == sorted(set(times))
    last = len(FILES) - 1
    for name in (str(last), f".{last}.crc"):  # as if Spark had ended before the last batch was committed
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    assert run(spark, tmp_path, partitions) == {last: found[last]}
