"""Figures 4.13 and 4.14: A-Greedy and Independent by the correlation factor."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale, ratios, shown
from bench.paper.filters import as_penstock_runs_it, converged, over_seeds
from penstock.workloads.filters import FilterWorkload


def correlation_figure(number: str, n: int) -> Figure:
    """The figure for n filters."""

    def measure(scale: Scale) -> list[Row]:
        found = []
        for factor in scale.some(range(1, n + 1)):
            workloads = [
                FilterWorkload(n=n, correlation_factor=factor, spread=0.05, seed=s) for s in scale.seeds(2)
            ]
            measured = [
                converged(w, ("optimal", "a-greedy", "independent"), scale, as_penstock_runs_it)
                for w in workloads
            ]
            found += [{"correlation_factor": factor, **row} for row in over_seeds(measured)]
        return found

    def claims(rows: list[Row]) -> list[Claim]:
        gap = ratios(rows, "correlation_factor", "filters_a_tuple", "independent", "a-greedy")
        near = ratios(rows, "correlation_factor", "filters_a_tuple", "a-greedy", "optimal")
        small = {factor: r for factor, r in near.items() if factor <= 4}
        best = max(gap, key=lambda factor: gap[factor])
        return [
            Claim(
                "A-Greedy gains over Independent as filters become correlated",
                f"filters, Independent over A-Greedy: {shown(gap)}",
                best > 1 and gap[best] > 1.02 * gap[1],
            ),
            Claim(
                "the gain is less when all filters are alike",
                f"{gap[best]:.2f} at {best:g}, {gap[n]:.2f} at {n}",
                gap[n] < gap[best],
            ),
            Claim(
                "within 5 % of the offline optimum for correlation factors 1 to 4 (our goal)",
                f"filters over the optimum's: {shown(small)}",
                max(small.values()) < 1.05,
            ),
        ]

    return Figure(
        number,
        f"Effect of correlation under convergence for n = {n} filters",
        "correlation_factor",
        ("rows_per_second", "filters_a_tuple"),
        measure,
        claims,
    )
