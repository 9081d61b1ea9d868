"""Figure 6: the part of all results found on the trace over a wide-area network, by memory."""

from __future__ import annotations

from bench.paper.budget_joins import percents
from bench.paper.figure import Claim, Figure, Row, Scale, series, shown
from bench.paper.wan import WINDOW, age_curve, experiment

POLICIES = ("AGE", "UNTIL_EXPIRY", "RECENT")


def measure(scale: Scale) -> list[Row]:
    trace = experiment(scale)
    curve, rows = age_curve(trace), []
    for percent in percents(scale):
        memory = trace.rows * percent / 100
        theory = curve.recall(memory, trace.rows / curve.window)
        found: dict[str, float] = {"theory": theory, **{p: trace.recall(memory, p) for p in POLICIES}}
        rows += [
            {
                "memory_percent": percent,
                "recall": recall,
                "best_percent": 100 * curve.best_age / curve.window,
                "algorithm": name,
            }
            for name, recall in found.items()
        ]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    by = {name: series(rows, "memory_percent", "recall", name) for name in ("theory", *POLICIES)}
    off = {m: 100 * (by["theory"][m] - r) for m, r in by["AGE"].items()}
    below = {m: by["RECENT"][m] for m in by["RECENT"] if m <= 40}
    best = float(rows[0]["best_percent"])
    before = [m for m in by["AGE"] if m < best]
    after = {m: 100 * abs(by["AGE"][m] - by["RECENT"][m]) for m in by["AGE"] if m > best}
    return [
        Claim(
            "AGE agrees with theory (ours: within 3 points)",
            f"points below equation 3: {shown(off, 1)}",
            max(abs(v) for v in off.values()) <= 3,
        ),
        Claim(
            "RECENT finds nothing up to 40 % (ours: but what is watched)",
            shown(below, 3),
            max(below.values()) < 0.05,
        ),
        Claim(
            "AGE outperforms UNTIL-EXPIRY and RECENT below k_opt",
            f"AGE over UNTIL-EXPIRY: {shown({m: by['AGE'][m] / by['UNTIL_EXPIRY'][m] for m in before})}",
            all(by["AGE"][m] > max(by["UNTIL_EXPIRY"][m], by["RECENT"][m]) for m in before),
        ),
        Claim(
            "UNTIL-EXPIRY is between RECENT and AGE up to 40 %",
            shown({m: by["UNTIL_EXPIRY"][m] for m in below}),
            all(by["RECENT"][m] < by["UNTIL_EXPIRY"][m] < by["AGE"][m] for m in below),
        ),
        Claim("from k_opt on AGE is RECENT", f"points apart: {shown(after, 1)}", max(after.values()) <= 1),
    ]


FIGURE = Figure(
    "srivastava 6",
    f"recall on the WAN trace, window of {WINDOW} s",
    "memory_percent",
    ("recall",),
    measure,
    claims,
)
