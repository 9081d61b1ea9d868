"""The queries of NEXMark on Penstock and on Spark Structured Streaming, on the same files.

First every query's results over a finite input are compared with DuckDB's, those of Spark as well where it
can express the query. Then both run over more files into a sink that discards, after a query that nobody
measures: the first batches warm up, and of the others the table shows events per second (by the median
batch), CPU seconds per million events, of all processes, and the memory held after the last batch: the JVM's,
and Python workers' and engines' where there are some.

    penstock bench nexmark [--queries q3,q5] [--events 200000] [--json]
    penstock bench nexmark --append FILE [--minutes 7]    # in pieces: the queries that FILE does not have yet
    penstock bench nexmark --flink PYTHON                 # also Flink, in an environment with apache-flink
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from bench.nexmark import flink
from bench.nexmark.answers import QUERIES
from bench.nexmark.spark_frames import FRAMES, UPDATED, WITHOUT
from bench.nexmark.verify import BATCHES, ROCKSDB, VERIFIED, Files, verify
from bench.peers.harness import local_spark, measure, spark_settings
from bench.peers.processes import cpu_seconds, live_bytes, mark
from penstock.spark.driver.session import Session
from penstock.workloads.nexmark import NexmarkWorkload

CORES = 2
WARMING = "q17"
"""The query that warms the JVM up: both systems keep state for it and return many rows."""
SPARK = "spark-"
"""What the names of runs of Spark's own queries begin with: they need no Python processes."""
Found = dict[str, dict[str, Any]]


def main(argv: list[str] | None = None) -> None:
    options = _options(argv)
    console = Console(stderr=options.json or options.markdown)
    mark()
    if options.flink:
        flink.check(options.flink)
    done, wanted = _done(options), options.queries
    options.queries = [q for q in options.queries if q not in done]
    with tempfile.TemporaryDirectory(prefix="penstock-nexmark-") as directory:
        spark = local_spark(CORES, Path(directory) / "spark.log")
        try:
            result = _run(spark, Path(directory), options, console, done)
        finally:
            spark.stop()
        if options.flink:
            _on_flink(Path(directory) / "flink", [q for q in wanted if q in result], options, result, console)
        else:
            console.print(flink.ABSENT, highlight=False)
    result = {q: result[q] for q in QUERIES if q in result}
    console.print(_table(result, options))
    if any("flink" in found for found in result.values()):
        console.print(_flink_table(result))
    if options.json:
        print(json.dumps({"events": options.events, "queries": result}, indent=2))
    elif options.markdown:
        print(markdown(result))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="penstock bench nexmark", description=(__doc__ or "").split("\n")[0]
    )
    add = parser.add_argument
    add("--queries", default=",".join(QUERIES), help="of q0 to q22, by commas (default: all)")
    add(
        "--events",
        type=int,
        default=200_000,
        help="persons, auctions and bids in a batch (default %(default)s)",
    )
    add("--rate", type=int, default=20_000, help="events per second of stream time (default %(default)s)")
    add("--warmup", type=int, default=3, help="batches before those that count (default %(default)s)")
    add("--batches", type=int, default=4, help="batches that count (default %(default)s)")
    add("--append", type=Path, metavar="FILE", help="JSON of earlier runs, which this one adds to")
    add("--minutes", type=float, default=float("inf"), help="begin no query after so many")
    add("--flink", type=Path, metavar="PYTHON", help="of an environment that has apache-flink")
    add("--alone", action="store_true", help="Penstock without Spark's own queries")
    add("--json", action="store_true", help="print JSON on standard output, the table on standard error")
    add("--markdown", action="store_true", help="print the table of the documentation")
    options = parser.parse_args(argv)
    options.queries = options.queries.split(",")
    for query in options.queries:
        if query not in QUERIES:
            parser.error(f"there is no query {query!r}; NEXMark has q0 to q22")
    return options


