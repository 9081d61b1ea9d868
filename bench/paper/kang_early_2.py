"""The earlier text's figures 2 and 3: costs of full joins by its formulas, selectivities of 0.1 and of 0.05.

A bucket has the part of the window that is the selectivity, as |B| is 1 / σ in the text; invalidation is
active and searches a bucket (equation 3). Costs are those of Penstock's cost model with these access methods.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.kang_early_4 import crossing
from penstock.cost.model import SCAN, AccessMethod, Direction, Weight

RATE_A, SECONDS = 10.0, 60.0
SELECTIVITIES = {0.1: 70.0, 0.05: 140.0}
"""With the crossovers that the text reads off."""
WEIGHTS = {"none": Weight(0.5, 0.5), "hash": Weight(0.65, 0.65)}
NEAR = 0.1


def hashed(selectivity: float) -> AccessMethod:
    """A probe reads a bucket; an insertion and an expiry together a bucket and a tuple."""
    return AccessMethod("hash", "H", lambda w: selectivity * w, lambda w: (selectivity * w + 1) / 2)


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for selectivity in SELECTIVITIES:
        by = {"H": hashed(selectivity), "N": SCAN}
        for rate in range(10, 201, 5):
            into_a = Direction(rate, RATE_A * SECONDS, RATE_A)
            into_b = Direction(RATE_A, rate * SECONDS, rate)
            for name in ("HH", "HN", "NH", "NN"):
                cost = into_a.cost(by[name[0]], WEIGHTS) + into_b.cost(by[name[1]], WEIGHTS)
                rows.append(
                    {"rate_of_B": rate, "cost": cost, "selectivity": selectivity, "combination": name,
                     "line": f"{name}, {selectivity}"}
                )  # fmt: skip
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    found, first = {}, {}
    for selectivity in SELECTIVITIES:
        costs: dict[str, dict[float, float]] = {}
        for r in rows:
            if r["selectivity"] == selectivity:
                costs.setdefault(str(r["combination"]), {})[float(r["rate_of_B"])] = float(r["cost"])
        found[selectivity] = crossing(costs["HH"], costs["HN"])
        first[selectivity] = min(costs, key=lambda name: costs[name][RATE_A])
    at = {s: f"{found[s]:.0f} tuples per second" for s in found}
    return [
        Claim("the hash join is best where the rates differ least", ", ".join(first.values()),
              set(first.values()) == {"HH"}),
        *(Claim(f"HNJ takes over at around {says:g} tuples per second (selectivity {s})", at[s],
                abs(found[s] / says - 1) <= NEAR) for s, says in SELECTIVITIES.items()),
        Claim("the crossover of figure 3 is about twice that of figure 2",
              f"{found[0.05] / found[0.1]:.2f} times", abs(found[0.05] / found[0.1] / 2 - 1) <= NEAR),
    ]  # fmt: skip


FIGURE = Figure("kang early 2", "costs of full joins by the formulas (figures 2 and 3)", "rate_of_B",
                ("cost",), measure, claims, by="line")  # fmt: skip
