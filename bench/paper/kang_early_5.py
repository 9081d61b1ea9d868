"""The earlier text's figure 5: the arrivals a probe from which no index is better than hash, by window."""

from __future__ import annotations

from bench.paper.combinations import calibrated, direction
from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.kang_early_4 import METHODS, crossing
from bench.paper.window_joins import LEAST_BATCH, OneWay

WINDOWS = (250, 500, 1_000, 2_000, 5_000, 10_000)
AROUND = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5)
FACTOR = 2.5


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for window in scale.some(WINDOWS):
        predicted = 1 / calibrated().crossover(*METHODS, max(window, LEAST_BATCH))
        ways = {predicted * f: OneWay(1, predicted * f, window) for f in AROUND}
        costs = {at: direction(way, METHODS, scale.tuples(60_000)).measured for at, way in ways.items()}
        measured = crossing(*({at: c[m] for at, c in costs.items()} for m in METHODS))
        rows += [
            {"window": window, "arrivals_a_probe": at, "crossover": how}
            for how, at in (("measured", measured), ("predicted", predicted))
        ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    points: dict[float, dict[str, float]] = {}
    for r in rows:
        points.setdefault(float(r["window"]), {})[str(r["crossover"])] = float(r["arrivals_a_probe"])
    off = {w: p["predicted"] / p["measured"] for w, p in points.items()}
    told = ", ".join(f"{w:,.0f} rows: {o:.2f} of the measured" for w, o in off.items())
    measured = [points[w]["measured"] for w in sorted(points)]
    return [
        Claim("a larger window needs more arrivals a probe for none to be better",
              ", ".join(f"{m:.0f}" for m in measured), measured[0] < measured[-1]),
        Claim(f"predicted crossovers are within a factor of {FACTOR} of the measured",
              told, all(1 / FACTOR <= o <= FACTOR for o in off.values())),
    ]  # fmt: skip


FIGURE = Figure("kang early 5", "where no index becomes better than hash", "window", ("arrivals_a_probe",),
                measure, claims, by="crossover", log_x=True)  # fmt: skip
