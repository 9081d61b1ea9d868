"""The systems that are compared, each as a streaming DataFrame over the same files with the same results.

The query is the join of all streams on ``k``, every two rows of a result within the window of each other:
what CQL says with ``SELECT ISTREAM ALL(...) FROM A [RANGE t], B [RANGE t] WHERE A.k = B.k``. Result columns:
``k``, then each stream's other columns. With the timestamps no two results are equal, whatever the data;
in CQL a result that enters and an equal one that leaves cancel, which Spark's join knows nothing of.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from bench.peers.harness import STATE, Source
from penstock.measurement import Kind, Property
from penstock.spark.driver.session import Session
from penstock.workloads.synthetic import HEAVY_KEY, JoinWorkload

PROVIDER = "org.apache.spark.sql.execution.streaming.state."
NEWEST_FORMAT = "4"
"""pyspark 4.3 says of spark.sql.streaming.join.stateFormatVersion: valid versions are 1, 2, 3, and 4.

The in-memory provider has no column families and keeps the layout of version 2 whatever is asked for.
"""


@dataclass(frozen=True)
class System:
    """A way to run the query: its name, the settings of its run, and whether it gives the join's results."""

    name: str
    settings: dict[str, str] = field(default_factory=dict)
    joins: bool = True


def systems(state_format: str = NEWEST_FORMAT) -> list[System]:
    """All systems, the one that the others are compared with last."""
    join = {"spark.sql.streaming.join.stateFormatVersion": state_format}
    rocksdb = {
        STATE + "providerClass": PROVIDER + "RocksDBStateStoreProvider",
        STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    }
    memory = {STATE + "providerClass": PROVIDER + "HDFSBackedStateStoreProvider"}
    return [
        System("spark-rocksdb", {**join, **rocksdb}),
        System("spark-memory", {**join, **memory}),
        System("discard", joins=False),
        System("penstock-heavy"),
        System("penstock"),
    ]


def result_columns(workload: JoinWorkload) -> list[str]:
    return ["k", *(f"{name.lower()}{column}" for name in workload.names for column in workload.payload)]


def frame(system: System, spark: SparkSession, source: Source, workload: JoinWorkload) -> DataFrame:
    """The system's streaming DataFrame over the sources."""
    if system.name.startswith("penstock"):
        return penstock_join(spark, source, workload, declared=system.name == "penstock-heavy")
    if system.name == "discard":
        return discard(spark, source, workload)
    return spark_join(source, workload)


def cql(workload: JoinWorkload) -> str:
    """The query for Penstock."""
    names = workload.names
    window = f"[RANGE {round(workload.window_seconds * 1000)} MILLISECONDS]"
    values = ", ".join(f"{n}.{c} AS {n.lower()}{c}" for n in names for c in workload.payload)
    keys = " AND ".join(f"{a}.k = {b}.k" for a, b in zip(names, names[1:], strict=False))
    windows = ", ".join(f"{n} {window}" for n in names)
    return f"SELECT ISTREAM ALL({names[0]}.k AS k, {values}) FROM {windows} WHERE {keys}"


def penstock_join(
    spark: SparkSession, source: Source, workload: JoinWorkload, declared: bool = False
) -> DataFrame:
    """With ``declared``, the key that the first stream has most is declared as heavy."""
    session = _session(spark)
    for name in workload.names:
        with suppress(penstock.CatalogError):
            session.drop(name)
        heavy = {"k": [HEAVY_KEY]} if declared and name == workload.names[0] else None
        session.create_stream(name, source(name), timestamp="ts", heavy=heavy)
    joined = session.sql(cql(workload))
    assert joined is not None
    return joined


@cache
def _session(spark: SparkSession) -> Session:
    return penstock.connect(spark)


def engine_bytes(spark: SparkSession) -> int:
    """What Penstock's engines hold now."""
    return int(_session(spark).metrics().of_kind(Kind.ENGINE).total(Property.BYTES))


def discard(spark: SparkSession, source: Source, workload: JoinWorkload) -> DataFrame:
    """Scan the same columns, move them by the same key, and drop them: the least Spark takes for this."""
    rows = source(workload.names[0])
    for name in workload.names[1:]:
        rows = rows.union(source(name))
    return rows.repartition(int(spark.conf.get("spark.sql.shuffle.partitions")), "k")


def spark_join(source: Source, workload: JoinWorkload) -> DataFrame:
    """Spark's own stream-stream joins, chained, with the watermarks that let them drop old rows.

    Spark takes one event-time column a side, so a join's result keeps the first stream's and carries the
    others as numbers of microseconds.
    """
    first, *others = workload.names
    window_us = round(workload.window_seconds * 1_000_000)
    window = f"INTERVAL {window_us} MICROSECONDS"
    joined = _watermarked(source, first)
    for done, name in enumerate(others, start=1):
        near = f"{first}_ts >= {name}_ts - {window} AND {first}_ts <= {name}_ts + {window}"
        also = [f"abs({n}_us - unix_micros({name}_ts)) <= {window_us}" for n in others[: done - 1]]
        condition = " AND ".join([f"{first}_k = {name}_k", near, *also])
        joined = joined.join(_watermarked(source, name), F.expr(condition))
        columns = [c for c in joined.columns if c not in (f"{name}_k", f"{name}_ts")]
        joined = joined.select(*columns, F.unix_micros(f"{name}_ts").alias(f"{name}_us"))
    shown = [_shown(first, name, column) for name in workload.names for column in workload.payload]
    columns = zip([F.col(f"{first}_k"), *shown], result_columns(workload), strict=True)
    return joined.select(*(column.alias(name) for column, name in columns))


def _shown(first: str, name: str, column: str) -> Column:
    if column == "ts" and name != first:
        return F.timestamp_micros(f"{name}_us")
    return F.col(f"{name}_{column}")


def _watermarked(source: Source, name: str) -> DataFrame:
    rows = source(name)
    return rows.select(*(F.col(c).alias(f"{name}_{c}") for c in rows.columns)).withWatermark(
        f"{name}_ts", "0 seconds"
    )
