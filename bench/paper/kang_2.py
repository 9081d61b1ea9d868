"""Figure 2: what eight combinations cost by the model with the paper's weights, by the ratio of rates."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.cost.model import Workload, full

NAMES = ("TN", "TH", "HH", "HT", "NT", "TT", "HN", "NH")


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for share in (*range(1, 10), *range(10, 9_990, 10), *range(9_990, 10_000)):
        workload = Workload(share / 10, 1_000 - share / 10, 5_000, 5_000)
        rows += [
            {"share_of_A": share / 10_000, "cost": full(name, workload).total, "combination": name}
            for name in NAMES
        ]
    return [r for r in rows if float(r["cost"]) < 30]


def claims(rows: list[Row]) -> list[Claim]:
    best: dict[float, Row] = {}
    for row in rows:
        at = float(row["share_of_A"])
        if at not in best or float(row["cost"]) < float(best[at]["cost"]):
            best[at] = row
    winners = list(dict.fromkeys(str(best[at]["combination"]) for at in sorted(best)))
    says = "winners as A becomes faster: TN, TH, HH, HT, NT"
    return [Claim(says, ", ".join(winners), winners == ["TN", "TH", "HH", "HT", "NT"])]


FIGURE = Figure("kang 2", "cost of combinations by the paper's weights, windows of 5,000", "share_of_A",
                ("cost",), measure, claims, by="combination")  # fmt: skip
