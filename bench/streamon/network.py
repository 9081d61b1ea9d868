"""A network-monitoring join with routing that flips: the adaptive order of probes beside fixed ones.

python -m bench.streamon.network            # on one engine: probes for each row
python -m bench.streamon.network --spark    # on Spark with 2 partitions: rows/s
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.streamon.offline import cost, optimal
from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival, StageInput
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.schema import TIMESTAMP_TIME
from penstock.settings import Settings
from penstock.workloads.files import EPOCH, MICROS
from penstock.workloads.routes import OUT, SCHEMA, Routes

WITHIN = 1.15
"""Of the best order of each phase, as far as the adaptive one may be from it in probes."""
TIMES_FEWER = 2.0
"""Than the order that is wrong in a phase."""


def query(routes: Routes, order: list[str]) -> str:
    """The packets of flows that take every link, joined in an order."""
    sources = ", ".join(f"{name} [RANGE {10 if name != OUT else 1} SECONDS]" for name in order)
    where = " AND ".join(f"{a}.flow = {b}.flow" for a, b in pairwise(routes.names))
    return f"SELECT ISTREAM ALL({OUT}.flow, {OUT}.ts) FROM {sources} WHERE {where}"


@dataclass
class Run:
    """What a plan did: probes of each phase, rows, results, and the CPU seconds or those of the clock."""

    name: str
    probes: list[int] = field(default_factory=list)
    seconds: float = 0.0
    rows: int = 0
    results: int = 0

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


def systems(routes: Routes) -> list[tuple[str, list[str], str]]:
    """(name, order of FROM, algorithm): fixed orders probe the links in the order of FROM."""
    forward, backward = routes.names, [*routes.names[-2::-1], OUT]
    return [
        ("a-greedy", forward, "a-greedy"),
        ("fixed, first link first", forward, "static"),
        ("fixed, last link first", backward, "static"),
    ]


def on_engine(routes: Routes, batches: int, name: str, order: list[str], algorithm: str) -> Run:
    """Feed one engine; probes are counted phase by phase."""
    catalog = {n: Input(n, SCHEMA, InputOptions(TIMESTAMP_TIME, "ts")) for n in routes.names}
    plan = compile(bind(query(routes, order), catalog), 1, Settings(algorithm))
    engine = Engine(plan.stages[0].stage)
    run, before = Run(name), 0
    for number in range(batches):
        arrivals = _arrivals(routes, number, plan.stages[0].stage.inputs)
        began = time.process_time()
        run.results += engine.step(arrivals).only.batch.num_rows
        run.seconds += time.process_time() - began
        run.rows += sum(a.batch.num_rows for a in arrivals if a.batch is not None)
        if (number + 1) % routes.phase == 0:
            joins = measured(engine.measure()).of_operator("mjoin").of_kind(Kind.OPERATOR)
            probes = int(joins.value(Property.PROBES))
            run.probes.append(probes - before)
            before = probes
    return run


def _arrivals(routes: Routes, number: int, inputs: tuple[StageInput, ...]) -> list[Arrival]:
    tables, first = routes.batch(number), EPOCH + number * MICROS
    arrivals = []
    for i in inputs:
        table = tables[i.name]
        ts = table.column("ts").combine_chunks().cast(pa.int64())
        columns = {f.name: table.column(f.name.rpartition(".")[2]).combine_chunks() for f in i.schema}
        batch = pa.RecordBatch.from_pydict({TS: ts, **columns})
        arrivals.append(Arrival(i.name, 0, batch, first, first + MICROS))
    return arrivals


def best(routes: Routes, batches: int) -> list[int]:
    """Probes of each phase if every input had its best order of that phase all along.

    Links come before ``O`` in FROM, so in a step none of them finds packets of its flows there yet: one probe
    drops each of their rows. A packet is looked up on the links, of which all know its flow by then.
    """
    found = []
    for phase in range(0, batches, routes.phase):
        drops = np.vstack([routes.drops(n) for n in range(phase, phase + routes.phase)]).astype(np.uint8)
        ones = np.ones(routes.links)
        packets = routes.packets * cost(optimal(drops, ones), drops, ones)
        found.append(round(packets) + int((drops == 0).sum()))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        prog="penstock bench network", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--links", type=int, help="default 4, on Spark 24")
    parser.add_argument("--flows", type=int, help="a batch; default 5,000, on Spark 20,000")
    parser.add_argument("--packets", type=int, help="a flow; default 4, on Spark 100")
    parser.add_argument(
        "--phase", type=int, help="batches after which the routing flips; default 10, on Spark 5"
    )
    parser.add_argument("--phases", type=int, help="default 4, on Spark 2")
    parser.add_argument("--spark", action="store_true", help="on Spark with 2 partitions")
    parser.add_argument("--rounds", type=int, default=2, help="on Spark: runs of each order, in turns")
    options = parser.parse_args(arguments)
    # On Spark with many probes for a row: what Spark takes for it is the same in every order.
    usual = (24, 20_000, 100, 5, 2) if options.spark else (4, 5_000, 4, 10, 4)
    links, flows, packets, phase, phases = usual
    phase = options.phase or phase
    routes = Routes(options.links or links, options.flows or flows, options.packets or packets, phase)
    batches = phase * (options.phases or phases)
    if options.spark:
        from bench.streamon.network_on_spark import compare

        compare(routes, batches, options.rounds, systems(routes), query)
        return
    for system in systems(routes):
        on_engine(replace(routes, flows=500, phase=2), 4, *system)  # loads the kernels
    runs = [on_engine(routes, batches, *system) for system in systems(routes)]
    lowest = best(routes, batches)
    Console().print(_table(routes, runs, lowest))
    for line in judged(runs, lowest):
        print(line)


def _table(routes: Routes, runs: list[Run], lowest: list[int]) -> Table:
    phases = [f"phase {n}" for n in range(1, len(lowest) + 1)]
    table = Table("order of probes", *phases, "rows/s of CPU time", caption="probes for each packet")
    packets = routes.flows * routes.packets * routes.phase
    for run in runs:
        shares = [f"{p / packets:.2f}" for p in run.probes]
        table.add_row(run.name, *shares, f"{run.rows_per_second:,.0f}")
    table.add_row("best of each phase", *(f"{p / packets:.2f}" for p in lowest), "")
    return table


def judged(runs: list[Run], lowest: list[int]) -> list[str]:
    """How far the adaptive order is from the best, and how far ahead of the wrong one."""
    adaptive, *fixed = runs
    far = sum(adaptive.probes) / sum(lowest)
    wrong = sum(max(f.probes[k] for f in fixed) for k in range(len(lowest)))
    fewer = wrong / sum(adaptive.probes)
    return [
        f"a-greedy makes {far:.2f} times the probes of the best order of each phase (to reach: {WITHIN})",
        f"the order that is wrong in a phase makes {fewer:.1f} times as many (to reach: {TIMES_FEWER})",
        f"all give the same results: {'yes' if len({r.results for r in runs}) == 1 else 'NO'}",
    ]


if __name__ == "__main__":
    main()
