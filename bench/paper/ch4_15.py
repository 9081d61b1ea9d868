"""Figure 4.15: processing rate of all algorithms by the number of filters (p = 0.05)."""

from bench.paper.figure import Claim, Figure, Row, ratios, shown
from bench.paper.overhead import by_filters


def claims(rows: list[Row]) -> list[Claim]:
    sweep = ratios(rows, "n", "filters_with_profiling", "a-greedy", "sweep")
    swaps = ratios(rows, "n", "filters_with_profiling", "a-greedy", "local-swaps")
    rate = ratios(rows, "n", "rows_per_second", "sweep", "a-greedy")
    local = ratios(rows, "n", "rows_per_second", "local-swaps", "a-greedy")
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
        Claim(
            "the gap in processing rate grows with n, and Sweep's is higher for large n",
            f"rate over A-Greedy's: {shown(rate)}",
            rate[last] > max(1, rate[first]),
        ),
        Claim(
            "so does the gap to LocalSwaps, whose rate is higher",
            f"rate over A-Greedy's: {shown(local)}",
            local[last] > max(1, local[first]),
        ),
    ]


FIGURE = Figure(
    "4.15",
    "Performance of all algorithms",
    "n",
    ("rows_per_second", "filters_with_profiling"),
    by_filters,
    claims,
)
