"""Figure 4.18: where the time of figure 4.17 goes."""

from bench.paper.figure import Claim, Figure, Row, series, shown
from bench.paper.overhead import by_cost


def claims(rows: list[Row]) -> list[Claim]:
    greedy, sweep, swaps = (series(rows, "cost", "overhead", a) for a in ("a-greedy", "sweep", "local-swaps"))
    dear = max(greedy)
    return [
        Claim(
            "A-Greedy's overhead is much higher with expensive filters (thesis: about 25 % at c = 100)",
            f"percent: {shown(greedy, 1)}",
            greedy[dear] > greedy[min(greedy)],
        ),
        Claim(
            "Sweep and LocalSwaps have less",
            f"percent, Sweep: {shown(sweep, 1)}; LocalSwaps: {shown(swaps, 1)}",
            max(sweep[dear], swaps[dear]) < greedy[dear],
        ),
    ]


FIGURE = Figure(
    "4.18",
    "Run-time breakdown for figure 4.17",
    "cost",
    ("processing_micros", "adapting_micros"),
    by_cost,
    claims,
    log_x=True,
)
