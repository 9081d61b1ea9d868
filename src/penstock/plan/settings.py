"""Tunables of the optimizer (what it assumes of streams that declare nothing) and of explain."""

HEAVY_KEYS_PART = 0.8
"""Share of a stream's rows with one of the heavy keys it declares."""
JOINED_HEAVY_KEYS_PART = 0.1
"""Share of a stream's rows with a heavy key of the stream it is joined with."""
PLACE_COST = 0.25
"""Cost of sending only the place of a row, relative to sending the row."""
SECOND_STAGE_COST = 1.25
"""Cost of a query with a second stage, relative to the same query without."""
MAX_HOST_TERMS = 500
"""Columns, constants and calls in the an input's predicates that Catalyst evaluates: more take it minutes."""
MAX_PROPOSALS = 40
"""Dimensions that one scheme proposes, so that a UNION ALL of thousands of queries is planned in seconds."""
SLICE_SPANS = (1, 2, 4, 8)
"""Lengths of slices of time, relative to the largest window between streams: longer ones copy fewer rows."""
MAX_DIMENSIONS = 6
"""Dimensions that are combined to cubes: those that are best alone."""
WINDOW_ROWS = 1_000
"""Assumed rows of a window of unknown size, for the costs that explain shows."""
EXHAUSTIVE_INPUTS = 6
"""Inputs up to which every tree of joins is compared; 6 have 2,752 trees of MJoins."""
MADE_TUPLE_COST = 0.5
"""Cost of making a joined tuple, relative to a probe."""
KEPT_TUPLE_COST = 2.0
"""Cost of keeping a tuple of a subresult, with its columns and keys, relative to a probe."""

# explain of a running query

SHOWN_DECISIONS = 3
"""Decisions shown of each order, the newest."""
SHOWN_QUERIES = 4
"""Queries that share something are named if they are no more than these."""
SHOWN_OVERHEAD_FROM_S = 1.0
"""Seconds of CPU before the share of adapting is shown: until then it is mostly the first profiling."""
CURVE_BARS = 32
"""Bars of a curve, so that those of both streams fit on a line."""

MAX_SPLITS = 50
"""Combinations of a pipeline's splits that are tried for a query; each costs a pass over its plan."""

WIDTH, HEIGHT = 180, 46
"""Pixels of a box in the picture of a pipeline's plan."""
ACROSS, DOWN = 216, 62
"""Pixels from one box to the next, to the right and down."""
MARGIN = 16
"""Pixels around the picture."""
LETTERS = 27
"""Letters of a line in a box; longer lines are cut."""
