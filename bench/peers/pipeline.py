"""Many queries: in one pipeline, each as a Penstock query of its own, and each as a Spark query.

python -m bench.peers.pipeline --queries 1,10,50 --systems pipeline,separate,spark

The queries are a mix of filters, groups of time windows and joins of two and three streams, over three
streams of packets; their thresholds and window sizes repeat, as those of many users do. Every measurement is
a process of its own. Rounds of files are written, and a round is over when every query has processed it.
After the rounds that warm up, CPU time is that of all processes (JVM, Python workers, engines), memory what
they hold for themselves at the end (unique set size); ``idle`` is a session that runs nothing.

Then, in a pipeline, a round is written every second, and queries are registered meanwhile: how long batches
take is Spark's own report. Measurements may be made in several runs: ``--append FILE`` keeps those so far,
``--report FILE`` prints the table of all, and ``--write-docs`` also writes it to docs/pipelines.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

from bench.peers import document
from bench.peers.processes import MARK, cpu_seconds, memory_bytes

STREAMS = ("C", "B", "O")
TRIGGER = "1 second"
SIZES = (900, 950, 990)
WINDOWS = (10, 5)


@dataclass(frozen=True)
class Asked:
    """A query: in CQL, and as a function from Spark's streams by name to a DataFrame."""

    cql: str
    frame: Callable[[dict[str, Any]], Any]


