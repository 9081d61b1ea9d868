"""The earlier text's figure 4: one direction with a hash index and with none, measured and by the model.

Rows of A probe a window of B that changes more and more often; the model must tell where none becomes better.
"""

from __future__ import annotations

from math import inf

from bench.paper.combinations import direction
from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.window_joins import OneWay

METHODS = ("hash", "none")
WINDOW = 1_000
CLOSE = 0.8
"""Predicted over measured, where that is close; or the reverse."""
RATIOS = (1, 3, 10, 30, 60, 100, 200, 500, 1_000)


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for ratio in scale.some(RATIOS):
        costs = direction(OneWay(1, ratio, WINDOW), METHODS, scale.tuples(80_000))
        for how, found in (("measured", costs.measured), ("model", costs.model)):
            rows += [
                {"arrivals_a_probe": ratio, "nanoseconds_a_row": found[m], "line": f"{m}, {how}"}
                for m in METHODS
            ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    costs: dict[str, dict[float, float]] = {}
    for r in rows:
        costs.setdefault(str(r["line"]), {})[float(r["arrivals_a_probe"])] = float(r["nanoseconds_a_row"])
    found = {how: crossing(costs[f"hash, {how}"], costs[f"none, {how}"]) for how in ("measured", "model")}
    told = ", ".join(f"{how}: {at:.0f} arrivals a probe" for how, at in found.items())
    measured, model = found["measured"], found["model"]
    return [
        Claim("both curves have a crossover from which none is better", told, max(found.values()) < inf),
        Claim("the crossover is at about 7 arrivals per probe (ours: 5 to 9)", f"{measured:.0f}",
              5 <= measured <= 9,
              "the paper's window has 10 keys, and a probe by hash reads a tenth of it; here each row has "
              "a key "
              "of its own, so that hash is better for longer"),
        Claim("the model predicts the crossover (ours: within a quarter)", f"{model / measured:.2f} of the "
              "measured", CLOSE <= model / measured <= 1 / CLOSE,
              "batches are of 250 rows here, those of the calibration of 500; around the crossover both "
              "cost about the same"),
    ]  # fmt: skip


def crossing(one: dict[float, float], other: dict[float, float]) -> float:
    """The first x from which on the other is cheaper, between the points that were measured; inf for none."""
    last = None
    for x in sorted(one):
        ahead = other[x] / one[x] - 1
        if ahead <= 0:
            return x if last is None else last[0] + (x - last[0]) * last[1] / (last[1] - ahead)
        last = x, ahead
    return inf


FIGURE = Figure("kang early 4", "one direction into a window of 1,000 rows", "arrivals_a_probe",
                ("nanoseconds_a_row",), measure, claims, by="line", log_x=True, log_y=True)  # fmt: skip
