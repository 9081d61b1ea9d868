"""Chapter 6 from 6.5 on: windowed joins of streams that obey constraints, with and without using them.

Streams are generated as in 6.5: tuples of all streams come one after the other at constant rates, a row of a
child stream joins 5 of its parent's on average, filters pass half of the rows. Windows have 50,000 rows; here
they are windows of as much time, since results over row windows end by rows, which are kept for that. The
baseline is the same query without using constraints (SWJ): filters are below the windows, so it keeps no row
that fails one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.catalog import Catalog, Input, InputOptions
from penstock.cql import constraints_of, schema_of
from penstock.engine.stage import TS
from penstock.evaluation import plan_of
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Property, measured
from penstock.schema import TimeDomain

WINDOW, PASSING = 50_000, 50
"""Rows of a window, and the percentage of rows that a filter passes (6.5)."""
COLUMNS = 3
"""Columns of a row of 24 bytes, of which a No component keeps the one that is joined."""
STEP, SHORT_STEP = 7_000, 1_100
"""Tuples of a step; where memory is measured, of one between two looks for garbage."""


@dataclass(frozen=True)
class Stream:
    """Its columns, how many of a round's tuples it has, and whether the query filters it."""

    columns: Mapping[str, np.ndarray]
    rate: int
    filtered: bool = False


