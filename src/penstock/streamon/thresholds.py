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
    bulk
        Sampled tuples that are profiled together at the end of a run: a call of a filter may take as long as
        hundreds of them, so fewer wait for the next run. Within a run it is half a profile window.
    alpha
        Thrashing avoidance: a violation must exceed it, 0 < alpha <= 1 (equation 4.4; table 4.1: 0.9).
    sweep_stage
        Profile tuples after which Sweep turns to the next filter if nothing was violated (4.4).
    time_window
        Timings of which the least is what a filter takes (4.3.1 has the mean): what disturbs makes slower.
    burst
        Tuples on which every filter is evaluated after a change, to start a new profile window at once.
    dear_burst
        The same for filters that take much longer than others, on tuples that those let through. Each takes
        longer, and none is wasted on a tuple that would be dropped before: fewer do.
    surprise
        Standard errors by which the share that a filter lets through must leave what it was to count as a
        change of the stream. The thesis waits for the profile window to slide on (4.3.1).
    overhead
        Largest share of its time that an operator spends on profiling and re-optimizing in the long run;
        with less time at hand fewer dropped tuples are profiled than the probability says (3.1).
    plan_log
        Decisions that are kept (7.1).
    similar
        Largest difference of drop shares that count as seen before (7.1).
    steady_after
        Looks at the statistics that gave a filter no other place, or one that saved next to nothing, after
        which its own are tracked less (7.1); 0 for never.
    steady_share
        One in so many profile tuples has the bit of such a filter, and then counts as many; where all filters
        are steady, so many times fewer tuples are profiled (7.1).
    worth
        Share of the cost that a change of place must save to count as one (7.1).
    slice
        Tuples at most that go through in one order: enough to be fast, few enough to adapt within a batch.
    slice_seconds
        A slice has fewer tuples, down to a quarter, if they take longer than this.
    scouts
        Tuples that show by themselves whether the first filter does what is expected of it: the last of a
        slice, for a change within it, and the first of a run, before the others come to it, too.
    scouting
        Largest share of the time of a slice that a call of a filter for the scouts alone may take.
    expensive
        A filter that takes so many times as long as others is evaluated in a burst on what those let through.
    timed
        Tuples on which filters are timed: enough that a call costs nothing against them (4.3.1).
    long
        Seconds that can be timed, whatever a call takes.
    timed_every
        Tuples after which filters are timed again at the latest.
    timing
        Largest share of the time for profiling that goes to timing filters: what they take changes seldom,
        what they drop often.
    purse
        Seconds for profiling that can be owed, five times what can be saved: one that took long, compiled
        meanwhile, does not stop the next ones for good.
    handing
        Seconds that the executor itself takes to call a filter once more.
    handling
        Seconds that the executor itself takes to hand a tuple to a filter and to keep or drop it.
    """

    drop_profiling_probability: float = 0.01
    profile_window: int = 1000
    bulk: int = 256
    alpha: float = 0.9
    sweep_stage: int = 500
    time_window: int = 5
    burst: int = 128
    dear_burst: int = 32
    surprise: float = 8.0
    overhead: float = 0.025
    plan_log: int = 256
    similar: float = 0.1
    steady_after: int = 16
    steady_share: int = 8
    worth: float = 0.05
    slice: int = 1 << 13
    slice_seconds: float = 1e-3
    scouts: int = 1 << 7
    scouting: float = 0.02
    expensive: float = 3.0
    timed: int = 1 << 9
    long: float = 1e-5
    timed_every: int = 1 << 21
    timing: float = 0.25
    purse: float = 5e-3
    handing: float = 2e-6
    handling: float = 2e-9


DEFAULTS: dict[str, Thresholds] = {
    "a-greedy": Thresholds(),
    "sweep": Thresholds(profile_window=500),
    "independent": Thresholds(drop_profiling_probability=0.005),
    "local-swaps": Thresholds(),
    "static": Thresholds(drop_profiling_probability=0.0),
}
"""Defaults of each algorithm (table 4.1)."""


@dataclass(frozen=True)
class AccessThresholds:
    """Settings of the choice of access methods (Kang et al., section 5.1).

    period
        Rows that probe or enter a window between two looks at its costs.
    margin
        How many times cheaper another method must be: beyond a crossover point, not just at it.
    plan_log
        Decisions that are kept (thesis 7.1).
    """

    period: int = 1024
    margin: float = 1.2
    plan_log: int = 256


ACCESS = AccessThresholds()

HEAVY_PART = 0.1
"""The part of a stream's rows from which on a key is heavy."""
UNEVEN = 1.25
"""How many times its even part of the rows a partition has when something should be done about it."""
