"""Tunables of the optimizer, which assumes something of streams that declare nothing, and of explain."""

HEAVY_KEYS_PART = 0.8
"""The part of a stream's rows with one of the heavy keys it declares."""
JOINED_HEAVY_KEYS_PART = 0.1
"""The part of a stream's rows with a heavy key of the stream it is joined with."""
PLACE_COST = 0.25
"""The cost of sending only the place of a row, in parts of the cost of the row."""
SECOND_STAGE_COST = 1.25
"""The cost of a query with a second stage, in parts of the cost of the same query without."""
MAX_DIMENSIONS = 6
"""Dimensions of a cube that are tried together: the best ones, each taken alone."""
WINDOW_ROWS = 1_000
"""Rows of a window of unknown size, for the costs that explain shows."""

# explain of a running query

SHOWN_DECISIONS = 3
"""Newest decisions of each order that are shown."""
SHOWN_OVERHEAD_FROM_S = 1.0
"""Seconds from which on the share of time for adapting is shown: before, it is mostly the first profiling."""
CURVE_BARS = 32
"""Bars of a curve: those of both streams fit into a line."""
