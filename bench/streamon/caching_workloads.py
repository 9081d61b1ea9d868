"""Joins on which caches are measured: where they are expected to pay, and where they must cost nothing.

Those that must not lose are the joins of ``penstock bench join``, ``growth`` and ``network`` that have three
streams or more, and others with few repeated keys or many updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.paper.caching_joins import TICKS, Batch, Plan, without_index
from penstock.workloads.files import EPOCH, MICROS
from penstock.workloads.routes import OUT, Routes
from penstock.workloads.synthetic import JoinWorkload

TIMES_FASTER = 1.5
"""To reach on chains with repeated keys and fan-out."""


@dataclass(frozen=True)
class Workload:
    """A query over streams, their rows of each step, and how many times faster caches should be, if they pay.

    ``change``: of a plan, for workloads that take away what plans have. ``steps``: as many as usual, times
    this.
    """

    name: str
    query: str
    streams: Mapping[str, Sequence[str]]
    rows: Callable[[int], Batch]
    pays: float | None = None
    ticks: int = TICKS
    change: Callable[[Plan], Plan] = lambda plan: plan
    steps: float = 1.0

    def batches(self, count: int) -> Callable[[], Iterator[Batch]]:
        return lambda: (self.rows(number) for number in range(count))


CHAIN = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}


def chain(r: str, s: str, t: str) -> str:
    return f"SELECT R.a, T.b FROM R [{r}], S [{s}], T [{t}] WHERE R.a = S.a AND S.b = T.b"


def keyed(r: int, s: int, t: int, a: int, b: int) -> Callable[[int], Batch]:
    """``r``, ``s`` and ``t`` rows of R, S and T with ``a`` and ``b`` different keys."""

    def rows(number: int) -> Batch:
        random = np.random.default_rng((7, number))
        return {
            "R": {"a": random.integers(0, a, r)},
            "S": {"a": random.integers(0, a, s), "b": random.integers(0, b, s)},
            "T": {"b": random.integers(0, b, t)},
        }

    return rows


SELECTIVE = keyed(200, 500, 40_000, 100_000, 400)
"""A row of T finds 50 rows of S, of which one in 50 finds a row of R: one result per row of T."""


def one_key(n: int, window: str) -> tuple[str, dict[str, Sequence[str]]]:
    names = [f"L{i}" for i in range(n)]
    where = " AND ".join(f"{a}.k = {b}.k" for a, b in zip(names, names[1:], strict=False))
    sources = ", ".join(f"{n} [{window}]" for n in names)
    return f"SELECT L0.k FROM {sources} WHERE {where}", {n: ("k",) for n in names}


def star(n: int, keys: int, each: int) -> Callable[[int], Batch]:
    def rows(number: int) -> Batch:
        random = np.random.default_rng((8, number))
        return {f"L{i}": {"k": random.integers(0, keys, each)} for i in range(n)}

    return rows


def wide(probing: int, each: int, keys: int) -> Callable[[int], Batch]:
    """One stream looks up the others, whose rows change seldom."""

    def rows(number: int) -> Batch:
        random = np.random.default_rng((9, number))
        return {f"L{i}": {"k": random.integers(0, keys, probing if i == 5 else each)} for i in range(6)}

    return rows


def fanning(number: int) -> Batch:
    """Rows of O have one of 20,000 keys. F has 40 rows of one key in ten, G and H one of every second key."""
    random = np.random.default_rng((10, number))
    others = {n: random.choice(np.arange(0, 20_000, 2), 400) for n in ("G", "H")}
    return {
        "O": {"k": random.integers(0, 20_000, 20_000)},
        "F": {"k": np.repeat(random.choice(np.arange(0, 20_000, 10), 50), 40)},
        **{n: {"k": keys + (n == "H") * random.integers(0, 2, 400)} for n, keys in others.items()},
    }


def of_tables(tables: Mapping[str, pa.Table]) -> Batch:
    """Tables with TIMESTAMPs, as integers from 0."""

    def column(table: pa.Table, name: str) -> np.ndarray:
        values = table.column(name).combine_chunks()
        return values.cast(pa.int64()).to_numpy() - EPOCH if name == "ts" else values.to_numpy()

    return {n: {c: column(t, c) for c in t.column_names} for n, t in tables.items()}


def as_in_join(streams: int, rows: int = 100_000, steps: float = 2.0) -> Workload:
    """The join of ``penstock bench join`` and ``growth``, in shorter steps: more pairs to compare."""
    made = JoinWorkload(streams=streams, rows=rows)
    window = f"[RANGE {round(made.window_seconds * MICROS)}]"
    values = ", ".join(f"{n}.v AS v{n}" for n in made.names)
    keys = " AND ".join(f"{a}.k = {b}.k" for a, b in zip(made.names, made.names[1:], strict=False))
    sources = ", ".join(f"{n} {window}" for n in made.names)
    query = f"SELECT ISTREAM ALL({made.names[0]}.k, {values}) FROM {sources} WHERE {keys}"
    ticks = round(made.slice_seconds * MICROS)
    columns = {n: ("k", "v") for n in made.names}
    name = f"bench join and growth, {streams} streams"
    return Workload(name, query, columns, lambda n: of_tables(made.slice(n)), None, ticks, steps=steps)


def as_in_network(links: int, flows: int, packets: int, steps: float = 1.0) -> Workload:
    """The join of ``penstock bench network``."""
    routes = Routes(links, flows, packets, phase=10)
    sources = ", ".join(f"{n} [RANGE {(10 if n != OUT else 1) * MICROS}]" for n in routes.names)
    pairs = zip(routes.names, routes.names[1:], strict=False)
    query = (
        f"SELECT ISTREAM ALL({OUT}.flow) FROM {sources} WHERE "
        f"{' AND '.join(f'{a}.flow = {b}.flow' for a, b in pairs)}"
    )
    columns = {n: ("flow",) for n in routes.names}
    name = f"bench network, {links} links"
    return Workload(name, query, columns, lambda n: of_tables(routes.batch(n)), None, MICROS, steps=steps)


WORKLOADS = (
    Workload(
        "chain, fan-out 50, few join, repeated keys",
        chain("ROWS 2000", "ROWS 20000", "ROWS 20000"), CHAIN, SELECTIVE, TIMES_FASTER,
    ),
    Workload(
        "the same over time windows",
        chain(f"RANGE {10 * TICKS}", f"RANGE {40 * TICKS}", f"RANGE {TICKS // 2}"), CHAIN, SELECTIVE,
        TIMES_FASTER,
    ),
    Workload(
        "the same without an index on S",
        chain("ROWS 200", "ROWS 500", "ROWS 2000"), CHAIN, keyed(20, 50, 4_000, 2_000, 10), TIMES_FASTER,
        change=without_index,
    ),
    Workload(
        "6 streams on one key, one of them busy",
        *one_key(6, "ROWS 2000"), wide(30_000, 100, 1_500), 1.0,
    ),
    Workload(
        "chain, 25 results per row",
        chain("ROWS 10000", "ROWS 10000", "ROWS 20000"), CHAIN, keyed(600, 600, 40_000, 2000, 2000),
        steps=0.5,
    ),
    Workload(
        "chain, keys seldom repeated",
        chain("ROWS 20000", "ROWS 20000", "ROWS 20000"), CHAIN,
        keyed(20_000, 20_000, 20_000, 200_000, 200_000),
    ),
    Workload(
        "chain, as many updates as look-ups",
        chain("ROWS 10000", "ROWS 10000", "ROWS 10000"), CHAIN,
        keyed(10_000, 10_000, 10_000, 10_000, 10_000),
    ),
    Workload("4 streams, one key", *one_key(4, "ROWS 10000"), star(4, 20_000, 10_000)),
    Workload("8 streams, few joins", *one_key(8, "ROWS 10000"), star(8, 40_000, 8_000)),
    Workload("3 streams, steps of 300 rows", *one_key(3, "ROWS 1000"), star(3, 1_000, 100), steps=4),
    Workload(
        "star, what drops most has 40 rows of a key",
        "SELECT O.k FROM O [ROWS 1000], F [ROWS 80000], G [ROWS 8000], H [ROWS 8000] "
        "WHERE O.k = F.k AND O.k = G.k AND O.k = H.k",
        {n: ("k",) for n in "OFGH"}, fanning,
    ),
    as_in_join(3),
    as_in_join(5),
    as_in_network(4, 5_000, 4, steps=4),
    as_in_network(24, 2_000, 20, steps=2),
)  # fmt: skip
