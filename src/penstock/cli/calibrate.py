"""``penstock calibrate``: measure what the access methods of windows cost on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.cli.output import Terminal
from penstock.cost.calibrate import Measurement, errors, fit, invalidation, measure
from penstock.cost.calibrate_w_join import Looking
from penstock.cost.calibrate_w_join import measured as measured_w_join
from penstock.cost.model import METHODS, Weights
from penstock.cost.settings import BUFFER_ROWS, CALIBRATED_WINDOWS, CALIBRATION_RUNS
from penstock.cost.weights import save


def calibrate(
    out: Path | None, windows: Sequence[int] = CALIBRATED_WINDOWS, runs: int = CALIBRATION_RUNS
) -> None:
    """Measure, fit, store and show."""
    console = Terminal()
    measured = _measured(console, windows, runs)
    weights = fit(measured)
    path = save(weights, out)
    console.print(_shown(measured, weights))
    console.print(f"stored in {path}", soft_wrap=True)
    call, row = invalidation(runs)
    costs = f"{call * 1e9:,.0f} ns per call and {row * 1e9:,.1f} ns per row"
    console.print(f"expired rows are freed in {costs}", soft_wrap=True)
    console.print(_w_joins(list(measured_w_join([r for r in BUFFER_ROWS if r <= max(windows)], runs))))


def _measured(console: Console, windows: Sequence[int], runs: int) -> list[Measurement]:
    columns = TextColumn("{task.description:24}"), BarColumn(), TimeElapsedColumn()
    found = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("compiling", total=len(METHODS) * len(windows))
        for one in measure(windows, runs):
            found.append(one)
            progress.update(task, advance=1, description=f"{one.method}, {one.window:,} rows")
    return found


def _w_joins(measured: Sequence[Looking]) -> Table:
    table = Table(title="W-join: nanoseconds of a tuple that looks for rows of the next stream")
    for column in ("rows in the buffer", "nlw", "mw", "hw", "least"):
        table.add_column(column, justify="right")
    for one in measured:
        times = (f"{t * 1e9:,.0f}" for t in (one.nlw, one.mw, one.hw))
        table.add_row(f"{one.rows:,}", *times, one.cheapest)
    return table


def _shown(measured: Sequence[Measurement], weights: Weights) -> Table:
    table = Table("access method", title="nanoseconds of a core, measured and by the fitted cost model")
    for column in ("rows", "probe", "fit", "update", "fit"):
        table.add_column(column, justify="right")
    for one, probe, update in errors(measured, weights):
        times = (one.probe, probe, one.update, update)
        last = one.window == measured[-1].window
        table.add_row(one.method, f"{one.window:,}", *(f"{t * 1e9:,.1f}" for t in times), end_section=last)
    return table
