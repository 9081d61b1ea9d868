"""Figures 4.19 to 4.21: filters evaluated around a change that permutes the selectivities (n = 8)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import mean, median

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.filters import Timeline, as_in_the_thesis, timeline
from penstock.streamon.settings import DEFAULTS
from penstock.workloads.filters import FilterWorkload

CHANGE, UNTIL = 600_000, 1_200_000
SEEDS = 7
SPREAD = 0.25


@cache
def timelines(algorithm: str, scale: Scale) -> list[Timeline]:
    """The same experiment with several relations and permutations."""
    return [
        timeline(
            algorithm,
            FilterWorkload(spread=SPREAD, seed=seed),
            scale,
            as_in_the_thesis(algorithm),
            CHANGE,
            UNTIL,
        )
        for seed in scale.seeds(SEEDS)
    ]


@cache
def penstock_timelines(scale: Scale) -> list[Timeline]:
    """A-Greedy as Penstock runs it, with surprise and bursts, but no clock: filters are counted."""
    ours = replace(DEFAULTS["a-greedy"], overhead_share=1e9)
    return [
        timeline("a-greedy", FilterWorkload(spread=SPREAD, seed=seed), scale, ours, CHANGE, UNTIL)
        for seed in scale.seeds(SEEDS)
    ]


def adapted(found: list[Timeline]) -> float:
    """Tuples until the order is within 10 % of the new optimum's cost, the median of all seeds."""
    return median(t.tuples_to_adapt for t in found)


def adaptivity_figure(number: str, other: str, title: str) -> Figure:
    """A-Greedy beside another algorithm."""

    def measure(scale: Scale) -> list[Row]:
        first = timelines("a-greedy", scale)[0].rows + timelines(other, scale)[0].rows
        ours = [{**row, "algorithm": "penstock"} for row in penstock_timelines(scale)[0].rows]
        judged.update(
            greedy=timelines("a-greedy", scale), other=timelines(other, scale), ours=penstock_timelines(scale)
        )
        return [*first, *ours]

    judged: dict[str, list[Timeline]] = {}

    def claims(rows: list[Row]) -> list[Claim]:
        greedy, others, ours = judged["greedy"], judged["other"], judged["ours"]
        window = DEFAULTS["a-greedy"].profile_window
        worst = max(t.profiled_to_adapt for t in greedy)
        worst_ours = max(t.tuples_to_adapt for t in ours)
        found = [
            Claim(
                "A-Greedy is within 10 % of the new optimum inside one profile window (1000 profile tuples)",
                f"after {worst:,} profile tuples, {adapted(greedy):,.0f} tuples (median)",
                0 <= worst <= window,
            ),
            Claim(
                "as Penstock runs it too, within the tuples that fill one (100,000 dropped ones)",
                f"after {worst_ours:,} tuples at most, {adapted(ours):,.0f} (median)",
                worst_ours <= window / DEFAULTS["a-greedy"].drop_profiling_probability,
            ),
        ]
        return found + (_worse(greedy, others) if other == "independent" else _slower(greedy, others, other))

    return Figure(number, title, "tuples", ("filters_evaluated",), measure, claims)


def _slower(greedy: list[Timeline], others: list[Timeline], name: str) -> list[Claim]:
    return [
        Claim(
            f"A-Greedy converges to the new order much faster than {name}",
            f"median tuples until within 10 %: {adapted(greedy):,.0f} against {adapted(others):,.0f}",
            adapted(greedy) < adapted(others),
        )
    ]


def _worse(greedy: list[Timeline], others: list[Timeline]) -> list[Claim]:
    before = mean(t.before for t in others), mean(t.before for t in greedy)
    after = mean(t.after for t in others), mean(t.after for t in greedy)
    return [
        Claim(
            "Independent's order is worse than A-Greedy's before the change and after it",
            f"cost over the optimum's: before {before[0]:.3f} against {before[1]:.3f}, "
            f"after {after[0]:.3f} against {after[1]:.3f}",
            before[0] > before[1] and after[0] > after[1],
        )
    ]
