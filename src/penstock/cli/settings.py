"""Tunables of the ``penstock`` command."""

DEMO_SPEED = 60
"""Seconds of the stream per second of the demo."""
DEMO_ROUTE_S = 5
"""Seconds of the demo between two changes of routing."""
DEMO_FILE_S = 0.5
"""Seconds of the demo between two files of packets."""
DEMO_FIRST_BATCH_S = 180
"""Seconds that the first batch may take, since it starts workers and engines; then the demo's time starts."""
CONSOLE_ROWS = 1000
"""Rows of a batch that ``penstock run`` prints."""
PLAIN_VIEW_S = 3.0
"""Seconds between two lines of the demo where the output is no terminal."""
