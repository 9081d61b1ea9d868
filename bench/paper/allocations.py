"""Two joins under one budget: the memory that ALLOC and PROP give each, and what each then finds (6.2.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.paper.budget_joins import Experiment
from bench.paper.figure import Claim, Row, series, shown
from penstock.approx.recall import Join, Side, alloc, proportional

SCHEMES: dict[str, Callable[[Sequence[Join], float], list[float]]] = {"ALLOC": alloc, "PROP": proportional}
NOTHING = Side(lambda memory: 0.0 * memory, 0.0)  # type: ignore[operator, return-value]
"""S2 [NOW] needs no memory and gives no results."""


def compared(runs: dict[str, tuple[Experiment, Side]], percent: float, policy: str, at: Row) -> list[Row]:
    """A row for each scheme: the recall of each join with what it got, and the least of them.

    Memory is shared by the paper's rates; a join that is run with higher ones has as many times as much.
    """
    joins = [Join((side, NOTHING)) for _, side in runs.values()]
    need = sum(join.need for join in joins)
    rows: list[Row] = []
    for scheme, give in SCHEMES.items():
        memory = dict(zip(runs, give(joins, need * percent / 100), strict=True))
        recalls = {n: run.recall(memory[n] * run.rows / side.need, policy) for n, (run, side) in runs.items()}
        rows.append(
            {
                **at,
                "minimum_recall": min(recalls.values()),
                "algorithm": scheme,
                **{f"{name}_recall": recall for name, recall in recalls.items()},
                **{f"{name}_memory_percent": 100 * memory[name] / need for name in runs},
            }
        )
    return rows


def judged(rows: list[Row], x: str, names: Sequence[str]) -> list[Claim]:
    """What holds of both models."""
    least = {scheme: series(rows, x, "minimum_recall", scheme) for scheme in SCHEMES}
    gain = {at: 100 * (r - least["PROP"][at]) for at, r in least["ALLOC"].items()}
    apart = {
        float(r[x]): 100 * abs(float(r[f"{names[0]}_recall"]) - float(r[f"{names[1]}_recall"]))
        for r in rows
        if r["algorithm"] == "ALLOC"
    }
    return [
        Claim(
            "ALLOC's minimum recall is at least PROP's everywhere (half a point of chance allowed)",
            f"points above PROP: {shown(gain, 1)}",
            min(gain.values()) >= -0.5,
        ),
        Claim(
            "with ALLOC the joins' recalls are equal (ours: within 3 points)",
            f"points apart: {shown(apart, 1)}",
            max(apart.values()) <= 3,
        ),
    ]