@dataclass(frozen=True)
class Experiment:
    """Streams by name, the equalities between them, and what they obey."""

    streams: Mapping[str, Stream]
    equal: Sequence[str]
    constraints: Mapping[str, str]
    passing: int = PASSING

    @property
    def round(self) -> int:
        return sum(s.rate for s in self.streams.values())

    def query(self, using: str) -> str:
        """The join; ``using``: which constraints it uses."""
        windows = {n: WINDOW * self.round // s.rate for n, s in self.streams.items()}
        sources = ", ".join(f"{n} [RANGE {ticks}]" for n, ticks in windows.items())
        filters = [f"{n}.f < {self.passing}" for n, s in self.streams.items() if s.filtered]
        selected = self.equal[0].split(" = ")[0]
        return (
            f"SET penstock.constraints = '{using}'; SET penstock.join = 'mjoin'; "
            f"SELECT ISTREAM ALL({selected}) FROM {sources} WHERE {' AND '.join([*self.equal, *filters])}"
        )

    def steps(self, step: int = STEP) -> Iterator[dict[str, pa.RecordBatch]]:
        """Tuples one after the other, a tick each, as batches of steps."""
        rounds = min(len(next(iter(s.columns.values()))) // s.rate for s in self.streams.values())
        each = max(step // self.round, 1)
        for first in range(0, rounds, each):
            count, at, batches = min(each, rounds - first), 0, {}
            for name, s in self.streams.items():
                ticks = (first + np.arange(count))[:, None] * self.round + at + np.arange(s.rate)[None, :]
                rows = slice(first * s.rate, (first + count) * s.rate)
                columns = {c: pa.array(v[rows]) for c, v in s.columns.items()}
                batches[name] = pa.RecordBatch.from_pydict({TS: pa.array(ticks.ravel()), **columns})
                at += s.rate
            yield batches


@dataclass
class Measured:
    """Rows kept after each step, by the tuples that had come; and what a tuple takes in the second half."""

    tuples: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    results: int = 0

    @property
    def microseconds(self) -> float:
        half = len(self.seconds) // 2
        return 1e6 * sum(self.seconds[half:]) / (self.tuples[-1] - self.tuples[half - 1])


def host_of(experiment: Experiment, using: str) -> InProcessRun:
    """The engine of the join."""
    domain, catalog = TimeDomain("integer", "seconds"), Catalog()
    for name, s in experiment.streams.items():
        schema = schema_of(", ".join(f"{c} BIGINT" for c in s.columns))
        obeyed = constraints_of(experiment.constraints.get(name, ""), name, schema, domain, "stream")
        catalog.add(Input(name, schema, InputOptions(domain, constraints=obeyed)))
    return InProcessRun(plan_of(experiment.query(using), catalog, [], 1), {})


def run(experiment: Experiment, using: bool, step: int = STEP) -> Measured:
    """Run the join by the constraints that are declared, or by none."""
    host = host_of(experiment, "declared" if using else "off")
    found, tuples = Measured(), 0
    for batches in experiment.steps(step):
        began = time.process_time()
        parts = host.step(batches)
        found.seconds.append(time.process_time() - began)
        tuples += sum(b.num_rows for b in batches.values())
        found.tuples.append(tuples)
        found.rows.append(_kept(host))
        found.results += sum(p.num_rows for p in parts)
        last = max(int(b.column(TS)[-1].as_py()) for b in batches.values())
    # Rows that wait for whole instants are joined in the end.
    found.results += sum(p.num_rows for p in host.end(last))
    return found


def _kept(host: InProcessRun) -> int:
    """Rows in the stores of the windows, which are the join's synopses; the keys of No components as part of
    rows: the other columns are not kept (6.3.1).
    """
    engines = measured(m for stage in host.engines for e in stage for m in e.measure())
    keys = sum(int(m.value) for m in engines.of(Property.COMPONENT) if m.text == "No")
    return int(engines.of_kind(Kind.STORE).total(Property.ROWS)) + keys // COLUMNS


# streams as the thesis generates them

MULTIPLICITY = 5
"""Rows of a parent stream that join a row of its child, on average (6.5)."""


def spread(order: np.ndarray, random: np.random.Generator, by: float | np.ndarray) -> np.ndarray:
    """Values in an order, each moved behind by up to its own share of ``by`` places."""
    most = by * random.random(int(order.max()) + 1)
    return order[np.argsort(np.arange(len(order)) + most[order] * random.random(len(order)), kind="stable")]


def clustering(values: np.ndarray) -> int:
    """The k of CA(k): the most other rows between two of a value."""
    order = np.argsort(values, kind="stable")
    firsts = np.flatnonzero(np.r_[True, np.diff(values[order]) != 0])
    lasts = np.r_[firsts[1:], len(values)] - 1
    return int((order[lasts] - order[firsts] + 1 - (lasts - firsts + 1)).max())


def scrambling(values: np.ndarray) -> int:
    """The k of OA(k): the most places by which a row comes after one with a greater value."""
    greater = np.searchsorted(np.maximum.accumulate(values), values, side="right")
    return int(np.maximum(np.arange(len(values)) - greater, 0).max())


def obeying(
    of: Callable[[np.ndarray], int], k: int, order: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """An order that obeys a constraint with ``k`` and, nearly, with no smaller one."""
    by = float(k)
    while of(found := spread(order, random, by)) > k:
        by *= 0.97
    return found


def _filtered(keys: np.ndarray, column: str, random: np.random.Generator, rate: int = 1) -> Stream:
    return Stream({column: keys, "f": random.integers(0, 100, len(keys))}, rate, True)


def _within(k: int) -> str:
    return f"WITHIN {k} ROWS" if k else ""


def _referring(
    random: np.random.Generator, rounds: int, k: int | np.ndarray, rate: int = MULTIPLICITY
) -> np.ndarray:
    """Keys of parents whose child comes at most ``k`` children later (RIDS(k)); children are numbered."""
    arrived = np.repeat(np.arange(rounds), rate)
    if not np.any(k):
        return np.maximum(arrived - random.integers(0, 5, len(arrived)), 0)
    most = np.broadcast_to(np.repeat(k, rate) if isinstance(k, np.ndarray) else k, len(arrived))
    return arrived + np.floor(random.random(len(arrived)) * (most + 1)).astype(np.int64)


def rids(k: int | np.ndarray, rounds: int) -> Experiment:
    """Figure 6.9(a): S1 -> S2 and S1 -> S3, with RIDS(k) on both. Children come first in a round."""
    random = np.random.default_rng(6)
    a, b = (_referring(random, rounds, k) for _ in range(2))
    keys = np.arange(rounds)
    streams = {"S2": _filtered(keys, "a", random), "S3": _filtered(keys, "b", random)}
    streams["S1"] = Stream({"a": a, "b": b}, MULTIPLICITY)
    if isinstance(k, np.ndarray):
        return Experiment(streams, ("S1.a = S2.a", "S1.b = S3.b"), {})
    refers = " ".join(
        f"FOREIGN KEY ({c}) REFERENCES {t} ({c}) {_within(k)}" for c, t in (("a", "S2"), ("b", "S3"))
    )
    obeyed = {"S1": refers, "S2": "PRIMARY KEY (a)", "S3": "PRIMARY KEY (b)"}
    return Experiment(streams, ("S1.a = S2.a", "S1.b = S3.b"), obeyed)


def _two_parents(k: int, rounds: int, of: Callable[[np.ndarray], int], clause: str) -> Experiment:
    random = np.random.default_rng(7)
    order = np.repeat(np.arange(rounds), MULTIPLICITY)
    parents = [obeying(of, k, order, random) for _ in range(2)]
    parent = f"{clause} (a) {_within(k)}"
    return two_parents(parents, random, {"S1": parent, "S2": parent, "S3": "PRIMARY KEY (a)"})


def two_parents(
    parents: Sequence[np.ndarray], random: np.random.Generator, obeyed: Mapping[str, str]
) -> Experiment:
    """Figure 6.9(b): S1 -> S3 and S2 -> S3, whose rows come before all that join them (RIDS(0), not used)."""
    rounds = len(parents[0]) // MULTIPLICITY
    needed = np.full(rounds, rounds)
    for values in parents:
        np.minimum.at(needed, values, np.arange(len(values)) // MULTIPLICITY)
    children = np.argsort(needed, kind="stable")
    # Parents wait until no child is late; their first rows join nothing.
    wait = int(np.maximum(np.arange(rounds) - needed[children], 0).max())
    first = np.repeat(np.arange(-wait, 0), MULTIPLICITY)
    streams = {"S3": _filtered(children, "a", random)}
    for name, values in zip(("S1", "S2"), parents, strict=True):
        streams[name] = Stream({"a": np.concatenate([first, values])[: len(values)]}, MULTIPLICITY)
    return Experiment(streams, ("S1.a = S3.a", "S2.a = S3.a"), obeyed)


def clustered(k: int, rounds: int) -> Experiment:
    return _two_parents(k, rounds, clustering, "CLUSTERED BY")


def ordered_parents(k: int, rounds: int) -> Experiment:
    return _two_parents(k, rounds, scrambling, "ORDERED BY")


def ordered_child(k: int, rounds: int) -> Experiment:
    """Figure 6.9(c): S1 -> S2, with OAC(k) on S2.A."""
    random = np.random.default_rng(8)
    keys = obeying(scrambling, k, np.arange(rounds), random)
    streams = {"S2": _filtered(keys, "a", random)}
    arrived = np.maximum(
        np.repeat(np.arange(rounds), MULTIPLICITY) - random.integers(0, 50, MULTIPLICITY * rounds), 0
    )
    streams["S1"] = Stream({"a": keys[arrived]}, MULTIPLICITY)
    return Experiment(streams, ("S1.a = S2.a",), {"S2": f"PRIMARY KEY (a) ORDERED BY (a) {_within(k)}"})


def combined(rounds: int, used: Collection[str]) -> Experiment:
    """Figure 6.17: CA(0) on S1.A and OAC(5000) on S3.B; a quarter of S1 has no row in S3."""
    random = np.random.default_rng(9)
    k = min(5_000, rounds // 8)
    children = 2 * obeying(scrambling, k, np.arange(rounds), random)
    streams = {"S2": _filtered(np.arange(rounds), "a", random), "S3": _filtered(children, "b", random)}
    count = MULTIPLICITY * rounds
    a = np.repeat(np.arange(rounds), MULTIPLICITY)
    b = 2 * np.maximum(a + random.integers(-k, k + 1, count), 0) + (random.random(count) < 0.25)
    streams["S1"] = Stream({"a": a, "b": b}, MULTIPLICITY)
    obeyed = {"S2": "PRIMARY KEY (a)", "S3": "PRIMARY KEY (b)"}
    if "CA" in used:
        obeyed["S1"] = "CLUSTERED BY (a)"
    if "OAC" in used:
        obeyed["S3"] += f" ORDERED BY (b) WITHIN {k} ROWS"
    return Experiment(streams, ("S1.a = S2.a", "S1.b = S3.b"), obeyed)


def clustered_and_referring(k: int, rounds: int, used: Collection[str]) -> Experiment:
    """Figure 6.18: S1 -> S2, with CA(5000) on S1.A and RIDS(k). A row of S2 joins two, and 10 % pass."""
    random, most = np.random.default_rng(10), min(5_000, rounds // 8)
    values = obeying(clustering, most, np.repeat(np.arange(rounds), 2), random)
    first = np.full(rounds, 2 * rounds)
    np.minimum.at(first, values, np.arange(len(values)) // 2)
    children = np.argsort(first + k * random.random(rounds), kind="stable")
    wait = max(int((np.arange(rounds) - first[children]).max()) - k, 0)
    values = np.concatenate([np.repeat(np.arange(-wait, 0), 2), values])[: len(values)]
    streams = {"S2": _filtered(children, "a", random), "S1": Stream({"a": values}, 2)}
    obeyed = {"S1": "", "S2": "PRIMARY KEY (a)"}
    if "CA" in used:
        obeyed["S1"] += f"CLUSTERED BY (a) {_within(most)} "
    if "RIDS" in used:
        obeyed["S1"] += f"FOREIGN KEY (a) REFERENCES S2 (a) {_within(k)}"
    return Experiment(streams, ("S1.a = S2.a",), obeyed, passing=10)
