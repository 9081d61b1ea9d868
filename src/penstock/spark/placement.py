"""Which grouping key stands for a partition, so that Spark's hash puts partitions into different tasks.

Spark sends a key to the task ``pmod(hash(key), tasks)``, where ``hash`` of an INT is Murmur3 with seed 42.
That is a bijection of 32-bit integers, so there is one key whose hash is p: partition p goes to task p modulo
the number of tasks. The keys name the partitions' logs in the checkpoint, and do not depend on a setting that
may be another after a restart.
"""

from __future__ import annotations

_BITS = 0xFFFFFFFF
_SEED = 42


def placement(partitions: int) -> tuple[int, ...]:
    """The grouping keys of so many partitions.

    >>> placement(2)
    (-1693959553, -1910889132)
    """
    return tuple(_key(p) for p in range(partitions))


def _key(hashed: int) -> int:
    """The INT that has a hash: Murmur3 backwards."""
    h = _unshift(hashed, 16)
    h = h * pow(0xC2B2AE35, -1, 1 << 32) & _BITS
    h = _unshift(h, 13)
    h = h * pow(0x85EBCA6B, -1, 1 << 32) & _BITS
    h = _unshift(h, 16) ^ 4
    h = (h - 0xE6546B64) * pow(5, -1, 1 << 32) & _BITS
    k = _rotate(h, 32 - 13) ^ _SEED
    k = k * pow(0x1B873593, -1, 1 << 32) & _BITS
    k = _rotate(k, 32 - 15)
    k = k * pow(0xCC9E2D51, -1, 1 << 32) & _BITS
    return k - (1 << 32) if k >> 31 else k


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _BITS


def _unshift(value: int, bits: int) -> int:
    """The x for which ``x ^ (x >> bits)`` is the value."""
    found = value
    for _ in range(32 // bits):
        found = value ^ found >> bits
    return found
