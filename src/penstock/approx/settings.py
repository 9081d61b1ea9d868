"""Tunables of budgets: learning from streams, and the division of memory."""

# Random shedding

LEAST_RATES_S = 1.0
"""Seconds over which rates are measured at least: of a few rows in a millisecond none is over the budget."""
RATES_MEMORY_S = 10.0
"""Seconds of stream time after which counted rates have a weight of 1/e."""
MIN_BURST_PROBES = 30
"""Probes that a side may save up, if more than those of a second: a few arrive too unevenly to use all."""
OVERADMISSION = 1.1
"""Rows admitted at random per row that may pass, so that the budget is used up."""
SHEDDING_EPOCH_S = 1.0
"""Seconds of stream time after which a budget is divided by new rates, at most: the rates change as fast."""

# Watched tuples: kept until they expire, to learn from

MAX_WATCHED_SHARE = 0.05
"""Share of the memory for watched tuples, at most."""
FEW_WATCHED_TUPLES = 4
"""Watched tuples from which on it is clear which model fits: a small memory has these, if they are no more
than ``FEW_WATCHED_SHARE`` of it."""
FEW_WATCHED_SHARE = 0.125
"""See ``FEW_WATCHED_TUPLES``."""
WATCHED_SHARE = 0.02
"""The same where that is more than ``MIN_WATCHED_TUPLES``: kept beyond their best age they cost results."""
MIN_WATCHED_TUPLES = 32
"""Tuples from which the models can be learned."""
MAX_WATCHED_TUPLES = 4096
"""Tuples that suffice, however much memory there is."""
WATCHED_FILL = 0.8
"""Share of the room for watched tuples that is planned for: their number varies."""
MIN_WINDOW_WATCHED_SHARE = 0.1
"""Share of the watched tuples that each window has at least."""
PLAN_LOG_SIZE = 64
"""Plans for an epoch that are kept with their statistics (thesis 7.1)."""
NEGLIGIBLE_SHARE = 0.05
"""Share of the results below which those of a window do not decide between models."""
EPOCHS_PER_WINDOW = 16
"""Epochs in the longer window."""
MODEL_MEMORY_WINDOWS = 4.0
"""Lengths of the longer window after which evidence has a weight of 1/e."""

# Models

COUNTED_VALUES = 4096
"""Values that are counted individually; of the others only the sum is known."""
COUNTED_FROM = 1e-3
"""Decayed counts below this are dropped: their values have not come for a long time."""
RESULTS_FIT_TOLERANCE = 0.1
"""How much worse per result, in log likelihood, the frequency-based model may fit than the age-based one and
still be used for MAXIMIZE RESULTS: few of the watched tuples have the rare values with most results."""
SAMPLE_FIT_TOLERANCE = 0.5
"""The same for SAMPLE: frequencies where ages would do cost it little, and without them it misses large
clusters."""
AGE_STEPS = 128
"""Ages that a curve distinguishes."""
COMPARED_TUPLES = 2.0
"""Tuples watched until they expired, as far as they are remembered, from which on the models are compared."""
AGE_TRUST_TUPLES = 1.0
"""Watched tuples of an age from which on its own results outweigh the average of all ages."""
RESULTS_PER_AGE = 16.0
"""Results that the curve at an age is based on; where there are fewer, more ages are averaged."""
MIN_SMOOTHING_STEPS = 0.7
"""Least standard deviation of the smoothing of a curve, in steps of age."""
MAX_SMOOTHING_PART = 1 / 16
"""Largest standard deviation of the smoothing, as a share of the window."""

# Division of memory

SPLITS_TRIED = 512
"""Splits of a memory between two windows that are tried; recall is smooth in the memory."""
MEMORY_BISECTIONS = 30
"""Steps of the binary search of a memory: to a billionth of it."""

QUALITY_POINTS = 33
"""Memories for which a join publishes its expected recall or error, for ALLOC."""

# Sampling

LOWERED_AIM = 0.9
"""Factor on the target size after an epoch in which a uniform sample did not fit."""
RAISED_AIM = 1.02
"""Factor on the target size after an epoch in which it did."""

MEMORY_MARGIN_STD_DEVS = 3.0
"""Standard deviations by which the expected memory stays below the budget."""
MIN_CLUSTER_SIZE = 0.1
"""Least expected size of a cluster, as a share of the average: smaller estimates are unreliable."""
UNIFORM_MAX_ERROR = 0.5
"""Largest relative error of a tuple's expected results with which UNIFORM is chosen."""
VARIANCE_RATIO = 4.0
"""Sizes differ if their variance is this many times that of random counts."""
FRACTION_BISECTIONS = 50
"""Steps of the binary search of a sampling fraction: all digits of a double."""
