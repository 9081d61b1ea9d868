"""The L-rating: the most expressways whose answers all come within five seconds.

Traffic comes by the clock: with ``speed`` 1 in real time, with 30 two seconds of the clock are a minute of
traffic. The latency of an answer is the time from when its report was due to when the answer is there; if the
feed or the queries fall behind, latencies grow. Before the clock starts, ``warmup`` seconds of traffic are
processed as fast as they go, which fills windows and compiles kernels; their answers do not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.linear_road.on_engine import OnEngine
from bench.linear_road.on_spark import OnSpark, connected
from bench.peers.processes import cpu_seconds, mark
from penstock.engine.stage import TS
from penstock.errors import PenstockError
from penstock.measurement import Kind, Measurements, Property
from penstock.workloads.linear_road import LinearRoad

LIMIT_S = 5.0
"""The benchmark's limit for every answer."""
FILE_S = 0.5
"""Seconds of the clock whose rows come together, at least a second of traffic."""
KNOWN_CARS = 200_000
"""Of so many cars tolls of earlier days are known: a table is copied to every engine."""
POLL_S = 0.02
TOP = 8
"""Operators to name."""


@dataclass(frozen=True)
class Load:
    """What to measure. ``rates``: reports per second and expressway at the beginning and the end."""

    expressways: int
    on: str = "engine"
    partitions: int = 1
    speed: float = 1.0
    seconds: int = 60
    warmup: int = 120
    rates: tuple[float, float] = (1700.0, 1700.0)
    trigger: str = "0 seconds"

    def traffic(self) -> LinearRoad:
        """The traffic of warm-up and measurement."""
        whole, (first, last) = self.warmup + self.seconds, self.rates
        return LinearRoad(self.expressways, whole, 1, first, last, whole, accidents=6.0, history=1)

    @property
    def file_seconds(self) -> int:
        """Seconds of traffic in a file."""
        return max(1, round(FILE_S * self.speed))


@dataclass
class Latencies:
    """Seconds from when a report was due to its answer."""

    load: Load
    start: float = 0.0
    parts: list[np.ndarray] = field(default_factory=list)
    by_query: Counter[str] = field(default_factory=Counter)

    def due(self, second: np.ndarray | int) -> Any:
        """When rows of a second of traffic are due."""
        return self.start + (second - self.load.warmup) / self.load.speed

    def add(self, query: str, elements: pa.RecordBatch, now: float) -> None:
        """Answers that are there now."""
        ts = elements.column(TS).to_numpy()
        ts = ts[ts >= self.load.warmup]
        self.parts.append(now - self.due(ts))
        self.by_query[query] += len(ts)

    def summary(self) -> dict[str, Any]:
        """Percentiles, and the answers of each kind."""
        every = np.concatenate([np.zeros(0), *self.parts])
        if not len(every):
            return {"answers": 0}
        p50, p99 = np.percentile(every, (50, 99))
        found = {"answers": len(every), "p50": float(p50), "p99": float(p99), "max": float(every.max())}
        return {**found, "by_query": dict(self.by_query)}


def measure(load: Load) -> dict[str, Any]:
    """Run one load."""
    runner = _on_spark if load.on == "spark" else _on_engine
    found = runner(load)
    within = found.get("max", float("inf")) <= LIMIT_S
    return {**asdict(load), **found, "within": within}


