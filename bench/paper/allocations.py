"""Two joins under one budget: the memory that ALLOC and PROP give each, and what each then finds (6.2.5).

Both joins need the same memory, so PROP gives each a half. For ALLOC they tell what they would find with more
and with less, by the models that they learn, and the memory is shared anew four times a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from bench.paper.budget_joins import Experiment, Running
from bench.paper.figure import Claim, Row, series, shown
from penstock.approx.recall import ReportedDemand, alloc, proportional
from penstock.measurement import Measurements, Property

SCHEMES = ("ALLOC", "PROP")
Joins = dict[str, Experiment]


@dataclass(frozen=True)
class Shared:
    """The joins with what each got, as a part of what it needs; the part of its results that it found."""

    memory: dict[str, float]
    recall: dict[str, float]

    @property
    def least(self) -> float:
        """The recall of the join that found least."""
        return min(self.recall.values())


def compared(
    joins: Callable[[int], Joins], seeds: Iterable[int], percent: float, policy: str, at: Row
) -> list[Row]:
    """A row for each scheme, each value the mean of some runs of the joins."""
    runs = [{s: _shared(joins(seed), 2 * percent / 100, policy, s) for s in SCHEMES} for seed in seeds]
    gains = [run["ALLOC"].least - run["PROP"].least for run in runs]
    noise = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0
    return [
        {**at, **_row([run[scheme] for run in runs]), "algorithm": scheme, "noise": noise}
        for scheme in SCHEMES
    ]


def _shared(joins: Joins, total: float, policy: str, scheme: str) -> Shared:
    """Run the joins side by side with a total that is told in parts of what one of them needs."""
    runs = {n: Running(e, e.plan(e.rows, f"MAXIMIZE RESULTS USING {policy}")) for n, e in joins.items()}
    given, found, parts = (
        list[list[float]](),
        dict.fromkeys(joins, 0),
        proportional([1.0] * len(joins), total),
    )
    one = next(iter(joins.values()))
    for stop in one.stops:
        for (name, run), share in zip(runs.items(), parts, strict=True):
            found[name] += joins[name].counted(run.step(stop, share))
        if stop >= one.from_:
            given.append(parts)
        if scheme == "ALLOC":
            parts = alloc([_demand(run.measured) for run in runs.values()], total)
    memory = dict(zip(joins, np.mean(given, axis=0).tolist(), strict=True))
    return Shared(memory, {name: found[name] / e.results for name, e in joins.items()})


def _demand(found: Measurements) -> ReportedDemand:
    """In parts of what the whole windows take: the two run at different rates."""
    recall = {float(at): value for at, value in found.values(Property.RECALL_AT_ROWS).items()}
    return ReportedDemand(tuple(rows / max(recall) for rows in recall), tuple(recall.values()))


def _row(runs: list[Shared]) -> Row:
    names = list(runs[0].memory)
    return {
        "minimum_recall": float(np.mean([r.least for r in runs])),
        **{f"{n}_recall": float(np.mean([r.recall[n] for r in runs])) for n in names},
        **{
            f"{n}_memory_percent": float(np.mean([100 * r.memory[n] / len(names) for r in runs]))
            for n in names
        },
    }


def judged(rows: list[Row], x: str, names: tuple[str, str]) -> list[Claim]:
    """What holds of both models."""
    least = {scheme: series(rows, x, "minimum_recall", scheme) for scheme in SCHEMES}
    gain = {at: 100 * (r - least["PROP"][at]) for at, r in least["ALLOC"].items()}
    noise = {at: 100 * n for at, n in series(rows, x, "noise", "ALLOC").items()}
    recalls = [series(rows, x, f"{name}_recall", "ALLOC") for name in names]
    apart = {at: 100 * abs(recalls[0][at] - recalls[1][at]) for at in gain}
    return [
        Claim(
            "ALLOC's minimum recall is at least PROP's everywhere",
            f"points above PROP: {shown(gain, 2)}; standard error: {shown(noise, 2)}",
            all(gain[at] >= -noise[at] for at in gain),
        ),
        Claim(
            "with ALLOC the joins' recalls are equal (ours: within 3 points)",
            f"points apart: {shown(apart, 1)}",
            max(apart.values()) <= 3,
        ),
    ]
