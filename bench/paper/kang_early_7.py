"""The earlier text's figure 7: results a second as B becomes faster, until the join cannot keep up.

A join keeps up while a second of both streams takes less than a second of CPU time. Beyond that it serves
what it can: as many rows of both streams as there is time for.
"""

from __future__ import annotations

from bench.paper.combinations import full_join
from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.kang_early_4 import METHODS, WINDOW, crossing
from penstock.cost.model import Workload

NAMES = ("HH", "HN")
RATE_OF_A = 100_000.0
RATIOS = (10, 30, 100, 150, 200, 250, 300, 350, 400, 500, 700, 1_000)


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for ratio in scale.some(RATIOS):
        workload = Workload(1, ratio, WINDOW, WINDOW)
        measured = full_join(workload, METHODS, scale.tuples(60_000)).measured()
        arrive = RATE_OF_A * (1 + ratio)
        for name in NAMES:
            most = 1e9 / measured[name]
            # A window holds as many keys as rows, so each row that is served finds one.
            rows.append(
                {"rows_of_B_a_second": RATE_OF_A * ratio, "results_a_second": min(arrive, most),
                 "most_rows_a_second": most, "combination": name}
            )  # fmt: skip
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    reach = {n: _reach([r for r in rows if r["combination"] == n]) for n in NAMES}
    most = {n: max(float(r["results_a_second"]) for r in rows if r["combination"] == n) for n in NAMES}
    told = ", ".join(f"{n} up to {reach[n] / 1e6:.1f} million rows of B a second" for n in NAMES)
    return [
        Claim("the asymmetric join keeps up with a faster stream", told, reach["HN"] > reach["HH"]),
        Claim("at its peak it gives more results (the paper: 18,939 to 11,844, 1.6 times)",
              f"{most['HN'] / most['HH']:.1f} times", most["HN"] > most["HH"]),
    ]  # fmt: skip


def _reach(rows: list[Row]) -> float:
    """The rate of B at which as many rows arrive as can be served."""
    arrive = {float(r["rows_of_B_a_second"]): float(r["rows_of_B_a_second"]) + RATE_OF_A for r in rows}
    return crossing(arrive, {float(r["rows_of_B_a_second"]): float(r["most_rows_a_second"]) for r in rows})


FIGURE = Figure("kang early 7", "results a second of a core, windows of 1,000 rows", "rows_of_B_a_second",
                ("results_a_second",), measure, claims, by="combination")  # fmt: skip
