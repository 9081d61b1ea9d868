"""What a windowed join costs as things grow: streams, batches, windows, rows, cores, and one key's part.

Each scenario changes one thing of a two-way join of narrow rows in batches of 400,000 on two cores. All
systems that run a scenario read the same files, and every batch must give each of them as many results.
Spark's own joins run fewer batches, and only where they end in reasonable time. In the end the figures are
held against what is to be reached.

    python -m bench.peers.growth [--only streams,batches] [--quick] [--json | --markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.peers.compare import Runs, machine, ratios_of, timed
from bench.peers.goals import Goal, goals
from bench.peers.harness import Measured, end, local_spark
from bench.peers.systems import systems
from penstock.workloads.synthetic import JoinWorkload

ALL = ("spark-rocksdb", "spark-memory", "discard", "penstock")
ALL_BUT_MEMORY = ("spark-rocksdb", "discard", "penstock")
OURS = ("discard", "penstock")
QUICK = 10
"""How many times fewer rows --quick has."""


@dataclass(frozen=True)
class Scenario:
    """A workload on so many cores, and the systems that run it."""

    grows: str
    name: str
    workload: JoinWorkload
    systems: tuple[str, ...] = ALL
    cores: int = 2
    runs: Runs = Runs(warmup=3, batches=5, slow_batches=1)

    @property
    def title(self) -> str:
        return f"{self.grows}: {self.name}"


def scenarios() -> Iterable[Scenario]:
    """All scenarios, those with as many cores side by side: each number of cores is a Spark of its own.

    What two of them would have in common stands in the first only.
    """
    for ways in (2, 3, 5):
        yield Scenario("streams", f"{ways} streams", JoinWorkload(streams=ways))
    # The fixed part of a batch, which is the same for all, does not hide what the joins cost.
    many, large = JoinWorkload(streams=5, rows=2_000_000), Runs(warmup=10, batches=5, slow_batches=1)
    yield Scenario("streams", "5 streams, 2,000,000 rows a batch", many, ALL_BUT_MEMORY, runs=large)
    yield Scenario("batches", "10,000 rows a batch", JoinWorkload(rows=10_000))
    yield Scenario("batches", "100,000 rows a batch", JoinWorkload(rows=100_000))
    for rows in (2_000_000, 4_000_000):
        yield Scenario("batches", f"{rows:,} rows a batch", JoinWorkload(rows=rows), OURS, runs=large)
    for rows in (100_000, 1_000_000, 10_000_000):
        yield _window(rows, fill=25)
    yield Scenario("width", "20 string columns, 100,000 rows a batch", JoinWorkload(rows=100_000, strings=20))
    skewed = JoinWorkload(heavy=0.8, heavy_matches=10)
    names = ("penstock", "penstock-heavy")
    # Warm enough for the first of the two not to pay for both, also where nothing ran before.
    warm = Runs(warmup=6, batches=3)
    yield Scenario("skew", "a key with 80% of one stream", skewed, names, runs=warm)
    yield Scenario("cores", "1 core, 2,000,000 rows a batch", JoinWorkload(rows=2_000_000), OURS, 1, large)


def _window(rows: int, fill: int) -> Scenario:
    """Both windows together hold so many rows; all sizes run the batches that fill the largest."""
    base = JoinWorkload()
    seconds = rows / base.rows * base.slice_seconds
    name = f"{rows:,} rows in the windows"
    workload = JoinWorkload(window_seconds=seconds)
    return Scenario("windows", name, workload, ("penstock",), runs=Runs(warmup=fill, batches=5))


def _quick(scenario: Scenario) -> Scenario:
    """With fewer rows and batches: to see that it works."""
    workload = replace(scenario.workload, rows=max(2000, scenario.workload.rows // QUICK))
    runs = Runs(warmup=min(scenario.runs.warmup, 25), batches=1, slow_batches=1)
    return replace(scenario, workload=workload, runs=runs)


def main(argv: list[str] | None = None) -> None:
    options = _options(argv)
    console = _console(options.json or options.markdown)
    wanted = options.only.split(",")
    chosen = [_quick(s) if options.quick else s for s in scenarios() if s.grows in wanted]
    if not chosen:
        raise SystemExit(f"--only {options.only}: nothing of that name grows; see --help")
    began = time.monotonic()
    found: dict[str, tuple[Scenario, list[Measured]]] = {}
    about: dict[str, str] = {}
    with _progress(console, chosen) as progress:
        for cores, group in groupby(chosen, lambda s: s.cores):
            about = _run(cores, list(group), options, progress, found)
    reached = goals({title: measured for title, (_, measured) in found.items()})
    seconds = round(time.monotonic() - began)
    console.print(_goals_table(reached))
    if options.quick:
        console.print(
            f"--quick: one part in {QUICK} of the rows that are named, so these are not the figures"
        )
    console.print(f"{len(found)} scenarios in {seconds // 60} min {seconds % 60} s")
    if options.json:
        result = {"machine": about, "seconds": seconds, "figures": [asdict(g) for g in reached]}
        scenario_results = {title: _json(s, measured) for title, (s, measured) in found.items()}
        print(json.dumps({**result, "scenarios": scenario_results}, indent=2))
    elif options.markdown:
        print("\n".join(_markdown(found.values(), reached)))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock bench growth", description=(__doc__ or "").split("\n")[0])
    grows = ",".join(dict.fromkeys(s.grows for s in scenarios()))
    parser.add_argument("--only", default=grows, help="what grows: a list (default %(default)s)")
    parser.add_argument("--systems", default="", help="run these in every scenario, e.g. discard,penstock")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and one batch of each")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the documentation")
    return parser.parse_args(argv)


def _console(stderr: bool) -> Console:
    """Wide enough for the tables also where the output goes to a file."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=110)


