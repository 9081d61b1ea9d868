"""W-joins of synthetic streams (Hammad et al., section 4.2), step by step, by every algorithm of the paper.

Streams are integers from a small set with exponential times between rows. The paper's measure is the service
time of a row; here it is the CPU time of the join operator per row that arrives, in steps of 1,000 rows, and
the work that was done for it: timestamps compared and rows tested. The paper's windows of a second have a
thousand rows of each synthetic stream, which for four streams are up to 10^9 combinations per row; those here
are shorter, and the values so many that a row matches few rows of another stream.

``ripple`` and ``xjoin`` are the paper's adapted peers: as ``nlw`` and ``hw``, but rows that are out of every
window stay in the buffers until a purge every 10,000 rows (section 4.3). ``nlw (to the letter)`` counts what
the paper's own NLW-join compares (``letter_joins.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np
import pyarrow as pa

from bench.paper.figure import Row
from bench.paper.letter_joins import counted
from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.element import Int64s
from penstock.engine.engine import Engine
from penstock.engine.joins.retention import Retention
from penstock.engine.joins.sweeps import Hash, NestedLoop, Run, Sweep
from penstock.engine.joins.tuples import Tuples
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.schema import TimeDomain
from penstock.settings import Settings

SECOND = 1_000_000
STEP = 1_000
PURGE = 10_000
KEPT = 1 << 40
TURNS = 3
"""Runs of which the fastest counts: the others had more of what else the machine did."""
STORES_MILLIS = 5_000
STORES_WINDOW = f"WINDOW {STORES_MILLIS} MILLISECONDS"
"""The stores of figures 7, 8 and 9(b) have 5,000 transactions an hour, and windows are of an hour."""
TIME = TimeDomain("integer", "microseconds")
PEERS = ("ripple", "xjoin")
LETTER = "nlw (to the letter)"

Rate = float | Callable[[int], float]
"""Rows per second, or a function of the number of the row."""


@dataclass(frozen=True)
class Streams:
    """Streams by name, each with its rate; values are 0 .. ``values`` - 1."""

    rates: Mapping[str, Rate]
    values: int
    seed: int = 1

    def rows(self, seconds: float) -> dict[str, tuple[Int64s, Int64s]]:
        """Timestamps in microseconds and values of each stream."""
        random, found = np.random.default_rng(self.seed), {}
        for name, rate in self.rates.items():
            times = _times(random, rate, seconds)
            found[name] = times, random.integers(0, self.values, len(times))
        return found


def _times(random: np.random.Generator, rate: Rate, seconds: float) -> Int64s:
    at, times = 0.0, list[np.ndarray]()
    block = 100
    while at < seconds:
        now = rate(sum(map(len, times))) if callable(rate) else rate
        some = at + np.cumsum(random.exponential(1 / now, block))
        times.append(some)
        at = float(some[-1])
    every = np.concatenate(times)
    return (every[every < seconds] * SECOND).astype(np.int64)


@dataclass(frozen=True)
class Outcome:
    """Per row that arrived: CPU microseconds, timestamps compared, rows tested; results; most rows kept."""

    rows: int
    microseconds: float
    compared: float
    tested: float
    results: int
    kept: int

    @property
    def work(self) -> float:
        return self.compared + self.tested


def stores(count: int) -> Streams:
    """Streams of equal rates whose windows have as many rows as those of the paper's stores.

    There are as many values as rows in a window, so that a row matches about one of another stream.
    """
    return Streams(dict.fromkeys("ABCDEF"[:count], 1000), values=STORES_MILLIS)


class _Ripple(NestedLoop):
    purged = -KEPT

    def runs(self, tuples: Tuples, root: int, j: int) -> Iterator[tuple[Run, Int64s, Int64s]]:
        for run, _, stops in super().runs(tuples, root, j):
            first = np.searchsorted(run.times, self.purged - self.graph.reach(j))
            yield run, np.full(len(tuples), first), stops


class _XJoin(Hash):
    """Equal keys among all rows that are kept, by the index of their store; then the period."""

    purged = -KEPT

    def find(self, tuples: Tuples, root: int, j: int, classes: Sequence[int]) -> tuple[Int64s, Int64s]:
        places, rows = self._equal(tuples, j, classes)[:2]
        self._count(len(places))
        (lows, highs), times = self.period(tuples, j), self.time(j, rows)
        new, at = self.buffers.new[j].rows, self.time(root, tuples.rows[root])[places]
        fresh = rows >= (new.min() if len(new) else self.inputs.stubs[j].frontier)
        near = (lows[places] <= times) & (times <= highs[places])
        near &= ~fresh | (times < at) | ((times == at) & (j < root))
        return places[near], rows[near]


def run(clause: str, streams: Streams, algorithm: str, seconds: float, equal: bool = True) -> Outcome:
    """Join the streams under a WINDOW clause for so many seconds of their time."""
    names = list(streams.rates)
    windows = f" [RANGE {KEPT}]" if algorithm in PEERS else ""
    where = " AND ".join(f"{a}.v = {b}.v" for a, b in zip(names, names[1:], strict=False))
    query = f"SELECT ISTREAM ALL({names[0]}.v) FROM {', '.join(n + windows for n in names)} {clause}"
    schema, options = pa.schema([("v", pa.int64())]), InputOptions(TIME)
    bound = bind(query + (f" WHERE {where}" if equal else ""), {n: Input(n, schema, options) for n in names})
    known = {"ripple": "nlw", "xjoin": "hw"}.get(algorithm, algorithm)
    engine = Engine(compile(bound, 1, Settings(w_join=known)).stages[0].stage)
    entity = next(e for e in engine.entities if e.node.name in ("w-join", "mjoin", "binary-join"))
    peer = _peer(entity.operator, algorithm) if algorithm in PEERS else None
    rows, data = 0, streams.rows(seconds)
    counted, spent, kept = 0, 0.0, 0
    for number, batches in enumerate(_steps(data)):
        rows = sum(b.num_rows for b in batches.values())
        if peer is not None and counted % PURGE < STEP and counted:
            peer.purged = min(b.column(0)[0].as_py() for b in batches.values() if b.num_rows)
        arrivals = [Arrival(n, 0, b, *_span(b), total=rows) for n, b in batches.items() if b.num_rows]
        before, began = entity.seconds, thread_time()
        engine.step(arrivals)
        counted += rows
        kept = max(kept, sum(len(stub.store) for stub in entity.operator._inputs.stubs))
        if number:  # the first step compiles kernels
            spent += min(entity.seconds - before, thread_time() - began)
    work = getattr(entity.operator, "work", None)
    compared, tested = (work.compared, work.tested) if work else (0, 0)
    return Outcome(
        counted, 1e6 * spent / counted, compared / counted, tested / counted, entity.operator._results, kept
    )


def fastest(clause: str, streams: Streams, algorithms: Sequence[str], seconds: float) -> dict[str, Outcome]:
    """By algorithm the run that took least of several, in which all take turns."""
    found: dict[str, Outcome] = {}
    for _ in range(TURNS):
        for algorithm in algorithms:
            now = run(clause, streams, algorithm, seconds)
            known = found.setdefault(algorithm, now)
            found[algorithm] = min(known, now, key=lambda outcome: outcome.microseconds)
    return found


def _peer(join: object, algorithm: str) -> Sweep:
    """Let a running join sweep by a peer, and keep its rows."""
    sweep = (_Ripple if algorithm == "ripple" else _XJoin)(join._inputs, join._graph)  # type: ignore[attr-defined]
    join._sweeps = {"nlw": [sweep], "hw": [sweep]}  # type: ignore[attr-defined]
    join.retention = Retention(join._inputs)  # type: ignore[attr-defined]
    return sweep


def _steps(data: Mapping[str, tuple[Int64s, Int64s]]) -> Iterator[dict[str, pa.RecordBatch]]:
    """Steps of about a thousand rows of all streams, in the order of time."""
    every = np.sort(np.concatenate([times for times, _ in data.values()]))
    edges = [*every[::STEP], every[-1] + 1]
    for low, high in zip(edges, edges[1:], strict=False):
        yield {n: _between(n, times, values, low, high) for n, (times, values) in data.items()}


def _between(name: str, times: Int64s, values: Int64s, low: int, high: int) -> pa.RecordBatch:
    first, stop = np.searchsorted(times, [low, high])
    columns = [pa.array(times[first:stop]), pa.array(values[first:stop])]
    return pa.RecordBatch.from_arrays(columns, names=[TS, f"{name}.v"])


def _span(batch: pa.RecordBatch) -> tuple[int, int]:
    ts = batch.column(0)
    return ts[0].as_py(), ts[-1].as_py()


def by_letter(streams: Streams, window: int, seconds: float, /, **at: float | str) -> Row:
    """A line of a figure: what the paper's own NLW-join compares, a tree of two-way joins; not timed."""
    compared, tested, results = counted(streams.rows(seconds), window)
    return {**at, "algorithm": LETTER, "work_per_row": compared + tested, "results": results}


def work(rows: list[Row], x: str) -> dict[tuple[float | str, str], float]:
    """By x and algorithm."""
    return {(r[x], str(r["algorithm"])): float(r["work_per_row"]) for r in rows}


def times(rows: list[Row], x: str) -> dict[tuple[float | str, str], float]:
    """Microseconds by x and algorithm, of those that are timed."""
    timed = (r for r in rows if "microseconds_per_row" in r)
    return {(r[x], str(r["algorithm"])): float(r["microseconds_per_row"]) for r in timed}


def several(values: Iterable[float], digits: int = 1) -> str:
    """For people."""
    return ", ".join(f"{v:.{digits}f}" for v in values)


def row(outcome: Outcome, algorithm: str, **at: float | str) -> dict[str, float | int | str]:
    """A line of a figure."""
    return {
        **at,
        "algorithm": algorithm,
        "work_per_row": outcome.work,
        "microseconds_per_row": outcome.microseconds,
        "results": outcome.results,
        "rows_kept": outcome.kept,
    }
