"""Queues under a bursty feed, by scheduler (thesis 2.3.2), on the engine's own operators.

python -m bench.engine.schedulers            # a table; --plot FILE.png draws queue sizes over time

Slices of a stream arrive faster than the engine can process them, then none. Time passes as the operators
take it on this machine, measured in CPU seconds; what arrives meanwhile waits in the first queue.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.scheduler import SCHEDULERS, slices
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.settings import Settings

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
QUERIES = {
    "select, group": "SELECT k, COUNT(*) FROM S [ROWS 50000] WHERE v % 5 = 0 AND k % 2 = 0 GROUP BY k",
    "join, select": (
        "SELECT ISTREAM ALL(S.k, T.v) FROM S [RANGE 2000], T [RANGE 2000] WHERE S.k = T.k AND S.v + T.v < 100"
    ),
    "join, group": "SELECT S.k, COUNT(*) FROM S [RANGE 500], T [RANGE 500] WHERE S.k = T.k GROUP BY S.k",
}


@dataclass
class Trace:
    """Elements in the queues over time."""

    times: list[float] = field(default_factory=lambda: [0.0])
    sizes: list[int] = field(default_factory=lambda: [0])

    @property
    def peak(self) -> int:
        return max(self.sizes)

    @property
    def average(self) -> float:
        """Over time."""
        return float(np.dot(self.sizes[:-1], np.diff(self.times)) / self.times[-1])


def burst(query: str, scheduler: str, rows: int, slice_rows: int, apart: float) -> Trace:
    """A slice arrives every ``apart`` CPU seconds."""
    names = [n for n in "ST" if f" {n} " in query]
    plan = compile(bind(query, {n: Input(n, SCHEMA, InputOptions()) for n in names}), 1, Settings())
    engine = Engine(plan.stages[0].stage)
    for number in range(2):  # from which selectivities and costs are known
        engine.step(_arrivals(names, number * rows, (number + 1) * rows))
    return _drained(engine, scheduler, _arrivals(names, 2 * rows, 3 * rows), slice_rows, apart)


def pace(query: str, rows: int, slice_rows: int) -> float:
    """The CPU seconds that a slice takes if all are there at once."""
    traces = [burst(query, "fifo", rows, slice_rows, apart=0.0) for _ in range(3)]
    streams = sum(f" {n} " in query for n in "ST")
    return min(t.times[-1] for t in traces) * slice_rows / (rows * streams)


def _drained(
    engine: Engine, scheduler: str, arrivals: Sequence[Arrival], slice_rows: int, apart: float
) -> Trace:
    (group,) = engine.groups.values()
    clock, released = group.inputs.accept(arrivals)
    waiting = deque(slices(clock, released, slice_rows, in_order=True))
    policy, graph, trace, now, due = SCHEDULERS[scheduler](), group.graph, Trace(), 0.0, 0.0
    policy.prepare(graph.entities)
    while waiting or graph.pending():
        while waiting and due <= now:
            at, part = waiting.popleft()
            graph.open(at)
            for name, chunk in part.items():
                graph.feed(name, chunk)
            due += apart
        if ready := graph.pending():
            began = time.process_time()
            graph.run(policy.choose(ready))
            now += time.process_time() - began
        else:
            now = due
        trace.times.append(now)
        trace.sizes.append(graph.queued)
    graph.take()
    return trace


def _arrivals(names: Sequence[str], first: int, last: int) -> list[Arrival]:
    """A row of each stream per tick."""
    ts, arrivals = np.arange(first, last), []
    for number, name in enumerate(names):
        die = np.random.default_rng([number, first])
        columns = {f"{name}.k": die.integers(0, 100, len(ts)), f"{name}.v": die.integers(0, 1000, len(ts))}
        arrivals.append(Arrival(name, 0, pa.record_batch({TS: ts, **columns}), first, last))
    return arrivals


def plot(traces: dict[str, dict[str, Trace]], path: Path) -> None:
    """A panel per query, a line per scheduler."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(5 * len(traces), 4), layout="constrained")
    for axes, (title, by) in zip(
        canvas.subplots(1, len(traces), squeeze=False)[0], traces.items(), strict=True
    ):
        for scheduler, trace in by.items():
            axes.step(trace.times, trace.sizes, where="post", label=scheduler)
        axes.set(title=title, xlabel="CPU seconds", ylabel="elements in queues")
        axes.legend()
    canvas.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> None:
    """Print peak and average of the queues."""
    parser = argparse.ArgumentParser(
        prog="penstock bench schedulers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=20_000, help="of each stream in the burst")
    parser.add_argument("--slice-rows", type=int, default=1_000, help="of a slice")
    parser.add_argument("--overload", type=float, default=2.0, help="arrivals per unit of what is processed")
    parser.add_argument("--plot", type=Path, help="image of queue sizes over time")
    options = parser.parse_args(arguments)
    table = Table("query", "scheduler", "peak", "average", "CPU s", title="Elements in queues during a burst")
    traces: dict[str, dict[str, Trace]] = {}
    for name, query in QUERIES.items():
        apart = pace(query, options.rows, options.slice_rows) / options.overload
        for scheduler in SCHEDULERS:
            trace = burst(query, scheduler, options.rows, options.slice_rows, apart)
            traces.setdefault(name, {})[scheduler] = trace
            peak, average = f"{trace.peak:,}", f"{trace.average:,.0f}"
            table.add_row(name, scheduler, peak, average, f"{trace.times[-1]:.2f}")
    Console().print(table)
    if options.plot:
        plot(traces, options.plot)


if __name__ == "__main__":
    main()
