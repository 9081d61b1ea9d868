"""Figure 13: windows of 0.8 (and of 0.1) of the largest, which one pair of four streams has: GCA, LCA."""

from __future__ import annotations

from itertools import combinations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, fastest, row

LARGEST = 40_000
SMALLER = (0.8, 0.1)


def clause(part: float) -> str:
    """Windows of a part of the largest between all pairs but the last."""
    *pairs, last = combinations("ABCD", 2)
    windows = [f"WINDOW ({a}, {b}) {int(part * LARGEST)}" for a, b in pairs]
    return " AND ".join([*windows, f"WINDOW ({', '.join(last)}) {LARGEST}"])


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for part in SMALLER:
        streams = Streams(dict.fromkeys("ABCD", 1000), values=10)
        seconds = scale.tuples(40_000) / 4_000
        for algorithm, outcome in fastest(clause(part), streams, ("gca", "lca"), seconds).items():
            rows.append(row(outcome, algorithm, windows=part))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    found = []
    for part in SMALLER:
        of = {r["algorithm"]: r for r in rows if r["windows"] == part}
        work = float(of["gca"]["work_per_row"]) / float(of["lca"]["work_per_row"])
        time = float(of["gca"]["microseconds_per_row"]) / float(of["lca"]["microseconds_per_row"])
        says = f"LCA outperforms GCA with windows of {part} and 1"
        found.append(Claim(f"{says}: work", f"{work:.2f} times less", work > 1))
        found.append(Claim(f"{says}: time", f"{time:.2f} times as fast", time > 1))
    return found


FIGURE = Figure("hammad 13", "global and local conservative approach", "windows",
                ("work_per_row", "microseconds_per_row"), measure, claims, kind="bars",
                notes=("Windows are 40 ms, not 1 s, and values are ten, to have less work.",))  # fmt: skip
