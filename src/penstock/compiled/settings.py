"""Tunable numbers of the cache of compiled kernels."""

CACHE_BYTES = 256 << 20
"""Bytes that the cache may have; all kernels of one version have about 15 MB, a changed module far less."""

CHECK_SHARE = 64
"""One file in as many that are written looks whether the cache is too large: a look lists all."""

POLL_S = 1.0
"""Seconds between two looks at how many kernels are compiled."""
