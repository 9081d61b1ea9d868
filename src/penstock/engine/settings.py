"""Tunables of the engine: sizes of its structures.

Those of kernels stay with them: they are compiled in.
"""

TREE_NODE_ROWS = 100
"""Entries in a node of a B+-tree or a T-tree (Kang et al., section 5.1)."""
HASH_BUCKET_ROWS = 0.25
"""Rows per bucket of a hash index when its store is half full: larger buckets save memory and cost time."""
SHARES_PRIOR_ROWS = 100
"""Rows of all partitions after which their shares depend as much on these rows as on being equal at first."""
SHARES_MEMORY_ROWS = 100_000
"""Rows of all partitions after which earlier counts of the partitions' shares have a weight of 1/e."""
DISORDER_HEADROOM = 0.25
"""An adapted bound of disorder exceeds the disorder seen by this share, since the next may be larger."""
DISORDER_FALL = 0.01
"""Ticks by which an adapted bound falls per tick of its stream: 1 minute is gone after 100 minutes."""
OVERFLOW_BYTES = 4096
"""Bytes that data has at least to go to disk: a page, which is what a file takes."""
OVERFLOW_RETURN = 0.75
"""The part of the memory limit up to which keys, lives and indexes return from disk."""
CHECKED_KEYS = 1 << 22
"""Keys of a partitioned source that an engine remembers; others are not checked."""
MONITORED_KEYS = 64
"""One in this many keys is joined completely, to measure what the budget loses."""
SLOTS_PER_ROW = 2
"""Slots that a store has per row it keeps, on average."""
ARRIVING_ROWS = 4096
"""Rows that may arrive at a time at a join with a budget, beside those that it keeps."""
ARRIVING_PARTS = 8
"""More may, if they are at most one in this many of the budget: each decision looks at all rows kept."""
LAZY_ROOM = 1.5
"""How many times as many rows a store under lazy invalidation may have as after the last one."""
MIN_STORE_ROWS = 1024
"""Rows that a store has room for at least."""
MIN_HOLES = 64
"""Dropped rows between others from which on a store moves those together; then it keeps room for so many."""
MIN_DIRECTORY_ENTRIES = 256
"""Entries that a directory of groups has room for at least."""
MERGED_COLUMN_ROWS = 4096
"""Pieces of a column with fewer rows are merged, so that reading it takes few steps."""
COMPACT_ROWS = 1024
"""Entries from which on an operator removes those that it no longer needs, once they are the majority."""
DISTINCT_REGISTER_BITS = 9
"""Bits of a hash that choose the register of APPROX_COUNT_DISTINCT: 512 registers have an error of 5%."""
MIN_TREE_NODES = 8
"""Nodes that a tree has room for at least."""
MOST_RSTREAM_ROWS = 50_000_000
"""Rows that RSTREAM outputs in one step at most: they are in memory at once, about 1 GB."""
MIN_SESSIONS = 256
"""Sessions from which on those that are over are removed."""
MIN_CACHE_BUCKETS = 64
"""Keys that a cache of a join subresult has room for at least."""
MIN_CACHE_ROWS = 64
"""Joined rows that a cache has room for at least."""
CACHE_BUCKETS_SHARE = 0.25
"""Largest part of a cache's memory for its keys; the rest is for the joined rows."""
CACHE_LOST_SAMPLE, CACHE_LOST_PART = 16, 4
"""One new key in so many is looked at whether it replaces another that is in use; if more than one in so many
do, the cache gets more buckets."""
CACHE_ROOM_PART = 4
"""A cache gets new room for one joined row per so many buckets: to make room, all of them are read."""
LATENCY_ARRIVALS = 64
"""Arrivals whose time is remembered while results wait for time to pass them: each is compared with them."""
COLLECT_ROWS = 256
"""Rows that arrive at a join with constraints before it looks for rows to drop."""
COLLECT_SHARE = 0.25
"""The same, as a part of the rows that it keeps: looking at all of them then costs each arrival the same."""
ROW_NUMBER_BITS = 40
"""Bits of a row's number within its partition of a row window; the others are the partition's number."""
REHEARSED_TIMES = (0, 1, 1, 1_000_000_000)
"""Timestamps of made-up rows: of one instant, of others, and one that is out of most windows."""
MONITORED_ROWS = 8192
"""The least number of rows between two of these looks where constraints are monitored: rows that arrive
between them go through the join together."""
MONITORED_SHARE = 0.5
"""The same as COLLECT_SHARE where constraints are monitored: a look measures too, and takes longer."""
NO_SAMPLE = 16
"""Of a No component that is not kept, one in this many keys is, to know what it would save."""
COMBINE_EVERY = 8
"""Looks for rows to drop between two comparisons of what keeping No components takes and saves."""
COUNTED_INSTANTS = 10_000
"""Rows of a chunk up to which the instants that wait are counted; of a longer one, of so many of its rows."""
NAMED_INSTANTS = 32
"""Instants that wait up to which an engine names them, so that those of all partitions are counted once."""
