"""Runs queries of NEXMark in Flink SQL, by the Python of an environment that has apache-flink.

    PYTHON on_flink.py FOLDER < queries.json

Tables are CSV files below FOLDER, rows go into a sink that discards. Each query runs twice, the first time to
warm the JVM up; a line of JSON has the seconds and the CPU seconds of the second run, or the error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

CORES = 2
TABLES = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "`dateTime` TIMESTAMP(3), extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "`dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "`dateTime` TIMESTAMP(3), extra STRING",
}


def main() -> None:
    root, queries = sys.argv[1], json.load(sys.stdin)
    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    flink.get_config().set("parallelism.default", str(CORES))
    flink.get_config().set("table.local-time-zone", "UTC")
    for name, columns in TABLES.items():
        source = f"'connector' = 'filesystem', 'path' = '{root}/{name}', 'format' = 'csv'"
        time = "WATERMARK FOR `dateTime` AS `dateTime`"
        flink.execute_sql(f"CREATE TABLE {name} ({columns}, {time}) WITH ({source})")
    for query, text in queries.items():
        try:
            _run(flink, f"warm_{query}", text)
            print(json.dumps({"query": query, **_run(flink, query, text)}), flush=True)
        except Exception as error:
            print(json.dumps({"query": query, "error": str(error)[:2000]}), flush=True)


def _run(flink: Any, name: str, text: str) -> dict[str, float]:
    before = _cpu_seconds()
    result = flink.execute_sql(f"CREATE TABLE sink_{name} WITH ('connector' = 'blackhole') AS {text}")
    result.wait()
    seconds = result.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000
    return {"seconds": seconds, "cpu_s": _cpu_seconds() - before}


def _cpu_seconds() -> float:
    """Of the JVM, in which all of it runs."""
    used = get_gateway().jvm.java.lang.ProcessHandle.current().info().totalCpuDuration()
    return float(used.get().toMillis()) / 1000


if __name__ == "__main__":
    main()
