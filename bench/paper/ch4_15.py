"""Figure 4.15: processing rate of all algorithms by the number of filters (p = 0.05)."""

from bench.paper.figure import Claim, Figure, Row, ratios, shown
from bench.paper.overhead import by_filters


def claims(rows: list[Row]) -> list[Claim]:
    sweep = ratios(rows, "n", "filters_with_profiling", "a-greedy", "sweep")
    swaps = ratios(rows, "n", "filters_with_profiling", "a-greedy", "local-swaps")
    rate = ratios(rows, "n", "rows_per_second", "sweep", "a-greedy")
    first, last = min(sweep), max(sweep)
    return [
        Claim(
            "the gap between A-Greedy and Sweep grows with n: Sweep profiles less",
            f"all filters evaluated, A-Greedy over Sweep: {shown(sweep)}",
            sweep[last] > sweep[first] and sweep[last] > 1,
        ),
        Claim(
            "so does the gap to LocalSwaps",
            f"A-Greedy over LocalSwaps: {shown(swaps)}",
            swaps[last] > swaps[first] and swaps[last] > 1,
        ),
        Claim("Sweep's rate is higher for large n", f"rate over A-Greedy's: {shown(rate)}", rate[last] > 1),
    ]


FIGURE = Figure(
    "4.15",
    "Performance of all algorithms",
    "n",
    ("rows_per_second", "filters_with_profiling"),
    by_filters,
    claims,
)
