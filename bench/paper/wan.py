"""The trace over a wide-area network of section 6.1, its join, and its age curve."""

from __future__ import annotations

import numpy as np

from bench.paper.budget_joins import Experiment
from bench.paper.figure import Scale
from penstock.approx.models.age import AgeCurve
from penstock.workloads.memory_limited import SECOND, WAN_MATCH, results_of, wan

WINDOW = 120
"""Seconds of the window on S1."""
STEPS_A_SECOND = 10
"""Granularity of the age curve."""


def experiment(scale: Scale) -> Experiment:
    """Forty minutes; quick, so much of it that there is something to count."""
    return Experiment(wan(20 * WINDOW if not scale.quick else 7 * WINDOW), WINDOW, WAN_MATCH)


def age_curve(trace: Experiment) -> AgeCurve:
    """By an initial pass over the trace: at which ages tuples of S1 give their results."""
    one, two = trace.streams
    counts = results_of(trace.streams, trace.window, trace.band)
    first = np.searchsorted(one.key, two.key - WAN_MATCH[1], "left")
    at = np.repeat(first, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ages = np.repeat(two.ts, counts) - one.ts[at]
    steps = WINDOW * STEPS_A_SECOND
    found = np.bincount(ages * STEPS_A_SECOND // SECOND, minlength=steps)[:steps] / len(one.ts)
    return AgeCurve(tuple(found.tolist()))
