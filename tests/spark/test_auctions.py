"""Auctions and bids through Spark, with a tenth of the memory that the open auctions take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from longer import LONG

import penstock
from penstock.measurement import Kind, Measurements, Property
from penstock.spark.driver.session import Session
from penstock.workloads.auctions import DDL, AuctionWorkload
from penstock.workloads.files import write_slices

pytestmark = pytest.mark.spark

WORKLOAD = AuctionWorkload(rate=60, slice_seconds=60)
SLICES = 5
BUDGET = WORKLOAD.open_at_once // 10
QUERY = f"""
    SELECT ISTREAM ALL(Auctions.seller, Bids.price)
    FROM   Auctions [RANGE {WORKLOAD.open_seconds} SECONDS], Bids [NOW]
    WHERE  Auctions.auction = Bids.auction
    WITHIN MEMORY {BUDGET} ROWS MAXIMIZE RESULTS
"""


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("auctions")
    write_slices(root, WORKLOAD.slices(SLICES))
    return root


@pytest.fixture(params=[1, 2] if LONG else [2])
def session(spark: Any, streams: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    with closing(penstock.connect(spark, partitions=request.param)) as session:
        for name, columns in DDL.items():
            session.sql(
                f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts "
                f"FROM PARQUET '{streams / name}' OPTIONS (maxFilesPerTrigger '1')"
            )
        yield session


def run(session: Session, text: str) -> tuple[int, list[float], Measurements]:
    """How many results a query gives, the rows its engines keep after each batch, and what they publish."""
    results, rows, joins = 0, list[float](), Measurements()

    def note(batch: Any, _: int) -> None:
        nonlocal results, joins
        results += batch.count()
        joins = session.metrics().of_operator("binary-join")
        rows.append(joins.of_kind(Kind.OPERATOR).total(Property.ROWS))

    query = session.sql(text)
    assert query is not None
    query.writeStream.foreachBatch(note).trigger(availableNow=True).start().awaitTermination()
    return results, rows, joins


def test_with_a_tenth_of_the_memory_old_auctions_are_worth_more_than_new_ones(session: Session) -> None:
    best, rows, joins = run(session, QUERY)
    recent, rows_of_recent, _ = run(session, f"{QUERY} USING RECENT")
    assert joins.text(Property.POLICY) == "AGE"
    assert best >= 2 * recent > 0
    assert BUDGET / 2 < max(rows) <= BUDGET
    assert max(rows_of_recent) <= BUDGET
    bids = sum(WORKLOAD.slice(n)["Bids"].num_rows for n in range(SLICES))
    assert best / bids > 0.06  # a tenth would be found with the whole memory at work from the beginning