def _run(
    spark: SparkSession, root: Path, options: argparse.Namespace, console: Console, done: dict[str, Found]
) -> dict[str, Found]:
    session = penstock.connect(spark)
    small = Files.written(spark, root / "small", VERIFIED, BATCHES)
    workload = NexmarkWorkload(options.rate, options.events)
    # One more than is measured, so that the last one is seen to end before engines end.
    large = Files.written(spark, root / "large", workload, options.warmup + options.batches + 1)
    result = dict(done)
    begun = time.monotonic()
    if options.queries:
        _warm(large, session, options)
    for number, query in enumerate(options.queries, 1):
        if time.monotonic() - begun > options.minutes * 60:
            break
        session.sql("SET penstock.at_end = 'complete'")
        verified = verify(small, session, query)
        session.sql("SET penstock.at_end = 'none'")
        found = {
            "penstock": _measured(large.on_penstock(session, query), large.root, query, "append", options)
        }
        if query in FRAMES and not options.alone:
            mode = "update" if query in UPDATED else "append"
            with spark_settings(spark, ROCKSDB):
                found["spark"] = _measured(
                    large.on_spark(query), large.root, f"{SPARK}{query}", mode, options
                )
        result[query] = found
        if options.append:
            _write(options, result)
        said = (
            f"results as DuckDB's: {', '.join(verified)}" if verified else "windows by arrival: not compared"
        )
        rates = ", ".join(f"{name} {f['events_per_second']:,} events/s" for name, f in found.items())
        console.print(f"{query} ({number} of {len(options.queries)}): {rates}; {said}", highlight=False)
    return result


def _on_flink(
    root: Path, wanted: list[str], options: argparse.Namespace, result: dict[str, Found], console: Console
) -> None:
    """Add what Flink takes for the queries that it has not run yet."""
    slices = options.warmup + options.batches
    wanted = [q for q in wanted if "flink" not in result[q]]
    flink.write(root, NexmarkWorkload(options.rate, options.events), slices)
    for query, found in flink.run(options.flink, root, wanted, slices * options.events):
        result[query]["flink"] = found
        console.print(f"{query}: flink {found['events_per_second']:,} events/s", highlight=False)
        if options.append:
            _write(options, result)


def _warm(files: Files, session: Session, options: argparse.Namespace) -> None:
    """Run a query of each system that nobody measures, so that the first ones do not pay for all: the JVM
    compiles what queries have in common.
    """
    session.sql("SET penstock.at_end = 'none'")
    _measured(files.on_penstock(session, WARMING), files.root, "warm", "append", options)
    if not options.alone:
        with spark_settings(files.spark, ROCKSDB):
            _measured(files.on_spark(WARMING), files.root, f"{SPARK}warm", "update", options)


def _done(options: argparse.Namespace) -> dict[str, Found]:
    """The queries that a file of earlier runs has, which must be of the same sizes."""
    if not options.append or not options.append.exists():
        return {}
    known = json.loads(options.append.read_text())
    if known["sizes"] != _sizes(options):
        raise SystemExit(f"{options.append} has a run with other sizes: {known['sizes']}")
    queries: dict[str, Found] = known["queries"]
    return queries


def _sizes(options: argparse.Namespace) -> dict[str, int]:
    return {n: getattr(options, n) for n in ("events", "rate", "warmup", "batches")}


def _write(options: argparse.Namespace, result: dict[str, Found]) -> None:
    found = {"events": options.events, "sizes": _sizes(options), "queries": result}
    options.append.write_text(json.dumps(found, indent=1))


class Spent:
    """CPU seconds of all processes by the number of batches that have ended, as they are seen to; memory."""

    def __init__(self, warmup: int, batches: int, memory: Callable[[], int]) -> None:
        self._warmup, self._batches, self._memory = warmup, batches, memory
        self._seen = {0: cpu_seconds()}
        self._held: int | None = None

    def note(self, batches: int) -> None:
        """So many batches have ended by now."""
        if batches not in self._seen:
            self._seen[batches] = cpu_seconds()
        if batches >= self._warmup + self._batches and self._held is None:
            self._held = self._memory()

    def held(self) -> int:
        """Memory after the last batch that counts; after the end if the run was over before that was seen."""
        return self._memory() if self._held is None else self._held

    def per_batch(self) -> float:
        """Of the batches since the first look after those that warm up; of all if that was the last look."""
        last = max(self._seen)
        first = min((n for n in self._seen if self._warmup <= n < last), default=0)
        return (self._seen[last] - self._seen[first]) / max(last - first, 1)