def asked(many: int) -> list[Asked]:
    """The mix: of ten queries two filter, four group, three join two streams and one joins three."""
    kinds = (_filter, _group, _join, _group, _join, _filter, _group, _join, _group, _join_three)
    return [kinds[n % 10](n // 10 + n % 10, STREAMS[n % 3], STREAMS[(n + 1) % 3]) for n in range(many)]


def _filter(n: int, s: str, t: str) -> Asked:
    size = SIZES[n % len(SIZES)]
    cql = f"SELECT ISTREAM(pid, link, size) FROM {s} [NOW] WHERE size > {size}"
    return Asked(cql, lambda streams: streams[s].where(f"size > {size}").select("pid", "link", "size"))


def _group(n: int, s: str, t: str) -> Asked:
    seconds, size = WINDOWS[n % len(WINDOWS)], SIZES[n % len(SIZES)]
    cql = (
        f"SELECT ISTREAM(link, COUNT(*) AS n, MAX(size) AS most) FROM {s} [TUMBLE {seconds} SECONDS] "
        f"GROUP BY link HAVING MAX(size) > {size}"
    )

    def frame(streams: dict[str, Any]) -> Any:
        from pyspark.sql import functions as F

        grouped = streams[s].groupBy(F.window("t", f"{seconds} seconds"), "link")
        return grouped.agg(F.count("*").alias("n"), F.max("size").alias("most")).where(f"most > {size}")

    return Asked(cql, frame)


def _join(n: int, s: str, t: str) -> Asked:
    seconds, size = WINDOWS[n % len(WINDOWS)], SIZES[n % len(SIZES)]
    cql = (
        f"SELECT ISTREAM(x.pid, x.size, y.size AS other) FROM {s} [RANGE {seconds} SECONDS] AS x, "
        f"{t} [RANGE {seconds} SECONDS] AS y WHERE x.pid = y.pid AND x.size > y.size + {size - 900}"
    )
    near = f"x.t >= y.t - interval {seconds} seconds AND x.t <= y.t + interval {seconds} seconds"

    def frame(streams: dict[str, Any]) -> Any:
        from pyspark.sql import functions as F

        on = F.expr(f"x.pid = y.pid AND {near} AND x.size > y.size + {size - 900}")
        return streams[s].alias("x").join(streams[t].alias("y"), on).select("x.pid", "x.size")

    return Asked(cql, frame)


def _join_three(n: int, s: str, t: str) -> Asked:
    seconds = WINDOWS[n % len(WINDOWS)]
    cql = (
        f"SELECT ISTREAM(C.pid, C.size, O.size AS other) FROM C [RANGE {seconds} SECONDS], "
        f"B [RANGE {seconds} SECONDS], O [RANGE {seconds} SECONDS] WHERE C.pid = B.pid AND B.pid = O.pid"
    )

    def frame(streams: dict[str, Any]) -> Any:
        from pyspark.sql import functions as F

        def near(a: str, b: str) -> Any:
            span = f"interval {seconds} seconds"
            return F.expr(f"{a}.pid = {b}.pid AND {a}.t >= {b}.t - {span} AND {a}.t <= {b}.t + {span}")

        two = streams["C"].alias("C").join(streams["B"].alias("B"), near("C", "B"))
        return two.join(streams["O"].alias("O"), near("B", "O")).select("C.pid", "C.size")

    return Asked(cql, frame)


class Feed:
    """Files of packets: ``rows`` of each stream per round, which is a second of stream time."""

    def __init__(self, root: Path, rows: int) -> None:
        self.root, self.rows, self._round = root, rows, 0
        for name in STREAMS:
            (root / name).mkdir(parents=True)

    def write(self) -> None:
        """The next round."""
        start, self._round = self._round * 1_000_000, self._round + 1
        for number, name in enumerate(STREAMS):
            die = np.random.default_rng([self._round, number])
            stamps = np.sort(die.integers(start, start + 1_000_000, self.rows))
            table = pa.table(
                {
                    "pid": die.integers(0, 20 * self.rows, self.rows),
                    "link": die.integers(0, 200, self.rows),
                    "size": die.integers(0, 1000, self.rows),
                    "t": pa.array(stamps, pa.timestamp("us", "UTC")),
                }
            )
            hidden = self.root / name / f".{self._round:05}.parquet"
            pq.write_table(table, hidden)
            hidden.rename(self.root / name / f"{self._round:05}.parquet")


def _nothing(query: Asked) -> None:
    raise SystemExit("only a pipeline takes queries while it runs")


@dataclass(frozen=True)
class System:
    """Queries that run; ``wait`` returns when all have processed what there is; ``add`` adds one.

    ``batches``: the seconds of each batch so far, by number.
    """

    wait: Callable[[], None]
    stop: Callable[[], None]
    add: Callable[[Asked], None] = _nothing
    batches: Callable[[], dict[int, float]] = dict


def _pipeline(ps: Any, root: Path, queries: Sequence[Asked], **how: Any) -> System:
    # By what the mix needs: queries that are registered later must find it.
    split = {name: [["pid"], ["link"]] for name in STREAMS}
    own = {"streams": list(STREAMS), "split": split, **how}
    pipeline = ps.pipeline("bench", checkpoint=str(root / "ck"), **own)
    for n, query in enumerate(queries):
        pipeline.register(f"q{n}", query.cql)
    pipeline.start(TRIGGER)
    names = count(len(queries))
    add = lambda query: pipeline.register(f"q{next(names)}", query.cql)  # noqa: E731
    return System(pipeline.process_all_available, pipeline.stop, add, lambda: _batches(pipeline.query))


def _batches(query: Any) -> dict[int, float]:
    return {p.batchId: p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress}


def _one_clock(ps: Any, root: Path, queries: Sequence[Asked]) -> System:
    return _pipeline(ps, root, queries, one_clock=True)


def _two_stages(ps: Any, root: Path, queries: Sequence[Asked]) -> System:
    return _pipeline(ps, root, queries, stages=2)


def _separate(ps: Any, root: Path, queries: Sequence[Asked]) -> System:
    return _started([ps.sql(q.cql) for q in queries], root)


def _idle(ps: Any, root: Path, queries: Sequence[Asked]) -> System:
    ps.spark.range(1000).selectExpr("sum(id)").collect()
    return System(lambda: None, lambda: None)


def _spark(ps: Any, root: Path, queries: Sequence[Asked]) -> System:
    schema = "pid BIGINT, link BIGINT, size BIGINT, t TIMESTAMP"
    read = {n: ps.spark.readStream.schema(schema).parquet(str(root / "in" / n)) for n in STREAMS}
    late = {name: frame.withWatermark("t", "0 seconds") for name, frame in read.items()}
    return _started([q.frame(late) for q in queries], root)


def _started(frames: Sequence[Any], root: Path) -> System:
    running = [
        f.writeStream.format("noop").outputMode("append").queryName(f"q{n}")
        .option("checkpointLocation", str(root / f"ck{n}")).trigger(processingTime=TRIGGER).start()
        for n, f in enumerate(frames)
    ]  # fmt: skip

    def wait() -> None:
        for query in running:
            query.processAllAvailable()

    def stop() -> None:
        for query in running:
            query.stop()

    return System(wait, stop)


REGISTERING = ("pipeline", "one-clock", "two-stages")
SYSTEMS = {
    "idle": _idle,
    "pipeline": _pipeline,
    "one-clock": _one_clock,
    "two-stages": _two_stages,
    "separate": _separate,
    "spark": _spark,
}


def child(system: str, many: int, rows: int, warmup: int, rounds: int, flow: int) -> dict[str, float]:
    """One measurement, in this process."""
    import penstock

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        feed = Feed(root / "in", rows)
        ps = penstock.connect(partitions=2)
        for name in STREAMS:
            columns = "pid BIGINT, link BIGINT, size BIGINT, t TIMESTAMP"
            ps.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY t FROM PARQUET '{root / 'in' / name}'")
        feed.write()
        running = SYSTEMS[system](ps, root, asked(many))
        for _ in range(warmup):
            running.wait()
            feed.write()
        running.wait()
        before, took = cpu_seconds(), []
        for _ in range(rounds):
            began = time.perf_counter()
            feed.write()
            running.wait()
            took.append(time.perf_counter() - began)
        found = {"cpu": (cpu_seconds() - before) / rounds, "seconds": median(took), "bytes": memory_bytes()}
        if system in REGISTERING:
            found |= _registering(feed, running, asked(many + REGISTERED)[many:], flow)
        running.stop()
        ps.spark.stop()
    return found


REGISTERED = 4
"""Queries that are registered while rows flow."""


def _registering(feed: Feed, running: System, more: Sequence[Asked], flow: int) -> dict[str, float]:
    """How long batches take while ``flow`` rows per second come, without and with registrations."""
    feed.rows, ended = flow // len(STREAMS), threading.Event()

    def write() -> None:
        due = time.monotonic()
        while not ended.is_set():
            feed.write()
            due += 1
            time.sleep(max(due - time.monotonic(), 0))

    writing = threading.Thread(target=write)
    writing.start()
    time.sleep(6)  # to the new rate
    before, calls = max(running.batches()), []
    time.sleep(3 * len(more))
    between = max(running.batches())
    for query in more:
        began = time.perf_counter()
        running.add(query)
        calls.append(time.perf_counter() - began)
        time.sleep(3)
    ended.set()
    writing.join()
    seconds = running.batches()
    quiet = [s for n, s in seconds.items() if before < n <= between]
    busy = [s for n, s in seconds.items() if n > between]
    return {
        "flow": flow,
        "batch": median(quiet),
        "batch_most": max(quiet),
        "registering": median(busy),
        "registering_most": max(busy),
        "call": median(calls),
    }


def measured(system: str, many: int, options: argparse.Namespace) -> dict[str, float]:
    """One measurement, in a process of its own."""
    # Separate queries need minutes to start: with --quick one round of them must do.
    rounds = (options.warmup, options.rounds)
    if options.quick:
        rounds = (4, 3) if system in REGISTERING else (1, 1)
    sizes = [str(n) for n in (options.rows, *rounds, options.flow)]
    command = [sys.executable, "-m", "bench.peers.pipeline", "--child", system, str(many), *sizes]
    environment = {**os.environ, MARK: uuid.uuid4().hex}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.timeout)
    if out.returncode:
        raise SystemExit(f"{system} with {many} queries failed:\n{out.stderr[-2000:]}")
    return dict(json.loads(out.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="penstock bench pipeline", description=__doc__.split("\n")[0])
    parser.add_argument("--queries", default="1,10,50", help="how many, several by commas")
    parser.add_argument("--systems", default="pipeline,one-clock,separate,spark", help="of these, by commas")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of each stream per round")
    parser.add_argument("--warmup", type=int, default=12, help="rounds before, to fill the windows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few rounds, fewest of separate queries")
    parser.add_argument("--timeout", type=int, default=1200, help="seconds for one measurement")
    parser.add_argument("--flow", type=int, default=100_000, help="rows per second while queries register")
    parser.add_argument("--append", type=Path, metavar="FILE", help="keep the measurements in a file")
    parser.add_argument("--report", type=Path, metavar="FILE", help="only print those of a file")
    parser.add_argument("--write-docs", action="store_true", help="write the table to docs/pipelines.md")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        system, *numbers = options.child
        print(json.dumps(child(system, *map(int, numbers))))
        return
    if options.report:
        _report(json.loads(options.report.read_text()), options.write_docs)
        return
    known = options.append and options.append.exists()
    found: list[dict[str, Any]] = json.loads(options.append.read_text()) if known else []
    for many in map(int, options.queries.split(",")):
        for system in options.systems.split(","):
            print(f"{system}, {many} queries ...", file=sys.stderr)
            own = {"system": system, "queries": many, "rows": options.rows}
            found.append({**own, **measured(system, many, options)})
            if options.append:
                options.append.write_text(json.dumps(found, indent=1))
    _report(found, options.write_docs)


def _report(found: Sequence[dict[str, Any]], write_docs: bool) -> None:
    idle = next((f["bytes"] for f in found if f["system"] == "idle"), None)
    heads = ("queries", "system", "CPU s a round", "seconds a round", "rows/s", "MB", "MB over idle")
    table = Table(*heads, box=box.ASCII2)
    for f in sorted(found, key=lambda f: (list(SYSTEMS).index(f["system"]), f["queries"])):
        rate = f"{len(STREAMS) * f['rows'] / f['seconds']:,.0f}" if f["system"] != "idle" else ""
        own = [f"{f['cpu']:.2f}", f"{f['seconds']:.2f}", rate, f"{f['bytes'] / 1e6:,.0f}"]
        table.add_row(str(f["queries"]), f["system"], *own, _over(f, idle))
    console = Console(width=110, record=True)
    console.print(table, *_slopes(found, idle), *_registered(found), sep="\n")
    if write_docs:
        document.write("pipelines.md", "penstock bench pipeline", console.export_text())


def _over(found: dict[str, Any], idle: float | None) -> str:
    return "" if idle is None else f"{(found['bytes'] - idle) / 1e6:,.0f}"


def _slopes(found: Sequence[dict[str, Any]], idle: float | None) -> Iterator[str]:
    """What another query costs, by system, and what 50 are estimated to cost."""
    for system in SYSTEMS:
        own = sorted((f for f in found if f["system"] == system), key=lambda f: f["queries"])
        if len(own) > 1:
            few, most = own[0], own[-1]
            more = most["queries"] - few["queries"]
            cpu, size = ((most[what] - few[what]) / more for what in ("cpu", "bytes"))
            yield f"{system}: another query takes {cpu:.3f} CPU s a round and {size / 1e6:.1f} MB"
            if most["queries"] < 50:
                rest = 50 - most["queries"]
                total = (most["cpu"] + rest * cpu, (most["bytes"] + rest * size) / 1e6)
                yield f"{system}: so 50 would take {total[0]:.1f} CPU s a round and {total[1]:,.0f} MB"


def _registered(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for f in (f for f in found if "flow" in f):
        most, usual, longest = f["registering_most"], f["batch"], f["batch_most"]
        yield (
            f"{f['system']}, {f['queries']} queries, {f['flow']:,} rows/s: batches take {usual:.2f} s, "
            f"at most {longest:.2f} s; with registrations {f['registering']:.2f} s, at most {most:.2f} s: "
            f"{most - usual:.2f} s over the median without, {most - longest:.2f} s over the longest; "
            f"the call takes {f['call']:.2f} s"
        )


if __name__ == "__main__":
    main()
