"""Streams for joins with less memory than they need: those of Srivastava and Widom, section 6.

Times are milliseconds; the time unit of section 6.2 is a second. ``S1`` has the window, ``S2`` probes it.

- ``wan``: two sources, one beside the server and one far away; tuples match that are a minute apart. The
  trace of section 6.1 is not public: latency and the skew of the clocks are such that tuples match most often
  at an age of 63 s, and that keeping them for about 69 s gives most results a second.
- ``by_age``: unique ids on S1; a tuple of S2 picks one by the age that a curve says (6.2.1).
- ``by_value``: both streams draw values from Zipf's distribution (6.2.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SECOND = 1_000
"""Ticks."""
BUCKETS = 20
"""m: the parts into which an age curve divides the window."""
RESULTS = 5
"""n1: the results of a tuple of S1 in the age-based model, and how many times as fast S2 is."""
VALUES = 50
"""|D|: values of the frequency-based model."""

WAN_MATCH = (59_900, 60_100)
"""By how much a key of S2 is larger than those of S1 that it matches, in the trace of ``wan``."""

_WAN_GAP = 20
_CLOCK_SKEW = 1_000
_LATENCY_MODE = 2_000
_LATENCY_SPREAD = 0.54


class Tuples(NamedTuple):
    """Tuples of one stream in the order of time: when each came, its key, and its deviation from the mean.

    The aggregated value is a mean plus this many standard deviations.
    """

    ts: Int64s
    key: Int64s
    deviation: Floats


Streams = tuple[Tuples, Tuples]


def arrivals(random: np.random.Generator, rate: float, seconds: int) -> Int64s:
    """Gaps between tuples are drawn uniformly, the longest four times the shortest."""
    gaps = random.uniform(0.4, 1.6, int(rate * seconds)) * SECOND / rate
    return np.cumsum(gaps).astype(np.int64)


def curve(shape: str, power: float = 2) -> Floats:
    """The age curves of section 6.2.2, from the newest bucket to the oldest."""
    k = np.arange(1.0, BUCKETS + 1)
    rising, falling = k**power, (BUCKETS - k) ** power
    found = {"INC": rising, "DEC": falling, "BELL": np.where(k <= BUCKETS / 2, rising, falling)}[shape]
    return np.asarray(RESULTS * found / found.sum())


def by_age(results: Floats, window: int, rate: float, seconds: int, seed: int = 0) -> Streams:
    """``rate`` tuples a second on S1, each with the results of an age curve over a window of seconds."""
    random = np.random.default_rng(seed)
    first, second = arrivals(random, rate, seconds), arrivals(random, RESULTS * rate, seconds)
    buckets = random.choice(len(results), len(second), p=results / results.sum())
    length = window * SECOND / len(results)
    low = np.searchsorted(first, second - (buckets + 1) * length, "right")
    high = np.searchsorted(first, second - buckets * length, "right")
    there = high > low
    ids = (low + (random.random(len(second)) * (high - low)).astype(np.int64))[there]
    return _tuples(random, first, np.arange(len(first))), _tuples(random, second[there], ids)


def shares(z: float, values: int = VALUES) -> Floats:
    """Zipf's shares of values, the most frequent first."""
    found = 1.0 / np.arange(1, values + 1) ** z
    return np.asarray(found / found.sum())


def correlated(case: str, z: float, seed: int = 0) -> tuple[Floats, Floats]:
    """f1 and f2 by value: their orders are the same (DC), opposite (IC), or have nothing in common (UC)."""
    first = shares(z)
    second = {"DC": first, "IC": first[::-1], "UC": np.random.default_rng(seed).permutation(first)}[case]
    return first, second


def by_value(
    parts: tuple[Floats, Floats], rates: tuple[float, float], seconds: int, seed: int = 0
) -> Streams:
    """Each value is a fixed part of a stream, to one tuple; which tuples have it is drawn."""
    random = np.random.default_rng(seed)
    streams = []
    for part, rate in zip(parts, rates, strict=True):
        ts = arrivals(random, rate, seconds)
        values = np.searchsorted(np.cumsum(part), (np.arange(len(ts)) + 0.5) / len(ts))
        streams.append(_tuples(random, ts, random.permutation(np.minimum(values, len(part) - 1))))
    return streams[0], streams[1]


def wan(seconds: int, seed: int = 0) -> Streams:
    """Fifty tuples per second of each source; the key is the time of the source's own clock."""
    random = np.random.default_rng(seed)
    sent = np.arange(seconds * SECOND // _WAN_GAP) * _WAN_GAP
    mean = np.log(_LATENCY_MODE) + _LATENCY_SPREAD**2
    latency = random.lognormal(mean, _LATENCY_SPREAD, len(sent))
    came = sent + _CLOCK_SKEW + latency.astype(np.int64)
    order = np.argsort(came, kind="stable")
    return _tuples(random, sent, sent), _tuples(random, came[order], sent[order])


def results_of(streams: Streams, window: int, band: tuple[int, int] | None = None) -> Int64s:
    """How many results each tuple of S2 has with the whole window of S1, in seconds.

    Joined are equal keys, or keys of S2 that are larger by what ``band`` says.
    """
    one, two = streams
    if band is not None:
        until = np.searchsorted(one.key, two.key - band[0], "right")
        return np.asarray(until - np.searchsorted(one.key, two.key - band[1], "left"))
    _, since, until = _matches(streams, window)
    return until - since


def pairs(streams: Streams, window: int) -> tuple[Int64s, Int64s]:
    """All results of a join by equal keys: which tuple of S1, which of S2."""
    order, since, until = _matches(streams, window)
    counts = until - since
    second = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(second)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[since[second] + nth], second


def _matches(streams: Streams, window: int) -> tuple[Int64s, Int64s, Int64s]:
    """S1 by key and time, and from where to where in it the tuples are that each of S2 joins."""
    one, two = streams
    span = int(max(one.ts[-1], two.ts[-1])) + 1
    order = np.lexsort((one.ts, one.key))
    there = (one.key * span + one.ts)[order]
    oldest = np.maximum(two.ts - window * SECOND, 0)
    until = np.searchsorted(there, two.key * span + two.ts, "right")
    return order, np.searchsorted(there, two.key * span + oldest, "left"), until


def _tuples(random: np.random.Generator, ts: Int64s, key: Int64s) -> Tuples:
    return Tuples(ts, key, random.standard_normal(len(ts)))
