"""Being a good tenant of pyspark's worker processes."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once in a process.

    pyspark's daemon collects garbage after every task, and with pandas and Arrow loaded each collection
    walks 75,000 objects that never die: 45-90 ms of CPU a task, more than the task itself.
    """
    gc.collect()
    gc.freeze()