def _measured(
    frame: DataFrame, root: Path, name: str, mode: str, options: argparse.Namespace
) -> dict[str, Any]:
    python = not name.startswith(SPARK)
    spent = Spent(options.warmup, options.batches, lambda: live_bytes(frame.sparkSession, python))
    counts = (options.warmup, options.batches)
    run = measure(name, frame, root / f"checkpoint-{name}", *counts, mode=mode, watch=spent.note, every=0.1)
    return {
        "events_per_second": round(options.events / run.median_ms * 1000),
        "batch_ms": run.batch_ms,
        "cpu_per_million": round(spent.per_batch() / options.events * 1e6, 2),
        "memory_bytes": spent.held(),
        "results": run.results,
    }


def _ratio(found: Found, key: str) -> float | None:
    return found["spark"][key] / found["penstock"][key] if "spark" in found else None


def _cells(query: str, found: Found) -> list[str]:
    ours, theirs = found["penstock"], found.get("spark")
    speed, cpu = _ratio(found, "events_per_second"), _ratio(found, "cpu_per_million")
    return [
        query,
        f"{ours['events_per_second']:,}",
        f"{theirs['events_per_second']:,}" if theirs else WITHOUT.get(query, ""),
        f"{1 / speed:.1f}" if speed else "",
        f"{ours['cpu_per_million']:.1f}",
        f"{theirs['cpu_per_million']:.1f}" if theirs else "",
        f"{cpu:.1f}" if cpu else "",
        f"{ours['memory_bytes'] / 1e6:,.0f}",
        f"{theirs['memory_bytes'] / 1e6:,.0f}" if theirs else "",
    ]


HEADS = (
    "query", "events/s", "Spark events/s", "times", "CPU s per million", "Spark's", "times", "MB",
    "Spark's MB",
)  # fmt: skip


def _table(result: dict[str, Found], options: argparse.Namespace) -> Table:
    table = Table(
        title=f"NEXMark, batches of {options.events:,} events, local[{CORES}]", title_justify="left"
    )
    for head in HEADS:
        table.add_column(head, justify="left" if head == "query" else "right")
    for query, found in result.items():
        table.add_row(*_cells(query, found))
    return table


FLINK_HEADS = ("query", "Flink events/s", "CPU s per million")


def _flink_cells(result: dict[str, Found]) -> list[list[str]]:
    measured = [(q, found["flink"]) for q, found in result.items() if "flink" in found]
    return [[q, f"{f['events_per_second']:,}", f"{f['cpu_per_million']:.1f}"] for q, f in measured]


def _flink_table(result: dict[str, Found]) -> Table:
    table = Table(title="Flink, over the same rows as CSV files", title_justify="left")
    for head in FLINK_HEADS:
        table.add_column(head, justify="left" if head == "query" else "right")
    for cells in _flink_cells(result):
        table.add_row(*cells)
    return table


def flink_markdown(result: dict[str, Found]) -> str:
    """Its table in the documentation; nothing if it was not measured."""
    rows = _flink_cells(result)
    lines = [
        f"| {' | '.join(FLINK_HEADS)} |",
        "| --- | ---: | ---: |",
        *(f"| {' | '.join(r)} |" for r in rows),
    ]
    return "\n".join(lines) if rows else ""


def markdown(result: dict[str, Found]) -> str:
    """The table of the documentation."""
    lines = [f"| {' | '.join(HEADS)} |", "| --- |" + " ---: |" * (len(HEADS) - 1)]
    return "\n".join(lines + [f"| {' | '.join(_cells(q, found))} |" for q, found in result.items()])


if __name__ == "__main__":
    main()
