"""Tunables of the ``penstock`` command."""

DEMO_SPEED = 60
"""Seconds of the stream per second of the demo."""
DEMO_ROUTE_S = 5
"""Seconds of the demo between two changes of routing."""
DEMO_FILE_S = 0.5
"""Seconds of the demo between two files of packets."""
DEMO_SLICE_ROWS = 20_000
"""Rows that go through the join at once in the demo of constraints: between slices it drops rows."""
DEMO_TIMES_LESS = 100
"""How many times less state constraints must leave in the demo of them (thesis 6.1.1)."""
DEMO_FIRST_BATCH_S = 180
"""Seconds that the first batch may take, since it starts workers and engines; then the demo's time starts."""
PROGRESS_S = 10.0
"""Seconds between two lines about a query in the log of ``penstock run``."""
STOP_S = 60.0
"""Seconds that ``penstock run`` waits for the batches under way after a signal to stop."""
POLL_S = 0.2
"""Seconds between two looks at whether a query has ended or failed."""
PLAIN_VIEW_S = 3.0
"""Seconds between two lines of the demo where the output is no terminal."""

EVENTS_PER_FILE = 100_000
"""Of a generated workload: several batches of a few files each, whatever the number of events."""
REQUEST_S = 120.0
"""Seconds that the shell waits for an answer: the first query of a session starts workers and engines."""
SHELL_ROWS = 20
"""The newest rows of a result that a live table shows."""
WATCH_S = 1.0
"""Seconds between two looks at the queries."""
