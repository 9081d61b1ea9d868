"""Sizes of a picture, in pixels at its natural scale unless said otherwise."""

BOX_WIDTH = 184
"""Of an operator: its name and rate side by side, and 26 characters of its parameters."""
STORE_WIDTH = 132
"""Of a store: rows and bytes below each other; narrow, since the flow past it stands beside it."""
BOX_HEIGHT = 60
"""Three lines: name and rate, parameters, state."""
PLAIN_HEIGHT = 30
"""Of a box with one line."""
ORDER_HEIGHT = 19
"""Of a line with the order in which an input of a join probes the others."""
NOTE_HEIGHT = 16
"""Of a line about a cache or a budget."""
PAD = 10
"""Between the border of a box and what is in it."""
GAP = 26
"""Between two boxes of a layer."""
LAYER_GAP = 38
"""Between two layers: room for a queue, and for the words on how rows are moved."""
NEAR_GAP = 22
"""Between two layers with a box each, one of which reads the other: room for a queue alone."""
PASSING_WIDTH = 10
"""Taken in a layer by a flow that passes it."""
MARGIN = 40
"""Around the picture, so that the frames of stages and their names are in it."""
SWEEPS = 24
"""Passes over the layers to order and place boxes: more change nothing in plans of 100 boxes."""
CHAR_WIDTH = 6.2
"""Mean width of a character at 11 pixels in the fonts of the style, to shorten texts that do not fit."""
THINNEST, WIDEST = 1.4, 9.0
"""Of flows: without rows, and with the most rows of the picture."""
FOLD_FROM = 40
"""Boxes from which the parts that only one query uses are drawn as one box."""
QUERIES_PER_ROW = 8
"""Boxes of whole queries that stand side by side, so that 50 of them stay readable."""
SHOWN_LABEL = 34
"""Characters of the words beside a flow that is moved."""
SHOWN_BUSY = 0.005
"""The share of the time from which on a box says how busy its operator is."""
HOT = 0.7
"""The share of the time from which on an operator's bar is in the colour of a warning."""
LANE_LEFT = 170
"""Of the time line of a playground: room for the names of lanes."""
LANE_TICK = 26
"""Least width of an instant there."""
LANE_BAR = 18
"""Height of a row's bar there."""

# the map of an expressway

SEGMENT_WIDTH, SEGMENT_HEIGHT = 10, 34
"""A segment, in pixels: 100 of them fit a window."""
ROAD_LEFT, ROAD_TOP, ROAD_BETWEEN = 54, 26, 46
"""Pixels beside and above a direction, for its name and its tolls, and between the two."""
ROAD_FOOT = 60
"""Pixels below, for the key."""
KEY_WIDTH = 64
"""From one colour of the key to the next, with its speed."""
FREE_MPH, SLOW_MPH = 60, 10
"""Miles per hour at the two ends of the colours."""
TALLEST_TOLL = 18
"""Pixels of the highest toll."""
