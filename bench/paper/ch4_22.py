"""Figure 4.22: total time by the period of change; four filters of cost 1, four of cost 10."""

from bench.paper.drift import drifting, targets
from bench.paper.figure import Claim, Figure, Row, Scale, ratios, shown

PERIODS = (50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000)
TUPLES = 4_000_000


def measure(scale: Scale) -> list[Row]:
    return [
        {"period": period, **row}
        for period in scale.some(PERIODS)
        for row in drifting(10, period, TUPLES, scale, seeds=6)
    ]


def claims(rows: list[Row]) -> list[Claim]:
    sweep = ratios(rows, "period", "cost_a_tuple", "a-greedy", "sweep")
    seconds = ratios(rows, "period", "seconds", "a-greedy", "sweep")
    return [
        *_overtaken(seconds, "total time, as the thesis plots it"),
        *_overtaken(sweep, "cost of filters, counted"),
        *targets(rows, "period"),
    ]


def _overtaken(ratio: dict[float, float], what: str) -> list[Claim]:
    """What is said of A-Greedy over Sweep, by the period of change."""
    fast, slow = min(ratio), max(ratio)
    return [
        Claim(
            f"when changes are frequent A-Greedy outperforms Sweep: {what}",
            f"A-Greedy over Sweep: {shown(ratio)}",
            ratio[fast] < 1,
        ),
        Claim(
            f"Sweep overtakes as the rate of change falls: {what}",
            f"{ratio[fast]:.2f} at {fast:,.0f}, {ratio[slow]:.2f} at {slow:,.0f}",
            ratio[fast] < 1 < ratio[slow],
        ),
    ]


FIGURE = Figure(
    "4.22",
    "Varying the rate of change",
    "period",
    ("seconds", "cost_a_tuple"),
    measure,
    claims,
    log_x=True,
)
