"""Figure 7: recall by memory for age curves that rise, fall, or do both."""

from __future__ import annotations

from bench.paper.budget_joins import WINDOW, Experiment, percents
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from penstock.approx.models.age import AgeCurve
from penstock.workloads.memory_limited import by_age, curve

SHAPES = ("INC", "DEC", "BELL")
RATE = 20
"""r1; 1 in the paper, where a few percent of a window are a handful of tuples. r2 is 5 times as much."""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for shape in SHAPES:
        results = curve(shape)
        model = AgeCurve(tuple(results.tolist()))
        run = Experiment(
            by_age(results, WINDOW, 4 if scale.quick else RATE, (7 if scale.quick else 10) * WINDOW)
        )
        for percent in percents(scale):
            memory = run.rows * percent / 100
            found = {"theory": model.recall(memory, run.rows / model.window)}
            found |= {policy: run.recall(memory, policy) for policy in ("AGE", "RECENT")}
            rows += [
                {
                    "memory_percent": percent,
                    "recall": recall,
                    "shape": shape,
                    "policy": name,
                    "best_percent": 100 * model.best_age / model.window,
                    "line": f"{shape} {name}",
                }
                for name, recall in found.items()
            ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    by = {str(r["line"]): series(rows, "memory_percent", "recall", str(r["line"]), "line") for r in rows}
    gain = {m: r / max(by["INC RECENT"][m], 1e-9) for m, r in by["INC AGE"].items() if m < 100}
    apart = {m: 100 * abs(r - by["DEC RECENT"][m]) for m, r in by["DEC AGE"].items()}
    best = next(float(r["best_percent"]) for r in rows if r["shape"] == "BELL")
    bell = {m: 100 * (r - by["BELL RECENT"][m]) for m, r in by["BELL AGE"].items()}
    off = max(100 * abs(by[f"{s} AGE"][m] - by[f"{s} theory"][m]) for s in SHAPES for m in by[f"{s} AGE"])
    return [
        Claim(
            "INC: AGE significantly outperforms RECENT",
            f"times the recall: {shown(gain, 1)}",
            min(gain.values()) > 1.1,
        ),
        Claim("DEC: AGE is RECENT", f"points apart: {shown(apart, 1)}", max(apart.values()) <= 1),
        Claim(
            f"BELL: AGE outperforms RECENT up to k_opt ({best:.0f} %), and is it from there on",
            f"points above RECENT: {shown(bell, 1)}",
            all(d > 0 for m, d in bell.items() if m < best)
            and all(abs(d) <= 1 for m, d in bell.items() if m > best),
        ),
        Claim(
            "AGE agrees with equation 3 (ours: within 3 points)", f"at most {off:.1f} points off", off <= 3
        ),
    ]


FIGURE = Figure(
    "srivastava 7", "recall on age-based streams", "memory_percent", ("recall",), measure, claims, by="line"
)
