"""Figures 5.21 to 5.23: kinds of plans side by side, and caches under a burst and in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np

from bench.paper.caching_joins import (
    AS_IN_THE_THESIS,
    RST,
    Batch,
    Plan,
    Run,
    adaptive,
    compared,
    forced,
    mjoin,
    rows_of,
    rst,
    tree,
)
from bench.paper.figure import Claim, Row, Scale, series
from penstock.plan.join_trees import Traffic, best_tree

POINTS: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "D1": ((10, 1, 1, 1), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D2": ((8, 1, 1, 8), (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005)),
    "D3": ((10, 15, 1, 5), (0.003, 0.005, 0.007, 0.0045, 0.006, 0.008)),
    "D4": ((1, 1, 1, 1), (0.003, 0.004, 0.0067, 0.002, 0.0023, 0.0027)),
    "D5": ((4, 1, 1, 4), (0.005, 0.007, 0.005, 0.006, 0.005, 0.002)),
    "D6": ((1, 1, 1, 1), (0.005, 0.0033, 0.0025, 0.0067, 0.005, 0.0075)),
    "D7": ((1, 1, 1, 1), (0.0,) * 6),
    "D8": ((1, 1, 1, 1), (0.001,) * 6),
}
"""Table 5.2: relative rates of R, S, T and U, and the selectivities of their pairs."""
PAIRS = list(combinations(range(4), 2))
WINDOW, VALUES = 300, 120
NAMES = ("R", "S", "T", "U")
STREAMS = {name: ("a",) for name in NAMES}
QUERY = (
    f"SELECT R.a FROM {', '.join(f'{n} [ROWS {WINDOW}]' for n in NAMES)} "
    "WHERE R.a = S.a AND S.a = T.a AND T.a = U.a"
)


def domains(selectivities: tuple[float, ...]) -> list[np.ndarray]:
    """The values of each stream, drawn evenly: pairs of streams share as many as their selectivity says.

    The number of values that each set of streams shares is the least-squares solution without negatives.
    """
    sets = [s for n in range(1, 5) for s in combinations(range(4), n)]
    sizes = [[float(i in s) for s in sets] for i in range(4)]
    shared = [[float(i in s and j in s) for s in sets] for i, j in PAIRS]
    wanted = np.array([float(VALUES)] * 4 + [min(x * VALUES**2, VALUES) for x in selectivities])
    matrix = np.array([*sizes, *shared])
    counts = np.ones(len(sets))
    for _ in range(5000):
        counts *= (matrix.T @ wanted) / np.maximum(matrix.T @ (matrix @ counts), 1e-9)
    found: list[list[int]] = [[] for _ in range(4)]
    value = 0
    for some, count in zip(sets, np.round(counts).astype(int), strict=True):
        for i in some:
            found[i] += range(value, value + count)
        value += count
    return [np.array(v or [-1 - i]) for i, v in enumerate(found)]


def plans(rates: tuple[int, ...], selectivities: tuple[float, ...]) -> list[Plan]:
    """M, X, P and G; the XJoin is the cheapest of all."""
    shares = {pair: max(x, 1e-6) for pair, x in zip(PAIRS, selectivities, strict=True)}
    traffic = Traffic(tuple(map(float, rates)), (float(WINDOW),) * 4, (shares,))
    best = best_tree(range(4), traffic, binary=True)
    assert best is not None
    prefix = replace(AS_IN_THE_THESIS, quota=0)
    return [replace(mjoin(), name="M"), tree("X", best), adaptive("P", prefix), adaptive("G")]


def drawn(rates: tuple[int, ...], selectivities: tuple[float, ...], steps: int, each: int) -> Iterator[Batch]:
    values, random = domains(selectivities), np.random.default_rng(5)
    for _ in range(steps):
        counts = [max(each * r // sum(rates), 1) for r in rates]
        yield {n: {"a": random.choice(v, c)} for n, v, c in zip(NAMES, values, counts, strict=True)}


@cache
def by_point(scale: Scale) -> list[Row]:
    """Figure 5.21."""
    found: list[Row] = []
    for point in ("D1", "D7") if scale.quick else POINTS:
        rates, shares = POINTS[point]
        steps = 8 if scale.quick else 48

        def batches(rates=rates, shares=shares, steps=steps) -> Iterator[Batch]:  # type: ignore[no-untyped-def]  # noqa: ANN001
            return drawn(rates, shares, steps, 2_000 if scale.quick else 12_000)

        runs = compared(QUERY, STREAMS, plans(rates, shares), batches)
        used = {n: len(r.operators[0].caches.plan) if n in ("P", "G") else 0 for n, r in runs.items()}
        for row in rows_of("point", 0, runs):
            found.append({**row, "point": point, "caches": used[str(row["algorithm"])]})
    return found


def point_claims(rows: list[Row]) -> list[Claim]:
    points = list(dict.fromkeys(str(r["point"]) for r in rows))
    rates = {(str(r["point"]), str(r["algorithm"])): float(r["rows_per_second"]) for r in rows}

    def ahead(one: str, other: str, at: Sequence[str], by: float = 1.0) -> tuple[str, int]:
        ratios = {p: rates[p, one] / rates[p, other] for p in at}
        return ", ".join(f"{p}: {v:.2f}" for p, v in ratios.items()), sum(v > by for v in ratios.values())

    found = []
    for kind in "XPG":
        said, count = ahead(kind, "M", points)
        found.append(Claim(f"{kind} is ahead of M nearly everywhere", said, count >= len(points) - 1))
    said, count = ahead("G", "X", points, 0.97)
    found.append(Claim("G is at least X nearly everywhere", said, count >= len(points) - 1))
    clear = [p for p in ("D2", "D3", "D4", "D7") if p in points]
    said, count = ahead("G", "X", clear, 1.05)
    found.append(Claim("G is clearly ahead of X at D2, D3, D4 and D7", said, count == len(clear)))
    behind = [p for p in ("D1", "D2", "D3") if p in points]
    said, count = ahead("X", "P", behind)
    found.append(Claim("X is ahead of P at D1 to D3", said, count == len(behind)))
    return found


BURST = 20
"""During a burst R has this many times its rate (5.8.5)."""


@cache
def burst(scale: Scale) -> list[Row]:
    """Figure 5.22: rates by steps; in the second half R has a burst."""
    steps, each = (12, 1000) if scale.quick else (80, 2000)

    def batches() -> Iterator[Batch]:
        random = np.random.default_rng(3)
        for step in range(steps):
            r = each * (BURST if step >= steps // 2 else 1)
            s, domain = random.integers(0, 400, each), 400
            a, b = random.integers(0, domain, r), random.integers(0, domain, 5 * each)
            yield {"R": {"a": a}, "S": {"a": s, "b": random.integers(0, domain, each)}, "T": {"b": b}}

    # I = 10,000 tuples in the thesis, of steps that each have as many here.
    fast = replace(AS_IN_THE_THESIS, interval=4 * 7 * each, observations=3)
    found = [
        forced("T ⋈ (R ⋈ S)", [(2, {0, 1})]),
        forced("R ⋈ (T ⋈ S)", [(0, {1, 2})]),
        adaptive("adaptive", fast),
        mjoin(),
    ]
    runs = compared(rst(400, 2000), RST, found, batches, warm=0.0)
    return [
        {"step": at, "algorithm": name, "rows_per_second": count / max(seconds, 1e-9)}
        for name, run in runs.items()
        for at, (count, seconds) in enumerate(run.by_step)
    ]


def burst_claims(rows: list[Row]) -> list[Claim]:
    names = list(dict.fromkeys(str(r["algorithm"]) for r in rows))
    lines = {n: list(series(rows, "step", "rows_per_second", n).values()) for n in names}
    half = len(lines["adaptive"]) // 2
    phases = {"before": slice(half // 2, half), "during": slice(half + half // 2, 2 * half)}
    found = []
    for phase, part in phases.items():
        rate = {n: float(np.median(line[part])) for n, line in lines.items()}
        static = max(v for n, v in rate.items() if "(" in n)
        said = f"{rate['adaptive'] / static:.2f} of the better static plan"
        found.append(Claim(f"adaptive meets it {phase} the burst", said, rate["adaptive"] > 0.9 * static))
    return found


@cache
def by_memory(scale: Scale) -> list[Row]:
    """Figure 5.23: the setup of D8 with little memory for subresults."""
    rates, shares = POINTS["D8"]
    found: list[Row] = []
    steps = 8 if scale.quick else 24

    def batches() -> Iterator[Batch]:
        return drawn(rates, shares, steps, 4_000)

    x = compared(QUERY, STREAMS, plans(rates, shares)[1:2], batches)["X"]
    least = _kept(x)
    for kilobytes in scale.some((4, 8, 16, 32, 64, 128, 256)):
        caches = adaptive("caches", replace(AS_IN_THE_THESIS, page=1024), kilobytes << 10)
        runs = compared(QUERY, STREAMS, [mjoin(), caches], batches)
        if kilobytes << 10 >= least:
            runs["xjoin"] = x
        found += rows_of("kilobytes", kilobytes, runs, least_of_xjoin=least / 1024)
    return found


def _kept(run: Run) -> int:
    """Bytes of the subresults that a tree keeps: stores of joins below another."""
    return sum(
        stub.store.nbytes()
        for join in run.operators
        for stub, part in zip(join._inputs.stubs, join._node.parts, strict=True)
        if part.stored is None
    )


def memory_claims(rows: list[Row]) -> list[Claim]:
    lines = {n: series(rows, "kilobytes", "rows_per_second", n) for n in ("mjoin", "caches")}
    ratio = {at: lines["caches"][at] / lines["mjoin"][at] for at in lines["mjoin"]}
    values = list(ratio.values())
    smooth = all(b > 0.75 * a for a, b in zip(values, values[1:], strict=False))
    said = ", ".join(f"{at:g} KB: {v:.2f}" for at, v in ratio.items())
    least = float(rows[0]["least_of_xjoin"])
    return [
        Claim("caches adapt smoothly to memory (rates over MJoin's)", said, smooth),
        Claim("an XJoin needs some memory at least", f"{least:.0f} KB", least > 4),
    ]