def _progress(console: Console, chosen: list[Scenario]) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task("starting", total=len(chosen))
    return progress


def _run(
    cores: int,
    group: list[Scenario],
    options: argparse.Namespace,
    progress: Progress,
    found: dict[str, tuple[Scenario, list[Measured]]],
) -> dict[str, str]:
    (task,) = progress.task_ids
    with tempfile.TemporaryDirectory(prefix="penstock-growth-") as directory, _on(cores):
        spark = local_spark(cores, Path(directory) / "spark.log")
        try:
            for number, scenario in enumerate(group):
                progress.update(task, description=scenario.title)
                wanted = options.systems.split(",") if options.systems else scenario.systems
                these = [s for s in systems() if s.name in wanted]
                place = Path(directory) / str(number)
                measured = timed(spark, place, scenario.workload, these, scenario.runs, progress.console)
                shutil.rmtree(place)
                found[scenario.title] = scenario, measured
                progress.console.print(_table(scenario, measured))
                progress.advance(task)
            return machine(spark)
        finally:
            end(spark)


@contextmanager
def _on(cores: int) -> Iterator[None]:
    """Processes that are started within run on so many cores, also those beside Spark's tasks."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


COLUMNS = ("rows/s", "rows/s a core", "batch ms", "state MB", "on disk MB", "x Penstock's time")


def _rows(scenario: Scenario, measured: list[Measured]) -> Iterator[list[str]]:
    """The cells of each system's line."""
    ratios = ratios_of(measured)
    for m in measured:
        rate, ratio = m.rows_per_second, ratios.get(f"{m.system} / penstock")
        size = [f"{m.memory_bytes / 1e6:,.1f}", f"{m.disk_bytes / 1e6:,.1f}"]
        times = [f"{rate:,.0f}", f"{rate / scenario.cores:,.0f}", f"{m.median_ms:,.0f}"]
        yield [m.system, *times, *size, "" if ratio is None else f"{ratio:.2f}"]


def _table(scenario: Scenario, measured: list[Measured]) -> Table:
    table = Table(title=scenario.title, title_justify="left")
    table.add_column("system")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for cells in _rows(scenario, measured):
        table.add_row(*cells)
    return table


def _goals_table(reached: list[Goal]) -> Table:
    table = Table(title="figures", title_justify="left")
    for column in ("what", "found", "to reach"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for goal in reached:
        table.add_row(goal.what, goal.shown, goal.wanted)
    return table


def _markdown(found: Iterable[tuple[Scenario, list[Measured]]], reached: list[Goal]) -> Iterator[str]:
    yield f"| scenario | system | {' | '.join(COLUMNS)} |"
    yield f"| --- | --- |{' ---: |' * len(COLUMNS)}"
    for scenario, measured in found:
        for cells in _rows(scenario, measured):
            yield f"| {' | '.join([scenario.title, *cells])} |"
    yield ""
    yield "| figure | found | to reach |"
    yield "| --- | ---: | ---: |"
    yield from (f"| {g.what} | {g.shown} | {g.wanted} |" for g in reached)


def _json(scenario: Scenario, measured: list[Measured]) -> dict:
    return {
        "workload": asdict(scenario.workload),
        "cores": scenario.cores,
        "systems": {m.system: m.to_json() for m in measured},
        "ratios": ratios_of(measured),
    }


if __name__ == "__main__":
    main()
