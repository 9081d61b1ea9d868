"""Tunables of budgets: what is learned of the streams, and how closely memory is shared."""

# Models

COUNTED_VALUES = 4096
"""Values that are counted one by one; of the rest the sum is known."""
AGE_STEPS = 128
"""Ages that a curve distinguishes."""
AGE_TRUST_TUPLES = 1.0
"""Watched tuples of an age from which on its own results outweigh the average of all ages."""
RESULTS_PER_AGE = 16.0
"""Results that the curve at an age is based on; where there are fewer, more ages are averaged."""
MIN_SMOOTHING_STEPS = 0.7
"""Least standard deviation of the smoothing of a curve, in steps of age."""
MAX_SMOOTHING_PART = 1 / 16
"""Largest standard deviation of it, as a part of the window."""

# Sharing of memory

SPLITS_TRIED = 512
"""Splits of a memory between two windows that are tried; recall is smooth in the memory."""
MEMORY_BISECTIONS = 30
"""Steps of the binary search of a memory: to a billionth of it."""

# Sampling

MEMORY_MARGIN_STD_DEVS = 3.0
"""Standard deviations by which the expected memory stays below the budget."""
MIN_CLUSTER_SIZE = 0.1
"""Least expected size of a cluster, as a part of the average: smaller estimates are not believed."""
UNIFORM_MAX_ERROR = 0.5
"""Largest relative error of a tuple's expected results with which UNIFORM is chosen."""
VARIANCE_RATIO = 4.0
"""How many times the variance of counting by chance is taken for a difference."""
FRACTION_BISECTIONS = 50
"""Steps of the binary search of a sampling fraction: all digits of a double."""
