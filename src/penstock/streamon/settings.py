"""Tunables of StreaMon: unit, default, reason, and the section of the thesis that names them."""

from __future__ import annotations

from dataclasses import dataclass

W_JOINS = ("nlw", "hw", "mw", "gca", "lca", "mjoin")
"""The algorithms of joins with windows between streams."""
SLICE_TUPLES = 1 << 13
"""Tuples processed in one order at most: enough to be fast, few enough to adapt within a batch."""

# Timing of filters (4.3.1)

TIMED_TUPLES = 1 << 9
"""Tuples on which a filter is timed: enough to make the cost of a call negligible."""
MEASURABLE_S = 1e-5
"""Seconds from which on a timing of fewer tuples is accurate enough."""
TIMINGS_KEPT = 5
"""Timings of which the least counts (4.3.1 has the mean): whatever interferes makes a filter slower."""
SAME_TIME_RATIO = 1.5
"""Filters whose times differ by less than this factor are taken to cost the same."""
EXPENSIVE_RATIO = 3.0
"""A filter this many times slower than others is sampled in a burst only on tuples that pass those."""
TIMING_SHARE = 0.25
"""Largest share of the time for profiling spent on timing: costs change seldom, selectivities often."""
LONGEST_WAIT_TUPLES = 1 << 21
"""Tuples after which filters are timed again, and sampling that took too long is resumed, at the latest."""
SAVED_BUDGET_PART = 0.2
"""The part of the profiling budget that may be saved up while there is nothing to profile."""
CALL_OVERHEAD_S = 2e-6
"""Seconds the executor itself takes to call a filter."""

# Detection of drift

DRIFT_MIN_TUPLES = 1 << 8
"""Tuples of a filter that are judged together; fewer say too little."""
DRIFT_MIN_CHANGE = 0.05
"""A smaller change of a filter's selectivity is left to the profile window."""
DRIFT_MEMORY = 4.0
"""What was seen before weighs this many times as much as the tuples that are judged."""

# Plan log

PUBLISHED_DECISIONS = 8
"""Newest decisions of a plan log that are published as measurements."""

TRANSIENT_CHANGE = 0.2
"""Part of a statistic's range in the log from which on it has changed, and below which it has come back."""
TRANSIENT_PART = 0.25
"""Part of the longest time between two decisions up to which it came back soon."""
TRANSIENT_TIMES = 2
"""Times that this must have happened for a statistic to be transient."""

# Caches (5.5)

MOST_CACHE_GROUPS = 8
"""Groups of shared caches of which all sets are tried; of more the best are chosen greedily (5.5.4)."""

MOST_BESIDE = 8
"""Inputs outside a segment of which all sets are tried as those beside it (5.7); of more, all are taken."""
MOST_TRIED_CACHES = 12
"""Candidates of which all sets are tried, if some are globally consistent (5.7)."""
PATIENCE = 32
"""How many times longer intervals are at most, after caches that were chosen have lost time and again."""
WHOLE_SLICE = 8
"""A slice of at most so many samples bypasses caches as a whole: in a part of it calls would take more of the
time than in the slices that it is compared with."""
RARE = 8
"""A pipeline with less than one in this many of its even part of the tuples needs no observations."""

# Skew

HEAVY_PART = 0.1
"""The part of a stream's rows from which on a key is heavy."""
UNEVEN = 1.25
"""How many times its even part of the rows a partition has when something should be done about it."""
HEAVY_COUNTERS = 64
"""Values that a summary of keys counts; it finds each with more than 1 / HEAVY_COUNTERS of the rows."""
HEAVY_SAMPLE_ROWS = 1024
"""Rows of each batch, evenly spaced, that a summary of keys looks at."""


