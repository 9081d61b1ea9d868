"""What a windowed join costs as things grow: streams, batches, windows, rows and cores.

Each scenario changes one thing of a two-way join of narrow rows in batches of 400,000 on two cores. Spark's
own joins run where they end in reasonable time; ``--systems`` says which run everywhere.

    python -m bench.peers.growth [--only streams,batches,windows,width,cores] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.compare import Runs, machine, ratios_of, timed
from bench.peers.harness import Measured, local_spark
from bench.peers.systems import systems
from penstock.workloads.synthetic import JoinWorkload

ALL = ("spark-rocksdb", "spark-memory", "discard", "penstock")
OURS = ("discard", "penstock")


@dataclass(frozen=True)
class Scenario:
    """A workload on so many cores, and the systems that run it."""

    grows: str
    name: str
    workload: JoinWorkload
    systems: tuple[str, ...] = ALL
    cores: int = 2
    runs: Runs = Runs(warmup=2, batches=3)


def scenarios() -> Iterable[Scenario]:
    """All scenarios, those with as many cores side by side: each number of cores is a Spark of its own."""
    for ways in (2, 3, 5):
        yield Scenario("streams", f"{ways} streams", JoinWorkload(streams=ways))
    for rows in (10_000, 100_000, 400_000, 2_000_000, 4_000_000):
        chosen = ALL if rows <= 400_000 else OURS
        yield Scenario("batches", f"{rows:,} rows a batch", JoinWorkload(rows=rows), chosen)
    for rows in (100_000, 1_000_000, 10_000_000):
        yield _window(rows)
    for strings in (0, 20):
        workload = JoinWorkload(rows=100_000, strings=strings)
        yield Scenario("width", f"{strings} string columns", workload)
    for cores in (2, 1):
        yield Scenario("cores", f"{cores} cores", JoinWorkload(rows=2_000_000), OURS, cores)


def _window(rows: int) -> Scenario:
    """Both windows together hold so many rows; as many batches as fill the window warm it up."""
    base = JoinWorkload()
    seconds = rows / base.rows * base.slice_seconds
    fill = -(-rows // base.rows)
    runs = Runs(warmup=max(2, fill), batches=3)
    name = f"{rows:,} rows in the windows"
    chosen = ALL if rows <= 100_000 else OURS
    return Scenario("windows", name, JoinWorkload(window_seconds=seconds), chosen, runs=runs)


def main(argv: list[str] | None = None) -> None:
    options = _options(argv)
    console = Console(stderr=options.json)
    wanted = options.only.split(",")
    chosen = [s for s in scenarios() if s.grows in wanted]
    if not chosen:
        raise SystemExit(f"--only {options.only}: nothing of that name grows; see --help")
    result: dict = {"scenarios": {}}
    for cores, group in groupby(chosen, lambda s: s.cores):
        result |= _run(cores, list(group), options, console, result["scenarios"])
    if options.json:
        print(json.dumps(result, indent=2))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock bench growth", description=(__doc__ or "").split("\n")[0])
    grows = ",".join(dict.fromkeys(s.grows for s in scenarios()))
    parser.add_argument("--only", default=grows, help="what grows: a list (default %(default)s)")
    parser.add_argument("--systems", default="", help="run these in every scenario, e.g. discard,penstock")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    return parser.parse_args(argv)


def _run(
    cores: int, group: list[Scenario], options: argparse.Namespace, console: Console, found: dict
) -> dict:
    with tempfile.TemporaryDirectory(prefix="penstock-growth-") as directory:
        spark = local_spark(cores, Path(directory) / "spark.log")
        try:
            for number, scenario in enumerate(group):
                wanted = options.systems.split(",") if options.systems else scenario.systems
                these = [s for s in systems() if s.name in wanted]
                console.print(f"{scenario.grows}: {scenario.name}")
                place = Path(directory) / str(number)
                measured = timed(spark, place, scenario.workload, these, scenario.runs, console)
                shutil.rmtree(place)
                console.print(_table(scenario, measured))
                found[f"{scenario.grows}: {scenario.name}"] = _json(scenario, measured)
            return {"machine": machine(spark)}
        finally:
            spark.stop()


def _table(scenario: Scenario, measured: list[Measured]) -> Table:
    table = Table(title=f"{scenario.grows}: {scenario.name}", title_justify="left")
    table.add_column("system")
    for column in ("rows/s", "rows/s a core", "batch ms", "state MB", "on disk", "x Penstock's time"):
        table.add_column(column, justify="right")
    ratios = ratios_of(measured)
    for m in measured:
        rate, ratio = m.rows_per_second, ratios.get(f"{m.system} / penstock")
        size = [f"{m.memory_bytes / 1e6:,.1f}", f"{m.disk_bytes / 1e6:,.1f}"]
        times = [f"{rate:,.0f}", f"{rate / scenario.cores:,.0f}", f"{m.median_ms:,.0f}"]
        table.add_row(m.system, *times, *size, "" if ratio is None else f"{ratio:.2f}")
    return table


def _json(scenario: Scenario, measured: list[Measured]) -> dict:
    return {
        "workload": asdict(scenario.workload),
        "cores": scenario.cores,
        "systems": {m.system: m.to_json() for m in measured},
        "ratios": ratios_of(measured),
    }


if __name__ == "__main__":
    main()
