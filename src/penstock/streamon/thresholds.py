"""Every threshold of StreaMon by name: its unit, its default, and the place in the thesis it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Settings of an adaptive operator.

    drop_profiling_probability
        Share of dropped tuples that are profiled (4.3.1; table 4.1: 0.01, Independent 0.005).
    profile_window
        Profile tuples that count (4.3.1; table 4.1: 1000, Sweep 500).
    alpha
        Thrashing avoidance: a violation must exceed it, 0 < alpha <= 1 (equation 4.4; table 4.1: 0.9).
    sweep_stage
        Profile tuples after which Sweep turns to the next filter if nothing was violated (4.4).
    time_window
        Samples that a filter's average processing time is taken over (4.3.1).
    plan_log
        Decisions that are kept (7.1).
    similar
        Largest relative difference of statistics that count as seen before (7.1).
    """

    drop_profiling_probability: float = 0.01
    profile_window: int = 1000
    alpha: float = 0.9
    sweep_stage: int = 500
    time_window: int = 64
    plan_log: int = 256
    similar: float = 0.1


DEFAULTS: dict[str, Thresholds] = {
    "a-greedy": Thresholds(),
    "sweep": Thresholds(profile_window=500),
    "independent": Thresholds(drop_profiling_probability=0.005),
    "local-swaps": Thresholds(),
    "static": Thresholds(drop_profiling_probability=0.0),
}
"""Defaults of each algorithm (table 4.1)."""
