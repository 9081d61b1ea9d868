"""Figure 4.12: A-Greedy and Independent by the filters' selectivity, under convergence."""

from bench.paper.figure import Claim, Figure, Row, Scale, ratios, shown
from bench.paper.filters import as_penstock_runs_it, converged, over_seeds
from penstock.workloads.filters import FilterWorkload

PERCENT = (10, 20, 30, 40, 50, 60, 70, 80, 90)


def measure(scale: Scale) -> list[Row]:
    found = []
    for percent in scale.some(PERCENT):
        workloads = [FilterWorkload(selectivity=percent / 100, spread=0.05, seed=s) for s in scale.seeds(2)]
        measured = [
            converged(w, ("optimal", "a-greedy", "independent"), scale, as_penstock_runs_it)
            for w in workloads
        ]
        found += [{"selectivity_percent": percent, **row} for row in over_seeds(measured)]
    return found


def claims(rows: list[Row]) -> list[Claim]:
    gap = ratios(rows, "selectivity_percent", "filters_a_tuple", "independent", "a-greedy")
    near = ratios(rows, "selectivity_percent", "filters_a_tuple", "a-greedy", "optimal")
    best = max(gap, key=lambda s: gap[s])
    return [
        Claim(
            "A-Greedy gains most over Independent at intermediate selectivities",
            f"filters, Independent over A-Greedy: {shown(gap)}",
            20 < best < 80 and gap[best] > gap[min(gap)] and gap[best] > gap[max(gap)],
        ),
        Claim(
            "at low and high selectivities there is little to gain",
            f"{gap[min(gap)]:.2f} at {min(gap):g} %, {gap[max(gap)]:.2f} at {max(gap):g} %",
            max(gap[min(gap)], gap[max(gap)]) < 1.05,
        ),
        Claim(
            "within 5 % of the offline optimum (our goal)",
            f"filters over the optimum's: {shown(near)}",
            max(near.values()) < 1.05,
        ),
    ]


FIGURE = Figure(
    "4.12",
    "Effect of selectivity under convergence",
    "selectivity_percent",
    ("rows_per_second", "filters_a_tuple"),
    measure,
    claims,
)
