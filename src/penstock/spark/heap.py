"""What a process does with memory that it no longer needs."""

from __future__ import annotations

import ctypes
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The names that glibc's mallopt(3) has for them."""
_KEPT = 128 << 20
"""Bytes at most that are free and not given back."""
_MAPPED_FROM = 32 << 20
"""Bytes from which on memory is the system's own again when it is freed; the most that glibc takes."""


@cache
def keep_freed_memory() -> None:
    """Keep what is freed for the next step, up to a bound, rather than give it back to the system; once.

    A step allocates and frees the same megabytes as the one before. Given back, every page of them is faulted
    in and zeroed anew. Where the C library is not glibc nothing is done.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
