"""Windowed equi-joins of streams: Penstock, Spark's own stream-stream join, and a pipeline without a join.

All systems read the same generated parquet files in the same micro-batches on local Spark and write to a
sink that discards. First, on fewer rows, every system's results are compared: count and checksum. Then each
runs to the end of the files; the first batches warm it up, and the median of the others is shown. The totals
of the timed runs must be equal too.

    python -m bench.peers.spark_join [--ways 2,3] [--rows 400000] [--json] [--state]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.peers.compare import Runs, machine, ratios_of, timed, verify
from bench.peers.harness import Measured, local_spark
from bench.peers.systems import NEWEST_FORMAT, System, systems
from penstock.workloads.synthetic import JoinWorkload


def main(argv: list[str] | None = None) -> None:
    options = _options(argv)
    console = Console(stderr=options.json or options.markdown)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        spark = local_spark(options.cores, Path(directory) / "spark.log")
        try:
            report = run_state if options.state else run_joins
            result = report(spark, Path(directory), options, console)
        finally:
            spark.stop()
    if options.json:
        print(json.dumps(result, indent=2))
    elif options.markdown and "joins" in result:
        print(markdown(result["joins"]))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock bench join", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--ways", default="2,3", help="how many streams to join: a list (default %(default)s)")
    add(
        "--rows", type=int, default=400_000, help="rows of all streams in a micro-batch (default %(default)s)"
    )
    add(
        "--matches",
        type=float,
        default=0.5,
        help="matches a row finds in each other window (default %(default)s)",
    )
    add("--batches", type=int, default=5, help="measured batches in a run (default %(default)s)")
    add("--warmup", type=int, default=3, help="batches before those (default %(default)s)")
    add("--rounds", type=int, default=1, help="runs of every system, in turn (default %(default)s)")
    add("--cores", type=int, default=2, help="local[N] and as many partitions (default %(default)s)")
    add("--systems", default="", help="only these, e.g. discard,penstock")
    add("--state-format", default=NEWEST_FORMAT, help="of Spark's join (default: %(default)s, the newest)")
    add("--state", action="store_true", help="small and large windows at the same rate instead")
    add("--window-rows", default="50000,5000000", help="with --state: rows a partition (default %(default)s)")
    add("--json", action="store_true", help="print JSON on standard output, the tables on standard error")
    add("--markdown", action="store_true", help="print the table of the README")
    return parser.parse_args(argv)


def _chosen(options: argparse.Namespace, default: str) -> list[System]:
    wanted = (options.systems or default).split(",")
    return [s for s in systems(options.state_format) if s.name in wanted]


def run_joins(spark: SparkSession, root: Path, options: argparse.Namespace, console: Console) -> dict:
    """The comparison of all systems for each number of streams."""
    chosen = _chosen(options, "spark-rocksdb,spark-memory,discard,penstock")
    result: dict = {"machine": machine(spark), "joins": {}}
    for ways in map(int, options.ways.split(",")):
        workload = JoinWorkload(streams=ways, rows=options.rows, matches=options.matches)
        name = f"{ways}-way"
        verify(spark, root / f"verify{ways}", workload, [s for s in chosen if s.joins], console)
        runs = Runs(options.warmup, options.batches, options.rounds)
        measured = timed(spark, root / f"timed{ways}", workload, chosen, runs, console)
        ratios = ratios_of(measured)
        console.print(_table(f"{name} windowed join, {_describe(workload, options)}", measured, ratios))
        found = {m.system: m.to_json() for m in measured}
        result["joins"][name] = {"workload": asdict(workload), "systems": found, "ratios": ratios}
    return result


def run_state(spark: SparkSession, root: Path, options: argparse.Namespace, console: Console) -> dict:
    """The same rate and the same matches with windows of different sizes: the rate must not change.

    Every size runs the same number of batches, first as many as fill the largest window.
    """
    chosen = _chosen(options, "penstock")
    workloads = {int(rows): _with_window(options, int(rows)) for rows in options.window_rows.split(",")}
    fill = max(-(-w.window_rows // w.rows_per_stream) for w in workloads.values())
    result: dict = {"machine": machine(spark), "state": {}}
    rates: dict[str, list[float]] = {}
    for rows, workload in workloads.items():
        place = root / f"state{rows}"
        runs = Runs(max(options.warmup, fill), options.batches, options.rounds)
        measured = timed(spark, place, workload, chosen, runs, console)
        console.print(
            _table(f"{rows:,} window rows a partition, {_describe(workload, options)}", measured, {})
        )
        result["state"][str(rows)] = {m.system: m.to_json() for m in measured}
        for m in measured:
            rates.setdefault(m.system, []).append(m.rows_per_second)
        shutil.rmtree(place)
    result["ratios"] = {name: round(r[-1] / r[0], 2) for name, r in rates.items()}
    for name, ratio in result["ratios"].items():
        console.print(f"{name}: the rate with the largest window is {ratio} of that with the smallest")
    return result


def _with_window(options: argparse.Namespace, rows_per_partition: int) -> JoinWorkload:
    """A two-way join whose windows hold that many rows in each partition, both streams together."""
    base = JoinWorkload(streams=2, rows=options.rows, matches=options.matches)
    seconds = rows_per_partition * options.cores / base.rows * base.slice_seconds
    return replace(base, window_seconds=seconds)


def _describe(workload: JoinWorkload, options: argparse.Namespace) -> str:
    return (
        f"batches of {workload.rows:,} rows, {workload.window_rows:,} rows a window, local[{options.cores}]"
    )


def _table(title: str, measured: list[Measured], ratios: dict[str, float]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("system", "rows/s", "batch ms", "slowest", "results", "x Penstock's time"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for m in measured:
        ratio = ratios.get(f"{m.system} / penstock")
        cells = [f"{m.rows_per_second:,.0f}", f"{m.median_ms:,.0f}", f"{max(m.batch_ms):,}", f"{m.results:,}"]
        table.add_row(m.system, *cells, "" if ratio is None else f"{ratio:.2f}")
    return table


def markdown(joins: dict) -> str:
    """The comparison as the README shows it."""
    lines = ["| join | system | rows/s | batch | time, Penstock = 1 |", "| --- | --- | ---: | ---: | ---: |"]
    for name, join in joins.items():
        for system, run in join["systems"].items():
            ratio = join["ratios"].get(f"{system} / penstock", 1.0)
            cells = [name, system, f"{run['rows_per_second']:,}", f"{run['batch_ms']:,} ms", f"{ratio:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
