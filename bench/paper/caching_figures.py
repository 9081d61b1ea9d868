"""Figures 5.11 to 5.20: an MJoin with and without caches, by one property of the streams each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from bench.paper.caching_joins import (
    CACHED,
    RST,
    Batch,
    adaptive,
    compared,
    in_order,
    mjoin,
    plain_probes,
    rows_of,
    rst,
    without_index,
)
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown

STEPS, EACH, WINDOW = 16, 4_000, 2_000


def _steps(scale: Scale) -> int:
    return 6 if scale.quick else STEPS


def relative(rows: list[Row]) -> list[Row]:
    """The rates of the MJoin and of plain probes over that with caches; probes and look-ups with caches over
    probes without, and tuples made.
    """
    found: list[Row] = []
    x = next(iter(rows[0]))
    for at in dict.fromkeys(r[x] for r in rows):
        plain, probes, cached = (
            next(r for r in rows if r[x] == at and r["algorithm"] == name)
            for name in ("mjoin", "probes", "caches")
        )
        row = {**cached, "algorithm": "mjoin / caches"}
        row["relative"] = float(plain["rows_per_second"]) / float(cached["rows_per_second"])
        row["relative_to_probes"] = float(probes["rows_per_second"]) / float(cached["rows_per_second"])
        made = float(cached["probes"]) + float(cached["look_ups"])
        row["relative_work"] = made / max(float(plain["probes"]), 1.0)
        row["relative_made"] = float(cached["tuples_made"]) / max(float(plain["tuples_made"]), 1.0)
        found.append(row)
    return found


@cache
def by_multiplicity(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for r in scale.some((1, 2, 3, 5, 7, 10)):
        steps = in_order(_steps(scale), EACH, r)
        runs = compared(rst(WINDOW, r * WINDOW), RST, [mjoin(), plain_probes(), CACHED("caches")], steps)
        found += rows_of("multiplicity", r, runs)
    return found


@cache
def by_selectivity(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for fan in scale.some((1, 2, 3, 5, 8)):
        steps = in_order(_steps(scale), EACH, 5, fan)
        query = rst(WINDOW, 5 * WINDOW).replace(f"R [ROWS {WINDOW}]", f"R [ROWS {fan * WINDOW}]")
        found += rows_of(
            "joined_rows", fan, compared(query, RST, [mjoin(), plain_probes(), CACHED("caches")], steps)
        )
    return found


@cache
def by_updates(scale: Scale) -> list[Row]:
    """Rows of R and S per row of T: each brings an update of the cache, each row of T a look-up."""
    found: list[Row] = []
    values = [(5, 0.2), (5, 1.0), (2, 1.0), (1, 1.0), (1, 2.0), (1, 4.0)]
    for r, updates in [values[0], values[-1]] if scale.quick else values:
        steps = in_order(_steps(scale), EACH, r, updates=updates)
        query = rst(max(int(WINDOW * updates), 100), r * WINDOW)
        runs = compared(query, RST, [mjoin(), plain_probes(), CACHED("caches")], steps)
        found += rows_of("updates_per_probe", updates / r, runs)
    return found


@cache
def by_joins(scale: Scale) -> list[Row]:
    """A join of n streams on one attribute; its values come once in half of the streams, else five times."""
    found: list[Row] = []
    for n in scale.some((3, 4, 5, 6, 7)):
        names = [f"R{i}" for i in range(n)]
        times = [1 if i < n // 2 else 5 for i in range(n)]
        windows = ", ".join(f"{name} [ROWS {200 * t}]" for name, t in zip(names, times, strict=True))
        equal = " AND ".join(f"{a}.a = {b}.a" for a, b in zip(names, names[1:], strict=False))
        query = f"SELECT R0.a FROM {windows} WHERE {equal}"
        each = max(4000 // 5 ** (n - n // 2 - 1), 100)

        def batches(times: list[int] = times, names: list[str] = names, each: int = each) -> Iterator[Batch]:
            for step in range(2 * _steps(scale)):
                values = np.arange(step * each, (step + 1) * each)
                yield {name: {"a": np.repeat(values, t)} for name, t in zip(names, times, strict=True)}

        streams = {name: ("a",) for name in names}
        runs = compared(query, streams, [mjoin(), plain_probes(), adaptive("caches")], batches)
        caches = runs["caches"].operators[0].caches
        states = caches.reoptimizer.states
        found += rows_of("n", n, runs, used=len(caches.plan), candidates=len(states))
    return found


@cache
def by_cost(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for window in scale.some((50, 100, 200, 400, 800)):
        steps = in_order(_steps(scale), 1_000, 5)
        plans = [without_index(p) for p in (mjoin(), plain_probes(), CACHED("caches"))]
        found += rows_of("window", window, compared(rst(window, 5 * window), RST, plans, steps))
    return found


def _ratios(rows: list[Row]) -> dict[float, float]:
    return {float(r[next(iter(r))]): float(r["relative"]) for r in rows}


def _everywhere(rows: list[Row]) -> list[Claim]:
    ratios = _ratios(rows)
    ahead = all(v < 1 for v in ratios.values())
    return [Claim("caching is ahead over the whole range", shown(ratios), ahead), *_beside(rows)]


def _beside(rows: list[Row]) -> list[Claim]:
    """Beyond the thesis: beside plain probes, which do without drop probing as well, and in work."""
    x = next(iter(rows[0]))
    said = [
        ("caching is ahead of plain probes (ours)", "relative_to_probes"),
        ("fewer probes and look-ups than probes without (ours)", "relative_work"),
        ("fewer tuples made by probes (ours)", "relative_made"),
    ]
    found = []
    for says, column in said:
        values = {float(r[x]): float(r[column]) for r in rows}
        found.append(Claim(says, shown(values), all(v < 1 for v in values.values())))
    return found


def falls(rows: list[Row]) -> list[Claim]:
    ratios = _ratios(rows)
    values, ahead = list(ratios.values()), all(v < 1 for at, v in ratios.items() if at <= 2)
    return [
        Claim("the advantage falls with the rate of updates", shown(ratios), values[0] < values[-1]),
        Claim("caching stays ahead beyond one update per probe", shown(ratios), ahead),
        *_beside(rows),
    ]


def rises(rows: list[Row]) -> list[Claim]:
    ratios = _ratios(rows)
    values = list(ratios.values())
    return [
        Claim("the advantage grows with the cost of the join", shown(ratios), values[-1] < values[0]),
        *_beside(rows),
    ]


def with_many_joins(rows: list[Row]) -> list[Claim]:
    used = {int(r["n"]): f"{r['used']} of {r['candidates']}" for r in rows}
    said = Claim("6 of 15 candidates are used for n = 7", str(used), used.get(7, "").startswith("6 of"))
    return [*_everywhere(rows), said]


def absolute(number: str, title: str, x: str, measure: Callable[[Scale], list[Row]]) -> Figure:
    def claims(rows: list[Row]) -> list[Claim]:
        lines = {name: series(rows, x, "rows_per_second", name) for name in ("mjoin", "caches")}
        best = {at: lines["caches"][at] / lines["mjoin"][at] for at in lines["mjoin"]}
        return [Claim("caches raise the rate", shown(best), all(v > 1 for v in best.values()))]

    return Figure(number, f"{title} (absolute)", x, ("rows_per_second",), measure, claims)


def relation(
    number: str,
    title: str,
    x: str,
    measure: Callable[[Scale], list[Row]],
    claims: Callable[[list[Row]], list[Claim]] = _everywhere,
) -> Figure:
    y = ("relative", "relative_to_probes", "relative_work")
    return Figure(number, f"{title} (relative)", x, y, lambda scale: relative(measure(scale)), claims)
