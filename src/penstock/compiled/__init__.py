"""Kernels: functions that Numba compiles once per user, kind of machine and content of their source.

``njit`` is Numba's, with a cache that all checkouts, processes and engines of a user share.
"""

from penstock.compiled.cache import njit

__all__ = ["njit"]
