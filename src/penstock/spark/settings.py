"""Tunables of the host: sizes of what is moved, seconds to wait."""

# Driver

ALLOTMENT_CHANGE = 0.1
"""Relative change of a query's part of shared memory that is sent to it: each costs a file and a batch."""
ADVICE_INTERVAL_S = 30.0
"""Seconds between two checks of how evenly and how late a query's rows arrive."""
FILE_TASKS_PER_CORE = 2
"""Map tasks per core that read files: more would be small, fewer would not balance large files."""
SYSSTREAM_KEEP_S = 3600.0
"""Seconds that publications on SysStream are kept; looked at 60 times in that time."""
CONSOLE_ROWS = 1000
"""Rows of a batch that the console sink prints."""
LOG_KEPT_S = 7 * 24 * 3600.0
"""Seconds for which Spark's log is kept of a program that was killed: it may tell why."""
JVM_ANSWERS_S = 2.0
"""Seconds for a connection to the JVM after an error, to find out whether it has ended."""
STOP_POLL_S = 0.05
"""Seconds between two looks at whether the batch of a query that is to stop has ended."""
OPTION_SIMILARITY = 0.8
"""Least similarity, from 0 to 1, of an option that a source ignores and the one that may be meant."""
LAST_EVENTS_MS = 2000
"""Milliseconds that Spark may take to report its last events before the session stops listening."""

# Map side

SHOWN_ROW_CHARS = 200
"""Characters of a bad row that an error shows."""
SAMPLED_FILES = 20
"""Newest files of a source that are looked at for the columns that it is declared with."""
SAMPLED_LINES = 100
"""Lines of each of them, of JSON."""
PARQUET_BATCH_ROWS = 1 << 17
"""Rows that are decoded at a time."""
KAFKA_BATCH_MESSAGES = 10_000
"""Messages per record batch: librdkafka returns them as Python objects, so their number is limited."""
KAFKA_POLL_S = 0.1
"""Seconds that librdkafka may wait for a full batch; one that ends in a gap of the log is never full."""
KAFKA_TIMEOUT_S = 60.0
"""Seconds that Kafka may take to answer, without the option timeoutSeconds."""
RESULT_TASK_BYTES = 32 << 20
"""Bytes of a query's results that one task of a reader reads."""
RESULTS_IDLE_S = 10.0
"""Seconds after which a reader advances over batches without results for it: they may be deleted later."""

# Wire

BLOB_BYTES = 64 << 20
"""Bytes of Arrow data at about which blobs are split."""
NARROWED_ROWS = 64
"""Columns with fewer rows are not narrowed."""
NARROWING_SAMPLE_ROWS = 1 << 10
"""Values that decide whether the differences of a whole column are tried."""
SENDMSG_BUFFERS = 512
"""Buffers per sendmsg, which takes no more than the system's IOV_MAX (1024 on Linux)."""

# Relay

LOG_PIECE_BYTES = 256 << 10
"""Bytes per map entry: PySpark's state API moved 140-180 MB/s at this size, 56 MB/s at 4 MB."""
SNAPSHOT_LOG_BYTES = 256 << 10
"""Log bytes below which no snapshot is written: one of a few groups costs a millisecond or two."""
SNAPSHOT_LOG_PER_STATE = 2
"""Log bytes per byte of state above which a snapshot is written: at most one byte of it per two logged."""
STEP_ATTEMPTS = 4
"""Attempts at a step before the task fails: an engine may be killed, but not every time."""
STEP_RETRY_S = 0.05
"""Seconds before the first retry; a dying process needs some time to exit."""
RESULT_FRAME_ROWS = 1 << 18
"""Rows per frame of results: enough to be fast, few enough for the JVM's memory."""
FOLDED_FROM = 100
"""Commands that were delivered, from which on their files are folded into one: a start reads fewer."""
SHOWN_PLAN_LINES = 2
"""Lines of each plan that an error shows: one change in a query changes few."""

# Resident

LAST_STEP_BYTES = 8 << 20
"""Bytes of the last step's answers that an engine keeps in memory, to give them again; more are in a file."""
ENGINE_IDLE_S = 300.0
"""Seconds without a call after which an engine ends."""
STOPPED_MARK_S = 60.0
"""Seconds for which a query is marked as stopped: its tasks, which are interrupted at once, look for another
engine for less than this."""
HOST_START_S = 120.0
"""Seconds that a host may take to start: the first one on a machine compiles the kernels."""
SHOWN_LOG_CHARS = 2000
"""Characters of the end of the hosts' log in the error that a host did not start."""
LIVENESS_POLL_S = 0.25
"""Seconds between two checks of whether a host or an engine is still needed."""
MEMORY_POLL_S = 0.05
"""Seconds between two looks at the memory of engines that have a limit: how long they may exceed it."""
HOST_REQUEST_S = 10.0
"""Seconds that a caller may take to send its request."""
FREE_BYTES_KEPT = 128 << 20
"""Bytes of free memory that a process keeps at most."""
MMAP_FROM_BYTES = 32 << 20
"""Bytes above which a freed allocation is returned to the system; the largest value glibc accepts."""
MOST_ENDED = 50
"""Queries that have ended and are still listed, with their plans."""
NOTEBOOK_EVERY_S = 1.0
"""Seconds between two updates of a query that is shown in a notebook."""
NOTEBOOK_S = 600.0
"""Seconds for which a query in a notebook is kept up to date: a cell that is gone leaves no trace."""