@dataclass(frozen=True)
class Thresholds:
    """Settings of pipelined filters.

    drop_profiling_probability
        Share of dropped tuples that are profiled (4.3.1; table 4.1: 0.01, Independent 0.005).
    profile_window
        Profile tuples that are kept (4.3.1; table 4.1: 1000, Sweep 500). Within a run the order is
        reconsidered after half as many, at its end after a quarter: fewer wait for the next run, since
        calling the filters costs as much as hundreds of tuples.
    alpha
        Thrashing avoidance: a violation must exceed it, 0 < alpha <= 1 (equation 4.4; table 4.1: 0.9).
    sweep_stage
        Profile tuples after which Sweep goes on to the next filter if nothing was violated (4.4).
    overhead_share
        Largest share of its time that an operator spends on profiling and re-optimizing in the long run;
        when it is used up, fewer tuples are profiled than the probability says (3.1).
    profiling_budget_s
        Seconds by which profiling may exceed that share, for instance while a filter is compiled, and five
        times the seconds that may be saved up.
    burst
        Tuples on which every filter is evaluated after a change, to fill a new profile window at once; for
        expensive filters a quarter of it, of tuples that pass the cheap ones.
    drift_std_errors
        Standard errors by which a filter's selectivity must change to count as a change of the stream; the
        thesis waits for the profile window to slide on (4.3.1), which infinity does.
    drift_sample
        Tuples that are tested for drift on their own: the last of a slice, for a change within it, and, if
        that call takes no more than ``overhead_share`` of a slice, the first of a run.
    plan_log_size
        Decisions that are kept (7.1).
    recall_distance
        Largest difference of drop shares for which a logged plan is reused (7.1).
    steady_after
        Looks at the statistics without a change of its position after which a filter is steady (7.1);
        0 for never.
    steady_every
        One in this many profile tuples has the bit of a steady filter, with this weight; if all filters are
        steady, one in this many of the tuples is profiled (7.1).
    negligible_gain
        Share of the cost; changes of the order that save less do not count against steadiness (7.1).
    slice_tuples
        Tuples processed in one order at most.
    slice_s
        Seconds that a slice should take; expensive filters get fewer tuples, down to a quarter.
    tuple_overhead_s
        Seconds the executor itself takes to pass a tuple to a filter and to keep or drop it.
    """

    drop_profiling_probability: float = 0.01
    profile_window: int = 1000
    alpha: float = 0.9
    sweep_stage: int = 500
    overhead_share: float = 0.025
    profiling_budget_s: float = 5e-3
    burst: int = 128
    drift_std_errors: float = 8.0
    drift_sample: int = 128
    plan_log_size: int = 256
    recall_distance: float = 0.1
    steady_after: int = 16
    steady_every: int = 8
    negligible_gain: float = 0.05
    slice_tuples: int = SLICE_TUPLES
    slice_s: float = 4e-3
    tuple_overhead_s: float = 2e-9


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
        Rows that probe or enter a window between two comparisons of the methods.
    margin
        How many times cheaper another method must be, so that methods do not alternate near a crossover.
    plan_log_size
        Decisions that are kept (thesis 7.1).
    """

    period: int = 1024
    margin: float = 1.2
    plan_log_size: int = 256


@dataclass(frozen=True)
class WJoinThresholds:
    """Settings of the choice of a W-join's algorithm. Costs are seconds of one core.

    period
        Rows that arrive between two comparisons of the algorithms.
    sample
        Rows per stream and comparison for which the buffers are looked at.
    margin
        How many times cheaper another algorithm must be.
    plan_log_size
        Decisions that are kept (thesis 7.1).
    tuple
        Cost of a tuple that looks for rows of one more stream.
    scan
        Cost of a row that ``nlw`` compares.
    test
        Cost of a row that ``mw``, ``gca`` and ``lca`` test.
    probe
        Cost of a probe of ``hw``.
    match
        Cost of a match of ``hw``.
    locate
        Cost of finding out whether a stream has a row in its buffer.
    index_probe
        Cost of a probe of ``mjoin``.
    index_match
        Cost of a row that ``mjoin`` finds, in the window or not.
    """

    period: int = 20_000
    sample: int = 64
    margin: float = 1.2
    plan_log_size: int = 256
    tuple: float = 1.5e-7
    scan: float = 1.5e-9
    test: float = 1e-9
    probe: float = 6e-8
    match: float = 2e-8
    locate: float = 1.2e-7
    index_probe: float = 4.5e-7
    index_match: float = 3e-7


W_JOIN = WJoinThresholds()
ACCESS = AccessThresholds()


@dataclass(frozen=True)
class InvalidationThresholds:
    """Settings of the choice between active and lazy invalidation (Kang et al., the earlier text, 3.1).

    period
        Steps between two comparisons.
    margin
        How many times cheaper lazy invalidation must be, since it costs memory.
    plan_log_size
        Decisions that are kept (thesis 7.1).
    """

    period: int = 32
    margin: float = 1.5
    plan_log_size: int = 256


INVALIDATION = InvalidationThresholds()


@dataclass(frozen=True)
class CacheThresholds:
    """Settings of A-Caching (5.5). Times are estimates; ``penstock bench caching`` shows their effect.

    observations
        W: measurements of each statistic, whose average counts (table 5.1; 5.8.1: 10).
    interval
        I: tuples between two re-optimizations (5.5.5; the thesis has 2 seconds, 5.8.5 10,000 tuples).
    longest_interval
        Tuples between them at most: while no cache pays, each interval is twice as long as the last.
    change
        p: share by which the benefit or cost of a cache must change for another selection (5.5.5: 20 %).
    quota
        m: candidates up to which globally-consistent ones are added (5.7; 5.8.4: 6).
    least_gain
        Share of the join's time that caches must save to be used; less is within the error of the estimates.
    overhead_share
        Largest share of the join's time that profiled and bypassing tuples take more than others (3.1).
    allowance_s
        Seconds by which they may exceed that share: enough to profile a join once when it starts.
    sample, sample_s, least_sample
        Tuples of a slice that are profiled, or that bypass caches: as many as take ``sample_s`` seconds, but
        no more than ``sample`` and no fewer than ``least_sample``. Of fewer, the calls take the time and not
        the tuples; slices with fewer are not looked at.
    bypass_every
        One in this many slices of a pipeline with caches has tuples that do without them, to know what they
        save; a prime number, since every step has several slices that differ.
    bloom_tuples
        W_d: tuples whose keys a Bloom filter counts (5.5.3).
    bloom_bits
        Alpha: bits of the filter per tuple (5.5.3).
    bloom_windows
        Windows of W_d tuples that are counted each time.
    probe_s, read_s, update_s
        Seconds of a look-up, of each joined row that it reads, and of adding a joined row.
    call_s
        Seconds of a look-up that do not depend on the tuples.
    page
        Bytes by which the memory of a cache grows or shrinks (5.6).
    plan_log_size
        Decisions that are kept (7.1).
    """

    observations: int = 10
    interval: int = 1 << 18
    longest_interval: int = 1 << 23
    change: float = 0.2
    quota: int = 6
    least_gain: float = 0.1
    overhead_share: float = 0.01
    allowance_s: float = 5e-3
    sample: int = 1 << 10
    sample_s: float = 5e-4
    least_sample: int = 1 << 6
    bypass_every: int = 11
    bloom_tuples: int = 1 << 15
    bloom_bits: int = 8
    bloom_windows: int = 1
    probe_s: float = 6e-8
    read_s: float = 4e-8
    update_s: float = 1.5e-7
    call_s: float = 8e-5
    page: int = 1 << 16
    plan_log_size: int = 256


CACHES = CacheThresholds()


@dataclass(frozen=True)
class MatchingThresholds:
    """Settings of the choice between first matches and all matches of a probe.

    period
        Rows between two comparisons.
    memory
        Rows or tuples seen before that count as much as as many that are seen now.
    match
        Cost of a match in probes: both wait for memory. Where a probe looks through all rows, matches cost
        nothing.
    first
        Cost of a first match in probes: the probe, and that what it found is found again.
    margin
        How many times more than a first match all matches must waste, so that plans do not alternate.
    sample
        Tuples that are joined first as long as it is not known how many rows a probe finds.
    most_tuples
        Tuples per row, for each input on the path of a filter, from which on a row is asked for a first match
        whatever was counted before: all matches of several inputs multiply.
    plan_log_size
        Decisions that are kept (thesis 7.1).
    """

    period: int = 4096
    memory: int = 4096
    match: float = 1.0
    first: float = 2.0
    margin: float = 1.2
    sample: int = 64
    most_tuples: float = 16.0
    plan_log_size: int = 256


MATCHING = MatchingThresholds()


@dataclass(frozen=True)
class AdherenceThresholds:
    """Settings of finding the k of a constraint (6.6.3).

    slack
        c: rows are kept until c · k, so that an increase of k up to that is seen and loses nothing.
    sample
        p: share of the join keys whose rows are kept until their end, to see larger increases and to
        estimate the share of results that are missed.
    window
        W: arrivals over which the largest distance seen counts.
    evidence
        Joining rows that must be seen among those for k to be used. The thesis does not ask for any; a
        stream whose rows join only after W arrivals would otherwise be taken to be in order.
    most
        Rows beyond which a distance is not followed: constraints with a larger k are not used, and rows of
        the sample without an end of their own are kept for so many arrivals (6.8.3).
    """

    slack: float
    sample: float
    window: int
    evidence: int = 16
    most: int = 1 << 17


ADHERENCE: dict[str, AdherenceThresholds] = {
    "reference": AdherenceThresholds(slack=1.0, sample=0.01, window=500),
    "clustered": AdherenceThresholds(slack=1.2, sample=0.01, window=1000),
    "ordered": AdherenceThresholds(slack=1.2, sample=0.01, window=1000),
    "key": AdherenceThresholds(slack=1.0, sample=0.01, window=1000),
}
"""By kind of constraint, as in the experiments of figures 6.11, 6.13 and 6.15; keys are declared in the
thesis, so theirs are as those of clusters."""
CONSTRAINTS_LOG_SIZE = 256
"""Decisions on constraints that are kept (7.1)."""
MISSED_GROUPS = 1024
"""Groups of keys between which the variance of the share of missed results is measured."""
MISSED_Z = 1.96
"""Standard deviations on both sides of a normal distribution that have 95 % of it."""
NO_COMPONENT_MARGIN = 1.2
"""How many times smaller the other choice must be expected to be for a No component to be kept or dropped."""
