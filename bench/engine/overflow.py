"""State beyond the memory limit (thesis 2.2.3): what a join costs whose windows are 2 and 5 times the limit.

python -m bench.engine.overflow

The same stream goes through an engine without a limit and through engines whose limit is a half and a fifth
of its state. Each is measured twice: with the system's cache, which keeps the pages of files while there is
free memory, and without, where every page is written to disk and dropped after each batch.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Property, measured
from penstock.plan import compile
from penstock.settings import Settings

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
QUERY = "SELECT ISTREAM(S.v, T.v AS w, S.s, T.s AS r) FROM S [RANGE {0}], T [RANGE {0}] WHERE S.k = T.k"
FACTORS = (2, 5)


@dataclass(frozen=True)
class Load:
    """A row of each stream per tick: windows of ``window`` rows, keys that match once per window."""

    window: int
    batch: int

    def engine(self, limit: int | None, directory: str | None) -> Engine:
        query = QUERY.format(self.window)
        catalog = {n: Input(n, SCHEMA, InputOptions()) for n in "ST"}
        settings = Settings(memory_limit=limit, overflow_directory=directory)
        return Engine(compile(bind(query, catalog), 1, settings).stages[0].stage)

    def arrivals(self, number: int) -> list[Arrival]:
        ts, found = np.arange(number * self.batch, (number + 1) * self.batch), []
        for place, name in enumerate("ST"):
            die = np.random.default_rng([place, number])
            key = die.integers(0, self.window, self.batch)
            text = pa.array(np.char.add("payload of row ", ts.astype(str)))
            columns = {f"{name}.k": key, f"{name}.v": ts * 3, f"{name}.s": text}
            batch = pa.record_batch({TS: ts, **columns})
            found.append(Arrival(name, 0, batch, int(ts[0]), int(ts[-1])))
        return found


@dataclass(frozen=True)
class Run:
    """Seconds of each batch with full windows, results, and the bytes of state and of files at the end."""

    seconds: list[float]
    results: int
    state: int
    on_disk: float


def run(load: Load, batches: int, limit: int | None, cached: bool, directory: str | None) -> Run:
    """The windows are filled first."""
    engine, filled, seconds, results = load.engine(limit, directory), load.window // load.batch + 1, [], 0
    for number in range(filled + batches):
        arrivals = load.arrivals(number)
        began = time.perf_counter()
        results += engine.step(arrivals).only.batch.num_rows
        if number >= filled:
            seconds.append(time.perf_counter() - began)
        if not cached:
            engine._memory.page_out()
    on_disk = measured(engine.measure()).entity("engine").value(Property.OVERFLOWED)
    return Run(seconds, results, engine.state_bytes(), on_disk)


def main(arguments: list[str] | None = None) -> None:
    """Print the rates, and the slowdown beside an engine that has the memory."""
    parser = argparse.ArgumentParser(
        prog="penstock bench overflow", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--window", type=int, default=2_000_000, help="rows in each of the two windows")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of each stream in a batch")
    parser.add_argument("--batches", type=int, default=10, help="batches that are measured")
    parser.add_argument("--directory", help="for the files; a temporary directory if not given")
    options = parser.parse_args(arguments)
    load = Load(options.window, options.batch)
    whole = run(load, options.batches, None, True, options.directory)
    table = Table(
        "state / limit", "cache", "limit MB", "files MB", "rows/s", "slowdown", title="State on disk"
    )
    base = median(whole.seconds)
    table.add_row("no limit", "", "", "", f"{2 * load.batch / base:,.0f}", "1.0")
    for factor in FACTORS:
        for cached in (True, False):
            limit = whole.state // factor
            found = run(load, options.batches, limit, cached, options.directory)
            assert found.results == whole.results, "results differ"
            took = median(found.seconds)
            sizes = f"{limit / 1e6:,.0f}", f"{found.on_disk / 1e6:,.0f}"
            rate = f"{2 * load.batch / took:,.0f}"
            table.add_row(str(factor), "kept" if cached else "dropped", *sizes, rate, f"{took / base:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
