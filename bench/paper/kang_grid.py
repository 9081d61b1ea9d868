"""The choice on this machine: 56 workloads, what was chosen by calibrated weights beside the measured best.

Rates from 1:1000 to 1000:1, windows of 100 to 100,000 rows, equality and band. Weights are calibrated first.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.window_joins import BAND, BY_PREDICATE, EQUALITY, LEAST_BATCH, OneWay, fastest
from penstock.plan.access import ByCost
from penstock.plan.calibrate import fit
from penstock.plan.calibrate import measure as calibrate

RATES = [(1, 1000), (1, 100), (1, 10), (1, 1), (10, 1), (100, 1), (1000, 1)]
WINDOWS = (100, 1_000, 10_000, 100_000)


def measure(scale: Scale) -> list[Row]:
    chooser = ByCost(fit(list(calibrate())))
    rows: list[Row] = []
    for predicate in (EQUALITY, BAND):
        for method in BY_PREDICATE[predicate]:
            fastest(OneWay(1, 1, 1_000, predicate), method, 1_000)
        for window in scale.some(WINDOWS):
            ways = {rate: _one_way(chooser, predicate, window, rate, scale) for rate in RATES}
            rows += [_full(predicate, window, rate, ways[rate], ways[rate[::-1]]) for rate in RATES]
    return rows


def _one_way(
    chooser: ByCost, predicate: str, window: int, rates: tuple[int, int], scale: Scale
) -> tuple[str, dict[str, float]]:
    """Tuples at the first rate probe a window that changes at the second: the choice, and nanoseconds."""
    way = OneWay(*rates, window, predicate)
    methods, total = BY_PREDICATE[predicate], sum(rates)
    count = scale.tuples(min(max(2 * window, 40_000), 120_000))
    costs = chooser.costs(rates[0] / total, rates[1] / total, max(window, LEAST_BATCH), methods)
    return next(iter(costs)), {m: fastest(way, m, count) * 1e9 for m in methods}


def _full(
    predicate: str, window: int, rates: tuple[int, int],
    into_b: tuple[str, dict[str, float]], into_a: tuple[str, dict[str, float]],
) -> Row:  # fmt: skip
    chosen = into_a[1][into_a[0]] + into_b[1][into_b[0]]
    best = min(into_a[1].values()) + min(into_b[1].values())
    symmetric = min(into_a[1][m] + into_b[1][m] for m in into_a[1])
    return {
        "predicate": predicate, "window": window, "rates": f"{rates[0]}:{rates[1]}",
        "ratio": rates[0] / rates[1], "on_a": into_a[0], "on_b": into_b[0],
        "chosen_ns": chosen, "best_ns": best, "over_best": chosen / best,
        "symmetric_over_best": symmetric / best,
        "workload": f"{predicate} {window:,}",
    }  # fmt: skip


def claims(rows: list[Row]) -> list[Claim]:
    over = [float(r["over_best"]) for r in rows]
    near = sum(o <= 1.1 for o in over)
    worst, gain = max(over), max(float(r["symmetric_over_best"]) for r in rows)
    return [
        Claim("chosen is best or within 10 % in 9 of 10", f"{near} of {len(over)}", near >= 0.9 * len(over)),
        Claim("never worse than 1.5 times the best", f"{worst:.2f} times", worst <= 1.5),
        Claim("the best symmetric combination costs up to 53 % more", f"{gain - 1:.0%} more", gain >= 1.53),
    ]


FIGURE = Figure("kang grid", "cost of the chosen combination over the measured best", "ratio",
                ("over_best", "symmetric_over_best"), measure, claims, by="workload", log_x=True)  # fmt: skip
