"""What a session can define besides streams and tables: relations, views, streams by a query, functions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import CatalogError

pytestmark = pytest.mark.spark


def write(directory: Path, **columns: list) -> str:
    directory.mkdir()
    pq.write_table(pa.table(columns), directory / "1.parquet")
    return str(directory)


def test_relation_view_and_function(spark: SparkSession, tmp_path: Path) -> None:
    ps = penstock.connect(spark, partitions=2)
    bids = write(tmp_path / "bids", ts=[1, 2, 3, 9], item=[1, 2, 1, 7], price=[10, 20, 30, 1])
    items = write(
        tmp_path / "items",
        at=[0, 0, 3, 3, 9],
        op=list("++-++"),
        item=[1, 2, 1, 1, 7],
        name=["a", "b", "a", "c", "z"],
    )
    ps.sql(f"""
        CREATE STREAM Bid (ts BIGINT, item BIGINT, price BIGINT) TIMESTAMP BY ts FROM PARQUET '{bids}';
        CREATE RELATION Item (at BIGINT, op STRING, item BIGINT, name STRING) TIMESTAMP BY at CHANGE BY op
            FROM PARQUET '{items}';
    """)
    ps.create_function("in_cents", lambda price: pc.multiply(price, 100), "BIGINT")
    ps.sql("CREATE VIEW Offer AS SELECT item, in_cents(price) AS cents FROM Bid [RANGE 1]")
    ps.sql("CREATE STREAM High AS SELECT ISTREAM(item, price) FROM Bid [NOW] WHERE in_cents(price) > 1500")
    df = ps.sql("SELECT name, cents FROM Offer, Item WHERE Offer.item = Item.item")
    assert df.columns == ["ts", "op", "name", "cents"]
    query = df.writeStream.format("memory").queryName("offers").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = sorted(tuple(r) for r in spark.sql("SELECT * FROM offers").collect())
    assert rows == [
        (1, "+", "a", 1000),
        (2, "+", "b", 2000),
        (3, "+", "c", 3000),
        (3, "-", "a", 1000),
        (4, "-", "b", 2000),
        (5, "-", "c", 3000),
    ]
    assert "spark    Bid: columns item, price" in ps.explain("SELECT COUNT(*) FROM High [RANGE 5]")
    with pytest.raises(penstock.CatalogError, match="'High' is a stream, not a view; use DROP STREAM"):
        ps.sql("DROP VIEW High")
    with pytest.raises(penstock.CatalogError, match="'in_cents' is a function, not a table; use DROP FUNC"):
        ps.sql("DROP TABLE IN_CENTS")
    ps.sql("DROP STREAM High; DROP VIEW Offer; DROP RELATION Item; DROP FUNCTION In_Cents")
    with pytest.raises(penstock.CQLError, match="unknown function 'IN_CENTS'"):
        ps.sql("SELECT in_cents(price) FROM Bid")
    with pytest.raises(penstock.CatalogError, match="UPPER is a function of CQL already"):
        ps.create_function("upper", lambda price: price, "BIGINT")
    ps.close()


def test_marks_other_than_plus_and_minus_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    ps = penstock.connect(spark, partitions=1)
    path = write(tmp_path / "r", at=[0, 1], op=["+", "x"], a=[1, 2])
    ps.sql(
        "CREATE RELATION R (at BIGINT, op STRING, a BIGINT) TIMESTAMP BY at CHANGE BY op "
        f"FROM PARQUET '{path}'"
    )
    query = ps.sql("SELECT a FROM R").writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(Exception, match="1 rows are marked neither '\\+' nor '-'"):
        query.awaitTermination()
    ps.close()


def test_a_stream_whose_first_batch_has_no_tasks(spark: SparkSession) -> None:
    """Spark's rate source has none until a second has passed, and batch 0 does not wait for it."""
    ps = penstock.connect(spark, partitions=2)
    df = ps.sql((Path(__file__).parents[2] / "examples" / "beats.cql").read_text())
    query = df.writeStream.format("memory").queryName("beats").start()
    try:
        while spark.table("beats").isEmpty():
            query.awaitTermination(0.5)
    finally:
        query.stop()
    assert spark.sql("SELECT * FROM beats WHERE newest = 0 AND op = '+'").count() == 1


def test_statements_that_list(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = f"STREAM {{}} Listed (a INT, t BIGINT) TIMESTAMP BY t DISORDER 3 FROM JSON '{tmp_path / 'in'}'"
    with closing(penstock.connect(spark)) as ps:
        ps.sql("CREATE " + stream.format(""))
        ps.sql("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM Listed GROUP BY a")
        ps.sql("CREATE " + stream.format("IF NOT EXISTS") + "; CREATE OR REPLACE " + stream.format(""))
        with pytest.raises(CatalogError, match="'Listed' already exists; drop it first, replace it or"):
            ps.sql("CREATE " + stream.format(""))
        with pytest.raises(CatalogError, match="'v' is a view, not a stream"):
            ps.sql(f"CREATE OR REPLACE STREAM v (t INT) TIMESTAMP BY t FROM JSON '{tmp_path / 'in'}'")
        shown = rows(ps, "SHOW STREAMS")
        assert [name for name, _ in shown] == ["SysStream", "Listed"] and shown[1][1] == "a INT, t BIGINT"
        assert rows(ps, "SHOW TABLES") == []
        assert rows(ps, "SHOW VIEWS") == [("v", "SELECT a, COUNT(*) AS n FROM Listed GROUP BY a")]
        noted = ("t", "BIGINT", "the timestamp in seconds, out of order by up to 3 SECONDS")
        assert rows(ps, "DESCRIBE listed") == [("a", "INT", ""), noted]
        assert rows(ps, "DESCRIBE v") == [("a", "INT", ""), ("n", "BIGINT", "")]
        query = "SELECT a FROM Listed [RANGE 5]"
        assert rows(ps, f"EXPLAIN {query}") == [(ps.explain(query),)]
        table = spark.createDataFrame([(1,)], "k INT")
        ps.create_table("T", table)
        ps.create_table("T", table, replace=True)
        with pytest.raises(CatalogError, match="there is no stream or table 'nobody'"):
            ps.sql("DESCRIBE nobody")
        with pytest.raises(CatalogError, match="disorder and skew mean the same"):
            ps.create_stream("S", spark.readStream.format("rate").load(), "timestamp", disorder=1, skew=1)


def rows(ps: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in ps.sql(text).collect()]
