"""What SysStream costs: CPU time and batch time of running queries with and without a reader of SysStream.

python -m bench.peers.sysstream --pairs 6 --seconds 8

A query over a steady stream runs all the time. Blocks of some seconds with a query over SysStream, the
thesis's windowed average of a selectivity, alternate with blocks without. Two costs are told: of all
processes, the reader's own included, and how long the watched query's batches take, which is what
publishing does to it. The ratio of each pair is taken, and its mean with a 95 % interval is printed, and
written to docs/sysstream.md by ``--write-docs``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import Any

from bench.peers import document
from bench.peers.processes import cpu_seconds, mark

STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20, 16: 2.13, 20: 2.09}
"""Student's t for 95 %, by the number of pairs."""
WARM_BATCHES = 5
"""Batches before the first block."""
WATCHED = "SELECT value % 100 AS k, COUNT(*) AS n FROM R [RANGE 10 SECONDS] GROUP BY value % 100"
READER = (
    "SELECT query, AVG(value) AS selectivity FROM SysStream [RANGE 10 SECONDS] "
    "WHERE property = 'selectivity' GROUP BY query"
)


class Watched:
    """A query that runs, and a reader of its measurements that comes and goes."""

    def __init__(self, rate: int, trigger: str) -> None:
        import penstock

        self._trigger = trigger
        self.ps = ps = penstock.connect()
        rows = ps.spark.readStream.format("rate").option("rowsPerSecond", rate).load()
        ps.create_stream("R", rows, timestamp="timestamp")
        self.query = self._started(WATCHED, "watched")
        self._reader: Any = None

    def _started(self, cql: str, name: str) -> Any:
        df = self.ps.sql(cql)
        assert df is not None
        writer = df.writeStream.format("noop").queryName(name).trigger(processingTime=self._trigger)
        return writer.start()

    def block(self, read: bool, settle: float, seconds: float) -> tuple[float, float]:
        """CPU seconds of a block, and the mean time of the watched query's batches in it."""
        self._reader = self._started(READER, "reader") if read else None
        time.sleep(settle)
        before, last = cpu_seconds(), self.query.lastProgress.batchId
        time.sleep(seconds)
        spent = cpu_seconds() - before
        took = [p.durationMs["triggerExecution"] for p in self.query.recentProgress if p.batchId > last]
        if self._reader is not None:
            self._reader.stop()
        if not took:
            raise SystemExit(f"no batch ended within {seconds:g} s; give blocks more --seconds")
        return spent, fmean(took) / 1000


def _ratio(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The mean of with / without, and its 95 % interval."""
    ratios = [read / alone for read, alone in pairs]
    margin = STUDENT.get(len(ratios), 2.1) * stdev(ratios) / len(ratios) ** 0.5
    return {"ratio": fmean(ratios), "low": fmean(ratios) - margin, "high": fmean(ratios) + margin}


def _lines(told: dict[str, dict[str, float]], options: argparse.Namespace, usual: float) -> Iterator[str]:
    how = f"{options.rate:,} rows per second, {options.pairs} pairs of {options.seconds:g} s"
    yield f"with a reader of SysStream / without, {how}; batches take {usual:.2f} s without"
    for what, r in told.items():
        yield f"  {what}: {r['ratio']:.3f}, 95 % interval {r['low']:.3f} to {r['high']:.3f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="penstock bench sysstream", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each block")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds before each block")
    parser.add_argument("--rate", type=int, default=20_000, help="rows per second")
    parser.add_argument("--trigger", default="1 second")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write-docs", action="store_true", help="write the figures to docs/sysstream.md")
    options = parser.parse_args(arguments)
    mark()
    watched = Watched(options.rate, options.trigger)
    while (last := watched.query.lastProgress) is None or last.batchId < WARM_BATCHES:
        if not watched.query.isActive:
            raise SystemExit(f"the watched query ended: {watched.query.exception()}")
        time.sleep(0.5)
    # The first reader starts workers and compiles, as the first batches do.
    watched.block(True, options.settle, options.seconds)
    cpu, batch = list[tuple[float, float]](), list[tuple[float, float]]()
    for number in range(options.pairs):
        found = {}
        for read in (True, False) if number % 2 else (False, True):
            found[read] = watched.block(read, options.settle, options.seconds)
        cpu.append((found[True][0], found[False][0]))
        batch.append((found[True][1], found[False][1]))
        print(f"pair {number + 1}: CPU {cpu[-1][0]:.2f} s with, {cpu[-1][1]:.2f} s without", file=sys.stderr)
    told = {"CPU of all processes": _ratio(cpu), "batches of the watched query": _ratio(batch)}
    if options.json:
        print(json.dumps({**told, "pairs": options.pairs, "seconds": options.seconds, "rate": options.rate}))
    else:
        print(text := "\n".join(_lines(told, options, fmean(b for _, b in batch))))
        if options.write_docs:
            document.write("sysstream.md", "penstock bench sysstream", text)
    watched.ps.spark.stop()


if __name__ == "__main__":
    main()
