"""Runs the queries over NEXMark's files on Spark, and compares their results with DuckDB's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.nexmark.answers import BY_ARRIVAL, Bag, answer, bag, cql, net
from bench.nexmark.spark_frames import FRAMES, UPDATED
from bench.peers.harness import STATE, spark_settings
from bench.peers.systems import PROVIDER
from penstock.spark.driver.session import Session
from penstock.workloads.files import StreamDirectory, write_slices
from penstock.workloads.nexmark import DDL, NexmarkWorkload, side_input

FILES = 2
"""Files of each stream in a micro-batch: one a core."""
ROCKSDB = {
    STATE + "providerClass": PROVIDER + "RocksDBStateStoreProvider",
    STATE + "rocksdb.changelogCheckpointing.enabled": "true",
}
"""The state store of Spark's own queries."""
WINDOWED = {"q5": 2, "q7": 5, "q8": 2, "q11": 3}
"""The column of a result that says which window it is of: its end, or of q8 its start."""
VERIFIED = NexmarkWorkload(rate=400, events=8_000)
"""For the comparison: batches of 20 seconds, so that windows and sessions end."""
BATCHES = 4


@dataclass(frozen=True)
class Files:
    """A directory of NEXMark's streams, read by both systems in the same micro-batches."""

    spark: SparkSession
    root: Path

    def streams(self) -> dict[str, DataFrame]:
        read = self.spark.readStream.option("maxFilesPerTrigger", FILES)
        frames = {name: read.schema(ddl).parquet(str(self.root / name)) for name, ddl in DDL.items()}
        return {**frames, "side_input": self.spark.read.parquet(str(self.root / "side_input"))}

    def on_penstock(self, session: Session, query: str) -> DataFrame:
        for name, frame in self.streams().items():
            if name == "side_input":
                session.create_table(name, frame, replace=True)
            else:
                session.create_stream(name, frame, timestamp="dateTime", replace=True)
        arriving = self.streams()["bid"].select("auction", "bidder", "price")
        session.create_stream("arriving_bid", arriving, timestamp="arrival", replace=True)
        frame = session.sql(cql(query))
        assert frame is not None
        return frame

    def on_spark(self, query: str) -> DataFrame:
        streams = self.streams()
        late = {name: streams[name].withWatermark("dateTime", "0 seconds") for name in DDL}
        return FRAMES[query]({**streams, **late})

    @staticmethod
    def written(spark: SparkSession, root: Path, workload: NexmarkWorkload, batches: int) -> Files:
        write_slices(root, workload.slices(batches), FILES)
        StreamDirectory(root / "side_input").append(side_input())
        return Files(spark, root)


def _collected(frame: DataFrame, checkpoint: Path, mode: str = "append") -> list[tuple[Any, ...]]:
    """All rows that a query returns, in the order of its batches."""
    rows: list[tuple[Any, ...]] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
    options = writer.outputMode(mode).option("checkpointLocation", str(checkpoint))
    options.trigger(availableNow=True).start().awaitTermination()
    return rows


def verify(files: Files, session: Session, query: str) -> list[str]:
    """Compare the results over VERIFIED with DuckDB's; the systems that were compared.

    Spark shows a window in the batch after the one that passed its end, so those count that ended before the
    last batch.
    """
    if query == BY_ARRIVAL:
        return []
    slices = list(VERIFIED.slices(BATCHES))
    tables = {name: pa.concat_tables([s[name] for s in slices]) for name in DDL} | {
        "side_input": side_input()
    }
    until = slices[-2]["bid"]["dateTime"].cast("int64")[-1].as_py()
    wanted = answer(tables, query, until)
    frame = files.on_penstock(session, query)
    rows = _collected(frame, files.root / f"verify-{query}")
    head = 2 if "op" in frame.columns[:2] else 1
    changes = [(row[1] if head == 2 else "+", row[head:]) for row in rows]
    _same(query, "Penstock", _ended(query, net(changes), until), wanted)
    if query not in FRAMES:
        return ["penstock"]
    with spark_settings(files.spark, ROCKSDB):
        mode = "update" if query in UPDATED else "append"
        found = _collected(files.on_spark(query), files.root / f"verify-spark-{query}", mode)
    if query in UPDATED:
        found = list({row[:2]: row for row in found}.values())
    _same(query, "Spark", _ended(query, bag(found), until), wanted)
    return ["penstock", "spark"]


def _ended(query: str, found: Bag, until: int) -> Bag:
    """Of windows, those that ended by then."""
    if query not in WINDOWED:
        return found
    last = until - (10_000_000 if query == "q8" else 0)
    return Counter({row: n for row, n in found.items() if row[WINDOWED[query]] <= last})


def _same(query: str, system: str, found: Bag, wanted: Bag) -> None:
    if found != wanted:
        more, less = list(found - wanted)[:2], list(wanted - found)[:2]
        raise SystemExit(f"{query}: {system} differs from DuckDB: {more} too many, {less} missing")
