"""The programs of docs/operations.md: a changelog kept as a table, and measurements as a DataFrame."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.measurement import Measurement, Measurements

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def blocks(word: str) -> str:
    """The block of Python that has a word."""
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if word in b)
    return block


@pytest.mark.spark
def test_measurements_are_a_dataframe_also_where_there_are_none(spark: Any) -> None:
    with closing(penstock.connect(spark, partitions=2)) as ps:
        assert not ps.metrics()
        exec(blocks("ps.metrics()"), {"ps": ps, "query": SimpleNamespace(runId="none")})
        assert spark.createDataFrame([], Measurements.SCHEMA).columns == list(Measurement._fields)


@pytest.mark.spark
def test_changes_become_a_table(spark: Any, tmp_path: Path) -> None:
    recipe: dict[str, Any] = {}
    exec(blocks("keep_table"), recipe)
    (tmp_path / "in").mkdir()
    for number, (times, users) in enumerate((([1, 2, 3], "aab"), ([4, 5, 9], "bcc"))):
        rows = pa.table({"t": pa.array(times, pa.int64()), "user": list(users)})
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet")
    columns, table = ["user", "n"], str(tmp_path / "table")
    keep, batches = recipe["keep_table"](table, columns), list[int]()

    def twice(batch: Any, batch_id: int) -> None:
        batches.append(batch_id)
        keep(batch, batch_id)
        keep(batch, batch_id)

    with closing(penstock.connect(spark, partitions=2)) as ps:
        source = spark.readStream.schema("t BIGINT, user STRING").option("maxFilesPerTrigger", 1)
        ps.create_stream("Users", source.parquet(str(tmp_path / "in")), "t")
        df = ps.sql("SELECT user, COUNT(*) AS n FROM Users [RANGE 3] GROUP BY user")
        writer = df.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert len(batches) > 1
    # At 8, the last instant before that of the last row, the window has the row of c at 5.
    found = {tuple(row) for row in recipe["current_table"](spark, table, columns).collect()}
    assert found == {("c", 1, 1)}
