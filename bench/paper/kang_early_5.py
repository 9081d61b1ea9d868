"""The earlier text's figure 5: the arrivals a probe from which no index is better than hash, by window."""

from __future__ import annotations

from bench.paper.combinations import calibrated, direction
from bench.paper.figure import Claim, Figure, Row, Scale, shown
from bench.paper.kang_early_4 import CLOSE, METHODS, crossing
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
    measured = {w: points[w]["measured"] for w in sorted(points)}
    first, last = min(measured), max(measured)
    grows = measured[last] / measured[first] / (last / first)
    return [
        Claim("crossovers are in proportion to the number of keys |B| (ours: within a quarter)",
              f"arrivals a probe by keys: {shown(measured, 0)}; {grows:.2f} times "
              "as much as in proportion", CLOSE <= grows <= 1 / CLOSE,
              "" if CLOSE <= grows <= 1 / CLOSE else
              "a probe by hash has a least cost of its own, and what a batch costs is shared by its rows"),
        Claim("the model closely approximates the measured crossovers (ours: within a quarter)", told,
              all(CLOSE <= o <= 1 / CLOSE for o in off.values()),
              "batches are of 250 rows in small windows, those of the calibration of 500; around a "
              "crossover both "
              "cost about the same"),
        Claim("predicted crossovers are within a factor of 2.5 of the measured (our goal)", told,
              all(1 / FACTOR <= o <= FACTOR for o in off.values())),
    ]  # fmt: skip


FIGURE = Figure("kang early 5", "where no index becomes better than hash", "window", ("arrivals_a_probe",),
                measure, claims, by="crossover", log_x=True)  # fmt: skip
