"""Figure 4.11: processing rate of A-Greedy and Independent by the number of filters, under convergence."""

from bench.paper.figure import Claim, Figure, Row, Scale, ratios, shown
from bench.paper.filters import as_penstock_runs_it, converged, over_seeds
from penstock.workloads.filters import FilterWorkload

FILTERS = (2, 4, 6, 8, 10, 12, 16)


def measure(scale: Scale) -> list[Row]:
    return [
        {"n": n, **row}
        for n in scale.some(FILTERS)
        for row in over_seeds(
            [
                converged(
                    FilterWorkload(n=n, spread=0.05, seed=s),
                    ("optimal", "a-greedy", "independent"),
                    scale,
                    as_penstock_runs_it,
                )
                for s in scale.seeds(2)
            ]
        )
    ]


def claims(rows: list[Row]) -> list[Claim]:
    near = ratios(rows, "n", "filters_a_tuple", "a-greedy", "optimal")
    gap = ratios(rows, "n", "filters_a_tuple", "independent", "a-greedy")
    rate = ratios(rows, "n", "rows_per_second", "a-greedy", "independent")
    small = {n: r for n, r in near.items() if n <= 8}
    wide = [n for n in rate if n >= 6]
    first, last = min(gap), max(gap)
    return [
        Claim(
            "A-Greedy is near optimal for small n",
            f"filters over the optimum's: {shown(small)}",
            max(small.values()) < 1.05,
        ),
        Claim(
            "A-Greedy is better than Independent throughout (n > 2)",
            f"filters, Independent over A-Greedy: {shown(gap)}",
            all(r > 1 for n, r in gap.items() if n > 2),
        ),
        Claim(
            "its processing rate is higher too",
            f"rate over Independent's: {shown(rate)}",
            all(rate[n] > 1 for n in wide),
        ),
        Claim(
            "the gap widens with n",
            f"{gap[first]:.2f} at n = {first:g}, {gap[last]:.2f} at n = {last:g}",
            gap[last] > gap[first],
        ),
    ]


FIGURE = Figure(
    "4.11",
    "Effect of the number of filters under convergence",
    "n",
    ("rows_per_second", "filters_a_tuple"),
    measure,
    claims,
)
