"""Tunables of the cost model and of its calibration."""

HASH_BUCKET_TUPLES = 10
"""Tuples in a hash bucket (Kang et al., section 4.2)."""

INVALIDATION_CALL_S = 6e-7
"""Seconds of a call that frees expired rows; ``penstock calibrate`` shows it."""
INVALIDATION_ROW_S = 1e-9
"""Seconds of each row that it frees."""

CALIBRATED_WINDOWS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Rows of the windows that ``penstock calibrate`` measures."""
BUFFER_ROWS = (10, 30, 100, 300, 1_000, 3_000)
"""Rows of the buffers of a W-join that ``penstock calibrate`` measures."""
CALIBRATION_RUNS = 4
"""Runs of which the fastest counts: other load makes a run slower."""
PROBES = 20_000
"""Probes, and least arrivals, of a run."""
MIN_PROBED_BATCH_ROWS = 100
"""Rows that a probed window slides by at least."""
UPDATE_BATCH_ROWS = 500
"""Rows that arrive at a time: they share the cost of a call, which differs between methods."""
MIN_FREEING_CALLS = 40
"""Calls that free expired rows in a run, at least."""
SCANNED_TUPLES = 10_000_000
"""Tuples that the scans of one run touch at most."""
LOOKED_UP_TUPLES = 2_000
"""Tuples that look for others in a run of a W-join: at least, and of nested loops at most."""
MEASURABLE_S = 1e-10
"""Seconds per tuple; a clock cannot measure less."""
MIN_IMPROVEMENT = 0.99
"""A further term of the fit must bring its squared error below this part of the error without it."""
