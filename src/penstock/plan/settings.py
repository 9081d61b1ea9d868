"""Tunables of the optimizer: what it assumes about streams of which nothing is declared."""

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
