"""Figures 4.15 to 4.18: all algorithms under convergence.

The thesis says that 4.15 and 4.16 have a drop-profiling probability of 0.05; 4.17 and 4.18 are taken to have
the default.
"""

from __future__ import annotations

from functools import cache, partial

from bench.paper.figure import Row, Scale
from bench.paper.filters import ADAPTIVE, UNIT, Settings, as_in_the_thesis, converged, over_seeds
from penstock.workloads.filters import FilterWorkload

PROBABILITY = 0.05
FILTERS = (2, 4, 6, 8, 10, 12)
COSTS = (1, 10, 50, 100)


def _all(
    workloads: list[FilterWorkload], scale: Scale, tuples: int, thresholds: Settings = as_in_the_thesis
) -> list[Row]:
    return over_seeds(
        [converged(w, ("optimal", *ADAPTIVE), scale, thresholds, tuples=tuples) for w in workloads]
    )


@cache
def by_filters(scale: Scale) -> list[Row]:
    """What figures 4.15 and 4.16 show, from one run."""
    return [
        {"n": n, **_with_split(row)}
        for n in scale.some(FILTERS)
        for row in _all(
            [FilterWorkload(n=n, spread=0.05, seed=s) for s in scale.seeds(2)],
            scale,
            400_000,
            partial(as_in_the_thesis, probability=PROBABILITY),
        )
    ]


@cache
def by_cost(scale: Scale) -> list[Row]:
    """What figures 4.17 and 4.18 show: four filters of cost 1, four of cost c."""
    found = []
    for c in scale.some(COSTS):
        workloads = [FilterWorkload(spread=0.05, costs=(UNIT, UNIT * c) * 4, seed=s) for s in scale.seeds(2)]
        found += [
            {"cost": c, **_with_split(row)} for row in _all(workloads, scale, 400_000 if c < 50 else 200_000)
        ]
    return found


def _with_split(row: Row) -> Row:
    """Microseconds a tuple for processing and for adapting."""
    micros = 1e6 / float(row["rows_per_second"])
    adapting = micros * float(row["overhead"]) / 100
    return {**row, "processing_micros": micros - adapting, "adapting_micros": adapting}
