"""Expressions are ANSI wherever they are computed: a session in which Spark's are not is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import CatalogError
from penstock.spark.driver.local_spark import ANSI

pytestmark = pytest.mark.spark
REFUSED = r"spark.sql.ansi.enabled is false in this session, .* write spark.conf.set"


@pytest.fixture
def ps(session: Any, spark: Any, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, 2], "k": [5, (1 << 63) - 1]}), tmp_path / "in" / "1.parquet")
    session.sql(f"CREATE STREAM S (ts BIGINT, k BIGINT) TIMESTAMP BY ts FROM PARQUET '{tmp_path / 'in'}'")
    yield session
    spark.conf.set(ANSI, "true")


def test_it_is_refused_when_a_query_is_made_and_when_it_starts(ps: Any, spark: Any, tmp_path: Path) -> None:
    df = ps.sql("SELECT k FROM S WHERE k + 1 > 0")
    spark.conf.set(ANSI, "false")
    with pytest.raises(CatalogError, match=REFUSED):
        ps.sql("SELECT k FROM S WHERE k + 1 > 0")
    writer = df.writeStream.foreachBatch(lambda batch, _: None).trigger(availableNow=True)
    with pytest.raises(CatalogError, match=REFUSED):
        writer.start()
    with pytest.raises(CatalogError, match=REFUSED):
        writer.toTable("results_without_ansi")
    pipeline = ps.pipeline("p", str(tmp_path / "p"), ["S"])
    pipeline.register("q", "SELECT k FROM S WHERE k + 1 > 0")
    with pytest.raises(CatalogError, match=REFUSED):
        pipeline.start()


def test_a_query_derived_from_one_keeps_its_meaning(ps: Any, spark: Any) -> None:
    """Spark's own writer checks nothing; what the query was made with holds."""
    derived = ps.sql("SELECT k FROM S WHERE k + 1 > 0").filter("k > 1")
    spark.conf.set(ANSI, "false")
    query = (
        derived.writeStream.foreachBatch(lambda batch, _: batch.collect()).trigger(availableNow=True).start()
    )
    with pytest.raises(Exception, match="overflow"):
        query.awaitTermination()