def _files(load: Load) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each file, and the last second that it holds."""
    for number, batch in enumerate(load.traffic().batches(load.file_seconds)):
        yield min((number + 1) * load.file_seconds, load.warmup + load.seconds) - 1, batch


def _on_engine(load: Load) -> dict[str, Any]:
    engine, latencies = OnEngine(load.traffic().history_of(KNOWN_CARS), load.partitions), Latencies(load)
    files = list(_files(load))
    early = [batch for last, batch in files if last < load.warmup]
    for start in range(0, len(early), 10):
        engine.push(_joined(early[start : start + 10]))
    files, rows, busy, longest = files[len(early) :], 0, 0.0, 0.0
    before = _operators(engine)
    latencies.start, cpu = time.perf_counter(), time.process_time()
    while files:
        now = time.perf_counter()
        due = [batch for last, batch in files if latencies.due(last) <= now]
        if not due:
            time.sleep(max(0.0, latencies.due(files[0][0]) - now))
            continue
        files = files[len(due) :]
        found = engine.push(_joined(due))
        done = time.perf_counter()
        longest = max(longest, done - now)
        rows, busy = rows + sum(b.num_rows for b in due), busy + done - now
        for name, several in found.items():
            for elements in several:
                latencies.add(name, elements, done)
    took, cpu = time.perf_counter() - latencies.start, time.process_time() - cpu
    where = {name: s - before.get(name, 0.0) for name, s in _operators(engine).items()}
    return {
        **latencies.summary(), "rows": rows, "rows_per_second": rows / took, "busy": busy / took,
        "longest_step": longest, "cores": cpu / took, "rows_per_cpu_second": rows / cpu,
        "operators": _shares(where, busy),
        "state_bytes": sum(e.state_bytes() for e in engine.pipeline.engines),
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _operators(engine: OnEngine) -> dict[str, float]:
    """Seconds that operators have run, by what they do."""
    found: Counter[str] = Counter()
    for one in engine.pipeline.engines:
        for entity in one.entities:
            found[f"{entity.node.name} {entity.node.describe()}".strip()[:90]] += entity.seconds
    return dict(found)


def _shares(seconds: dict[str, float], whole: float) -> dict[str, float]:
    """The operators that took most, as shares of the time that the engine was busy."""
    most = sorted(seconds.items(), key=lambda item: -item[1])[:TOP]
    return {name: s / whole for name, s in most} if whole else {}


class _Feed(threading.Thread):
    """Shows prepared files to Spark when they are due."""

    def __init__(self, files: Sequence[tuple[int, Path]], target: Path, latencies: Latencies) -> None:
        super().__init__(name="feed", daemon=True)
        self._files, self._target, self._latencies = files, target, latencies

    def run(self) -> None:
        for last, path in self._files:
            time.sleep(max(0.0, self._latencies.due(last) - time.perf_counter()))
            show(path, self._target)


def show(path: Path, target: Path) -> None:
    """Move a file to where Spark looks for it, as of now."""
    os.utime(path)
    path.rename(target / path.name)


def _on_spark(load: Load) -> dict[str, Any]:
    mark()
    ps, latencies = connected(load.partitions), Latencies(load)
    with tempfile.TemporaryDirectory(prefix="linear-road-") as folder:
        root, staged = Path(folder), []
        (root / "staged").mkdir()
        rows = 0
        for last, batch in _files(load):
            path = root / "staged" / f"{last:06}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), path, compression="lz4")
            staged.append((last, path))
            rows += batch.num_rows if last >= load.warmup else 0
        spark = OnSpark(root, load.traffic().history_of(KNOWN_CARS), load.partitions, ps)
        _warm(spark, [path for last, path in staged if last < load.warmup], load)
        feed = _Feed([f for f in staged if f[0] >= load.warmup], spark.input, latencies)
        list(spark.results())
        latencies.start, cpu = time.perf_counter(), cpu_seconds()
        feed.start()
        batches = _collect(spark, feed, latencies)
        took, cpu = time.perf_counter() - latencies.start, cpu_seconds() - cpu
        operators = _measured(ps.metrics())
        spark.pipeline.stop()
        ps.close()
    whole = sum(operators.values())
    return {
        **latencies.summary(), "rows": rows, "rows_per_second": rows / took, "batches": len(batches),
        "batch_ms": _mean(batches),
        "longest_batch_ms": max((b.get("triggerExecution", 0) for b in batches.values()), default=0),
        "cores": cpu / took, "rows_per_cpu_second": rows / cpu, "operators": _shares(operators, whole),
    }  # fmt: skip


def _measured(found: Measurements) -> dict[str, float]:
    """Seconds that operators have run in all engines since these were built, by what they do."""
    seconds: Counter[str] = Counter()
    for its in found.of_kind(Kind.OPERATOR).by_entity().values():
        name = f"{its.text(Property.NAME)} {its.text(Property.DESCRIPTION)}".strip()[:90]
        seconds[name] += its.total(Property.SECONDS)
    return dict(seconds)


def _warm(spark: OnSpark, paths: Sequence[Path], load: Load) -> None:
    """Traffic before the clock starts, in a few batches."""
    several = max(1, len(paths) // 6)
    spark.pipeline.start(load.trigger)
    for start in range(0, len(paths), several):
        for path in paths[start : start + several]:
            show(path, spark.input)
        spark.pipeline.process_all_available()


def _collect(spark: OnSpark, feed: _Feed, latencies: Latencies) -> dict[int, dict[str, int]]:
    """Read results as they are published, until all rows are processed; Spark's times by batch."""
    batches: dict[int, dict[str, int]] = {}
    quiet_since = time.perf_counter()
    while feed.is_alive() or time.perf_counter() - quiet_since < LIMIT_S:
        for name, elements in spark.results():
            quiet_since = time.perf_counter()
            latencies.add(name, elements, quiet_since)
        progress = spark.pipeline.lastProgress
        if progress and progress["numInputRows"]:
            batches[progress["batchId"]] = dict(progress["durationMs"])
        failed = spark.pipeline.exception()
        if failed is not None:
            raise failed
        time.sleep(POLL_S)
    return batches


def _mean(batches: dict[int, dict[str, int]]) -> dict[str, float]:
    """Milliseconds of the parts of a batch, in the mean."""
    total: Counter[str] = Counter()
    for its in batches.values():
        total.update(its)
    return {name: ms / len(batches) for name, ms in total.most_common()}


def in_own_process(load: Load) -> dict[str, Any]:
    """Measure a load in a process of its own, so that none finds what another left behind."""
    command = [sys.executable, "-m", "bench.linear_road.rating", json.dumps(asdict(load))]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise PenstockError(f"the run with {load.expressways} expressways on {load.on} failed: see above")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def alike(r: dict[str, Any]) -> tuple[str, int, float]:
    """What runs have in common that differ in the number of expressways alone."""
    return r["on"], r["partitions"], r["speed"]


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Latencies by number of expressways beside the limit, a panel for runs that are alike."""
    from matplotlib.figure import Figure

    kinds = sorted({alike(r) for r in results})
    canvas = Figure(figsize=(5.5 * len(kinds), 4), layout="constrained")
    panels = canvas.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for kind, axes in zip(kinds, panels, strict=True):
        mine = sorted((r for r in results if alike(r) == kind), key=lambda r: r["expressways"])
        xs = [r["expressways"] for r in mine]
        for name, line in (("max", "o-"), ("p99", "s--"), ("p50", "^:")):
            axes.plot(xs, [r.get(name) for r in mine], line, label=name)
        axes.axhline(LIMIT_S, color="grey", linewidth=1, label=f"limit, {LIMIT_S:g} s")
        on, partitions, speed = kind
        axes.set(xlabel="expressways", ylabel="seconds", xticks=sorted(set(xs)))
        engines = f"{partitions} engine{'s' * (partitions > 1)}"
        axes.set_title(f"Linear Road on {on}, {engines}, speed {speed:g}", fontsize=10)
        axes.legend()
    panels[0].set_ylim(bottom=0)  # when all is drawn: it ends scaling
    canvas.savefig(path)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(measure(Load(**{**given, "rates": tuple(given["rates"])}))))
