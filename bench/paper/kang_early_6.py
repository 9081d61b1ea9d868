"""The earlier text's figure 6: CPU time of the four full joins of hash and none, as B becomes faster."""

from __future__ import annotations

from bench.paper.combinations import full_join
from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.kang_early_4 import METHODS, RATIOS, WINDOW, crossing
from penstock.cost.model import Workload

NAMES = ("HH", "HN", "NH", "NN")


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for ratio in scale.some(RATIOS):
        join = full_join(Workload(1, ratio, WINDOW, WINDOW), METHODS, scale.tuples(60_000))
        measured, model = join.measured(), join.model()
        rows += [
            {"rate_of_B": ratio, "nanoseconds_a_row": measured[n], "model": model[n], "combination": n}
            for n in NAMES
        ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    costs: dict[str, dict[float, float]] = {n: {} for n in NAMES}
    for r in rows:
        costs[str(r["combination"])][float(r["rate_of_B"])] = float(r["nanoseconds_a_row"])
    winners = [min(NAMES, key=lambda n: costs[n][x]) for x in sorted(costs["HH"])]
    at = crossing(costs["HH"], costs["HN"])
    last = max(costs["HH"])
    gain = costs["HH"][last] / costs["HN"][last] - 1
    return [
        Claim("HH is best at like rates, HN from some rate of B on",
              f"{', '.join(dict.fromkeys(winners))}; from {at:.0f} times A's rate on",
              list(dict.fromkeys(winners)) == ["HH", "HN"]),
        Claim("there the symmetric hash join costs more",
              f"{gain:.0%} more at {last:,.0f} times A's rate", gain > 0),
    ]  # fmt: skip


FIGURE = Figure("kang early 6", "CPU time of full joins, windows of 1,000 rows", "rate_of_B",
                ("nanoseconds_a_row", "model"), measure, claims, by="combination", log_x=True,
                log_y=True)  # fmt: skip
