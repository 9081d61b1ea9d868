"""Figure 4.17: processing rate of all algorithms by the cost of half the filters (n = 8)."""

from bench.paper.figure import Claim, Figure, Row, ratios, shown
from bench.paper.overhead import by_cost


def claims(rows: list[Row]) -> list[Claim]:
    sweep = ratios(rows, "cost", "cost_a_tuple", "a-greedy", "sweep")
    swaps = ratios(rows, "cost", "cost_a_tuple", "a-greedy", "local-swaps")
    dear = max(sweep)
    best = ratios(rows, "cost", "cost_a_tuple", "local-swaps", "optimal")
    swept = ratios(rows, "cost", "cost_a_tuple", "sweep", "optimal")
    order = ratios(rows, "cost", "cost_a_tuple", "local-swaps", "sweep")
    return [
        Claim(
            "Sweep does better than A-Greedy, which profiles with the expensive filters",
            f"all cost, A-Greedy over Sweep: {shown(sweep)}",
            sweep[dear] > 1,
        ),
        Claim(
            "LocalSwaps does better than A-Greedy",
            f"A-Greedy over LocalSwaps: {shown(swaps)}",
            swaps[dear] > 1,
        ),
        Claim(
            "Sweep does better than LocalSwaps for c = 50 and 100, where LocalSwaps misses the best order",
            f"cost, LocalSwaps over Sweep: {shown(order)}",
            all(r >= 1 for c, r in order.items() if c >= 50),
            f"with profiling LocalSwaps costs {shown(best)} times as much as the optimum alone, Sweep "
            f"{shown(swept)}: where LocalSwaps is below, it does not miss the best order and profiles least",
        ),
    ]


FIGURE = Figure(
    "4.17",
    "Effect of varying filter costs",
    "cost",
    ("rows_per_second", "cost_a_tuple"),
    by_cost,
    claims,
    log_x=True,
)
