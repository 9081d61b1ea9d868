"""A program that runs a query over files into files, from its checkpoint: it is there to be killed.

Its argument is JSON: ``master``, ``partitions``, ``shuffle``, ``root`` (with the streams' directories L and
R, and where checkpoint and result go), ``query``, and ``conf``, more of Spark's settings. ``counts``: results
are written by a function that counts each batch first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark.driver.local_spark import LOCAL

ROW = "k BIGINT, v BIGINT, t BIGINT, beat BOOLEAN"


def main(told: dict[str, Any]) -> None:
    builder = SparkSession.builder.master(told["master"]).appName("to-kill")
    shuffle = {"spark.sql.shuffle.partitions": str(told["shuffle"])}
    for key, value in {**LOCAL, **shuffle, **told["conf"]}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ps = penstock.connect(spark, told["partitions"])
    for name in ("L", "R"):
        reader = spark.readStream.schema(ROW).option("maxFilesPerTrigger", 1)
        # L, with heartbeats, is read by Spark, and R by Arrow.
        beat = "beat" if name == "L" else None
        ps.create_stream(name, reader.parquet(f"{told['root']}/{name}"), timestamp="t", heartbeat=beat)
    for setting in told["settings"]:
        ps.sql(setting)
    df = ps.sql(told["query"])
    assert df is not None
    writer = df.writeStream.format("parquet").option("path", f"{told['root']}/out")
    if told.get("counts"):
        writer = df.writeStream.foreachBatch(counted(f"{told['root']}/out"))
    writer = writer.option("checkpointLocation", f"{told['root']}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def counted(out: str) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        rows = batch.count()
        batch.write.mode("overwrite").parquet(f"{out}/batch={number}")
        assert batch.sparkSession.read.parquet(f"{out}/batch={number}").count() == rows

    return write


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
