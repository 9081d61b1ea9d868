"""Figures 5.11 to 5.20: an MJoin with and without caches, by one property of the streams each.

The best plan with caches is forced where there is one candidate, as in the thesis, and chosen else. Windows,
which the thesis does not print, are chosen here: R and S have 8,000 values and T half of them, so that rows
leave T while what they join is still there. With windows of one length every row that leaves T finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bench.paper.caching_joins import (
    AS_IN_THE_THESIS,
    BY_WORK,
    CACHED,
    EACH,
    RST,
    WINDOW,
    Batch,
    Plan,
    adaptive,
    by_work,
    compared,
    in_order,
    mjoin,
    plain_probes,
    rows_of,
    rst,
    without_index,
)
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from penstock.streamon.settings import CacheThresholds

STEPS = 20


def _steps(scale: Scale) -> int:
    return 6 if scale.quick else STEPS


def _plans() -> list[Plan]:
    return [mjoin(), plain_probes(), CACHED("caches")]


def relative(rows: list[Row]) -> list[Row]:
    """What an input tuple takes with caches over what it takes in the MJoin and by plain probes, in time and
    in work; and the joined tuples that probes made.
    """
    found: list[Row] = []
    x = next(iter(rows[0]))
    for at in dict.fromkeys(r[x] for r in rows):
        named = {str(r["algorithm"]): r for r in rows if r[x] == at}
        plain, probes, cached = (named[name] for name in ("mjoin", "probes", "caches"))
        counted = named.get("caches by work", cached)
        row = {**counted, "algorithm": "mjoin / caches"}
        row["relative"] = float(plain["rows_per_second"]) / float(cached["rows_per_second"])
        row["relative_to_probes"] = float(probes["rows_per_second"]) / float(cached["rows_per_second"])
        row["relative_work"] = float(counted["work"]) / float(plain["work"])
        row["relative_made"] = float(counted["tuples_made"]) / max(float(plain["tuples_made"]), 1.0)
        row["joined"] = float(counted["work"]) - float(counted["of_caches"])
        row["work_plain"] = float(plain["work"])
        row["pipelines"] = float(probes["in_pipelines"]) * float(probes["rows_per_second"])
        row["relative_pipelines"] = float(cached["in_pipelines"]) / float(probes["in_pipelines"])
        found.append(row)
    return found


@cache
def by_multiplicity(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for r in scale.some((1, 2, 3, 5, 7, 10)):
        query = rst(t=r * WINDOW / 2)
        found += rows_of("multiplicity", r, compared(query, RST, _plans(), in_order(_steps(scale), r)))
    return found


@cache
def by_selectivity(scale: Scale) -> list[Row]:
    found: list[Row] = []
    values: Sequence[float] = (0.25, 0.5, 1, 2, 3, 5, 8)
    for fan in (values[0], values[-1]) if scale.quick else values:
        query = rst(r=fan * WINDOW, t=5 * WINDOW / 2)
        found += rows_of("joined_rows", fan, compared(query, RST, _plans(), in_order(_steps(scale), fan=fan)))
    return found


@cache
def by_updates(scale: Scale) -> list[Row]:
    """Rows of R and S per row of T: each brings an update of the cache, each row of T a look-up. T has one in
    so many of their values, five times each; for the least, all of them 25 times.
    """
    found: list[Row] = []
    values = [(25, 1), (5, 1), (5, 2), (5, 5), (5, 10), (5, 20)]
    for r, share in [values[0], values[-1]] if scale.quick else values:
        steps = in_order(_steps(scale), r, share=share)
        runs = compared(rst(t=r * WINDOW / 2 / share), RST, _plans(), steps)
        found += rows_of("updates_per_probe", share / r, runs)
    return found


def _soon(thresholds: CacheThresholds) -> CacheThresholds:
    """For few rows of many results: observations of few tuples, and a short interval."""
    return replace(thresholds, interval=1 << 14, sample=32, least_sample=32, bloom_tuples=1 << 11)


@cache
def by_joins(scale: Scale) -> list[Row]:
    """A join of n streams on one attribute; its values come once in half of the streams, else five times."""
    found: list[Row] = []
    for n in scale.some((3, 4, 5, 6, 7)):
        names = [f"R{i}" for i in range(n)]
        times = [1 if i < n // 2 else 5 for i in range(n)]
        each = max(EACH // 5 ** (n - n // 2 - 1), 50)
        # As with three streams, the last has half of the values.
        sizes = [t * 4 * each // (2 if i == n - 1 else 1) for i, t in enumerate(times)]
        windows = ", ".join(f"{name} [ROWS {size}]" for name, size in zip(names, sizes, strict=True))
        equal = " AND ".join(f"{a}.a = {b}.a" for a, b in zip(names, names[1:], strict=False))

        def batches(times: list[int] = times, names: list[str] = names, each: int = each) -> Iterator[Batch]:
            for step in range(2 * _steps(scale)):
                values = np.arange(step * each, (step + 1) * each)
                yield {name: {"a": np.repeat(values, t)} for name, t in zip(names, times, strict=True)}

        streams = {name: ("a",) for name in names}
        plans = [mjoin(), plain_probes(), adaptive("caches", _soon(AS_IN_THE_THESIS))]
        plans.append(by_work("caches by work", _soon(BY_WORK)))
        runs = compared(f"SELECT R0.a FROM {windows} WHERE {equal}", streams, plans, batches)
        rows = rows_of("n", n, runs)
        for row, run in zip(rows, runs.values(), strict=True):
            caches = run.operators[0].caches
            chosen = getattr(caches, "reoptimizer", None)
            row["used"], row["candidates"] = (len(caches.plan), len(chosen.states)) if chosen else (0, 0)
        found += rows
    return found


@cache
def by_cost(scale: Scale) -> list[Row]:
    found: list[Row] = []
    for window in scale.some((50, 100, 200, 400, 800)):
        steps = in_order(_steps(scale), each=1_000)
        plans = [without_index(p) for p in _plans()]
        found += rows_of("window", window, compared(rst(window, window, 5 * window), RST, plans, steps))
    return found


def _column(rows: list[Row], column: str) -> dict[float, float]:
    return {float(r[next(iter(r))]): float(r[column]) for r in rows}


def _dear(rows: list[Row]) -> str:
    """Why caches are not faster: what pipelines take by plain probes, and with caches."""
    share, times = (_column(rows, c).values() for c in ("pipelines", "relative_pipelines"))
    return (
        f"by plain probes the pipelines take {min(share):.0%} to {max(share):.0%} of the time, the rest are "
        f"windows and results, which both plans make; with look-ups, what misses add and updates they take "
        f"{min(times):.2f} to {max(times):.2f} times as long"
    )


def _small(rows: list[Row]) -> str:
    """Why caches do not do less work, where they do least for it."""
    worst = max(rows, key=lambda r: float(r["relative_work"]))
    joined, plain, own = (float(worst[c]) for c in ("joined", "work_plain", "of_caches"))
    return (
        f"at {next(iter(worst.values())):g} caches save {plain - joined:.2f} probes and joined tuples per "
        f"input tuple, and take {own:.2f} operations of their own; {float(worst['results']):.2f} of the "
        f"{plain:.2f} without caches are results"
    )


def _ahead(rows: list[Row], said: str, at: Callable[[float], bool] = lambda x: True) -> list[Claim]:
    """In time, beside the MJoin and beside plain probes, and in work."""
    some = [r for r in rows if at(float(next(iter(r.values()))))]
    time, work = _column(rows, "relative"), _column(rows, "relative_work")
    fast, little = (all(float(r[c]) < 1 for r in some) for c in ("relative", "relative_work"))
    made, beside = _column(rows, "relative_made"), _column(rows, "relative_to_probes")
    fewer, best = (all(float(r[c]) < 1 for r in some) for c in ("relative_made", "relative_to_probes"))
    return [
        Claim(f"{said}: time", shown(time), fast, "" if fast else _dear(some)),
        Claim(f"{said}: work", shown(work), little, "" if little else _small(some)),
        Claim("fewer tuples made by probes (ours)", shown(made), fewer, "" if fewer else _small(some)),
        Claim("ahead of plain probes in time (ours)", shown(beside), best, "" if best else _dear(some)),
    ]


def everywhere(rows: list[Row]) -> list[Claim]:
    return _ahead(rows, "caching is ahead over the whole range")


def with_hits(rows: list[Row]) -> list[Claim]:
    work = _column(rows, "relative_work")
    values = list(work.values())
    grows = all(b < a for a, b in zip(values, values[1:], strict=False))
    return [
        *everywhere(rows),
        Claim("the advantage grows with the hit probability: work", shown(work), grows),
    ]


def with_selectivity(rows: list[Row]) -> list[Claim]:
    work = _column(rows, "relative_work")
    least = max(work, key=lambda x: work[x])
    said = f"least at {least:g}: {shown(work)}"
    near = 0.5 <= least <= 2
    why = "" if near else "here it falls with every tuple that a miss adds and a hit reads"
    return [*everywhere(rows), Claim("the advantage is least near selectivity 1: work", said, near, why)]


def falls(rows: list[Row]) -> list[Claim]:
    found = []
    for measure, column in (("time", "relative"), ("work", "relative_work")):
        ratios = _column(rows, column)
        values = list(ratios.values())
        says = f"the advantage falls with the rate of updates: {measure}"
        found.append(Claim(says, shown(ratios), values[0] < values[-1]))
    beyond = _ahead(rows, "caching stays ahead beyond one update per probe", lambda x: x <= 2)
    return [*found, *beyond]


def rises(rows: list[Row]) -> list[Claim]:
    """By time alone: a probe without an index is one unit of work, however many rows it looks at."""
    ratios = _column(rows, "relative")
    values = list(ratios.values())
    claims = [Claim("the advantage grows with the cost of the join", shown(ratios), values[-1] < values[0])]
    return [*claims, *(c for c in _ahead(rows, "caching is ahead") if "work" not in c.says)]


def with_many_joins(rows: list[Row]) -> list[Claim]:
    used = {int(r["n"]): f"{r['used']} of {r['candidates']}" for r in rows}
    agrees = used.get(7) == "6 of 15"
    largest = max(rows, key=lambda r: float(r["n"]))
    share = float(largest["results"]) / float(largest["work_plain"])
    why = (
        f"results are {share:.0%} of the work without caches at n = {largest['n']}, and a cache reads as "
        "many as probes make; which candidates have the prefix invariant depends on A-Greedy's orders"
    )
    said = Claim("6 of 15 candidates are used for n = 7: work", str(used), agrees, "" if agrees else why)
    return [*_ahead(rows, "the improvement is maintained throughout the range"), said]


def absolute(number: str, title: str, x: str, measure: Callable[[Scale], list[Row]]) -> Figure:
    def claims(rows: list[Row]) -> list[Claim]:
        found = []
        for name, y, counted in (("rate", "rows_per_second", "caches"), ("work", "work", "caches by work")):
            plain = series(rows, x, y, "mjoin")
            cached = series(rows, x, y, counted) or series(rows, x, y, "caches")
            best = {at: cached[at] / plain[at] for at in plain}
            better = all(v > 1 if name == "rate" else v < 1 for v in best.values())
            says = "caches raise the rate" if name == "rate" else "caches do less work"
            why = "" if better else _dear(relative(rows)) if name == "rate" else _small(relative(rows))
            found.append(Claim(says, shown(best), better, why))
        return found

    y = ("rows_per_second", "work")
    return Figure(number, f"{title} (absolute)", x, y, measure, claims)


def relation(
    number: str,
    title: str,
    x: str,
    measure: Callable[[Scale], list[Row]],
    claims: Callable[[list[Row]], list[Claim]] = everywhere,
) -> Figure:
    y = ("relative", "relative_to_probes", "relative_work")
    plotted = f"{title} (relative)"
    return Figure(number, plotted, x, y, lambda scale: relative(measure(scale)), claims)
