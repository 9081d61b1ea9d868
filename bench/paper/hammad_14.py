"""Figure 14: a path over four streams by NLW-join (forward, then backward) and by LCA."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, row, run

CLAUSE = "WINDOW PATH (A, B, C, D) (10 MILLISECONDS, 10 MILLISECONDS, 10 MILLISECONDS)"
RATES = {
    "small": {"A": 1000, "B": 800, "C": 1000, "D": 800},
    "large": {"A": 1000, "B": 1000, "C": 20, "D": 1000},
}


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for variation, rates in RATES.items():
        seconds = scale.tuples(60_000) / sum(rates.values())
        for algorithm in ("nlw", "lca"):
            outcome = run(CLAUSE, Streams(rates, values=10), algorithm, seconds)
            rows.append(row(outcome, algorithm, variation=variation))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["variation"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    time = {(r["variation"], r["algorithm"]): float(r["microseconds_per_row"]) for r in rows}

    def ahead(variation: str, one: str, other: str) -> tuple[str, bool]:
        less = work[variation, other] / work[variation, one]
        faster = time[variation, other] / time[variation, one]
        return f"{less:.1f} times less work, {faster:.2f} times as fast", less > 1

    return [
        Claim("NLW-join is ahead where rates are alike", *ahead("small", "nlw", "lca")),
        Claim("LCA is ahead where rates differ much", *ahead("large", "lca", "nlw")),
    ]


FIGURE = Figure("hammad 14", "a path, by NLW-join and LCA", "variation",
                ("work_per_row", "microseconds_per_row"), measure, claims, kind="bars")  # fmt: skip
