"""Samples of a join's results that fit in memory (Srivastava and Widom, section 4).

UNIFORM takes every result independently with the same probability. A *cluster* is the results of one kept
tuple with later ones; a cluster sample has all or none of them: EQ_CLUSTER takes each cluster with the same
probability, PPS_CLUSTER in proportion to its expected size. The memory determines the probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from penstock.approx.models.window import WindowModel
from penstock.approx.settings import (
    FRACTION_BISECTIONS,
    MEMORY_MARGIN_STD_DEVS,
    MIN_CLUSTER_SIZE,
    UNIFORM_MAX_ERROR,
    VARIANCE_RATIO,
)

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


def safe(memory: float) -> float:
    """The target number of tuples, so that a random sample rarely exceeds the memory."""
    return max((sqrt(memory + MEMORY_MARGIN_STD_DEVS**2 / 4) - MEMORY_MARGIN_STD_DEVS / 2) ** 2, 0.0)


def sizes(keys: Int64s, own: WindowModel, other: WindowModel) -> Floats:
    """The expected number of results of tuples by their value, with a lower bound."""
    expected = other.rate.value * own.length * other.counts.shares(keys)
    return np.maximum(expected, MIN_CLUSTER_SIZE * average_size(own, other))


def average_size(own: WindowModel, other: WindowModel) -> float:
    """The expected number of results of a tuple."""
    model = own.frequencies(other)
    return model.all_results / model.rate


def unequal(own: WindowModel, other: WindowModel) -> bool:
    """Whether clusters differ in their expected sizes by more than counting few tuples explains."""
    keys, parts = own.counts.arrays()
    shares = other.counts.shares(keys)
    if not parts.sum() or not other.counts.total:
        return False
    parts = parts / parts.sum()
    spread = float(parts @ (shares - parts @ shares) ** 2)
    return spread > VARIANCE_RATIO * float(parts @ shares) / other.counts.total


def uniform_fraction(windows: Sequence[WindowModel], by_value: bool, memory: float) -> float:
    """The fraction of a uniform sample whose tuples fit (theorems 4.2 and 4.3)."""
    a, b = windows

    def used(fraction: float) -> float:
        return sum(_uniform_memory(own, other, by_value, fraction) for own, other in ((a, b), (b, a)))

    return largest(used, memory)


def _uniform_memory(own: WindowModel, other: WindowModel, by_value: bool, fraction: float) -> float:
    if by_value:
        return own.frequencies(other).sample_memory(fraction, own.margin)
    return own.curve.sample_memory(fraction, own.rate.value * own.step, own.margin)


def equal_fraction(windows: Sequence[WindowModel], memory: float) -> float:
    """The fraction of clusters that fit, each with the same probability."""
    need = sum(w.need for w in windows)
    return min(1.0, memory / need) if need else 1.0


def size_fraction(windows: Sequence[WindowModel], memory: float) -> float:
    """The probability of a cluster per expected result at which the clusters fit."""
    a, b = windows
    parts = [_expected(own, other, by_value=True) for own, other in ((a, b), (b, a))]

    def used(per_result: float) -> float:
        return sum(float(tuples @ np.minimum(1.0, per_result * size)) for tuples, size in parts)

    least = min((float(size.min()) for _, size in parts if len(size)), default=1.0)
    return largest(used, memory, most=1.0 / max(least, 1e-12))


def largest(
    used: Callable[[float], float], memory: float, most: float = 1.0, halvings: int = FRACTION_BISECTIONS
) -> float:
    """The largest value up to ``most`` that uses no more than the memory."""
    if used(most) <= memory:
        return most
    low, high = 0.0, most
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if used(middle) <= memory else (low, middle)
    return low


def uniform_is_better(windows: Sequence[WindowModel], by_value: bool, by_size: bool, memory: float) -> bool:
    """Whether a uniform sample has less variance, if the aggregated value is constant in a cluster.

    A cluster of n results adds (1 - p) n / p to the variance if each is taken independently with probability
    p, and (1 - c) n^2 / c if all are taken with probability c. Since results are random, the mean of n^2 is
    n^2 + n, and only results of a cluster that exist at the same time count together.
    """
    cluster = "PPS_CLUSTER" if by_size else "EQ_CLUSTER"
    single, whole = (variance(windows, by_value, s, memory) for s in ("UNIFORM", cluster))
    return single < whole


def variance(windows: Sequence[WindowModel], by_value: bool, scheme: str, memory: float) -> float:
    """The variance of the number of results of the tuples in the windows, estimated from a sample.

    Infinite if nothing can be sampled.
    """
    if scheme == "UNIFORM":
        fraction = uniform_fraction(windows, by_value, memory)
    else:
        by_size = scheme == "PPS_CLUSTER"
        fraction = size_fraction(windows, memory) if by_size else equal_fraction(windows, memory)
    if not fraction:
        return np.inf
    total = 0.0
    for own, other in zip(windows, reversed(windows), strict=True):
        tuples, n = _expected(own, other, by_value)
        if scheme == "UNIFORM":
            total += float(tuples @ n) * (1 - fraction) / fraction
            continue
        chance = np.minimum(1.0, fraction * n if scheme == "PPS_CLUSTER" else fraction)
        together = n * _together(other.length / own.length)
        total += float(tuples @ ((1 / np.maximum(chance, 1e-12) - 1) * n * (together + 1)))
    return total


def relative_error(windows: Sequence[WindowModel], by_value: bool, scheme: str, memory: float) -> float:
    """The expected error of a COUNT with this memory, as a share of it: the Q of section 5 for aggregates.

    That of a SUM or AVG depends on the values as well, which a join does not see.
    """
    pairs = zip(windows, reversed(windows), strict=True)
    results = sum(float(np.dot(*_expected(own, other, by_value))) for own, other in pairs)
    return sqrt(variance(windows, by_value, scheme, memory)) / results if results else 0.0


def _together(ratio: float) -> float:
    """The share of a tuple's results that exist at the same time as one of them, given the other window's
    length.

    At an age x of its life, from 0 to 1, it has produced x of its results, and ``ratio`` of them still exist.
    """
    there = min(ratio, 1.0)
    return (there - 2 * there**2 / 3) / (1 - there / 2)


def _expected(own: WindowModel, other: WindowModel, by_value: bool) -> tuple[Floats, Floats]:
    """The tuples of the window, and the expected results of each."""
    if not by_value:
        return np.array([own.need]), np.array([own.curve.total])
    keys, parts = own.counts.arrays()
    return own.need * parts, sizes(keys, own, other)


def pick(
    scheme: str | None, aggregated: bool, constant: bool, by_size: bool, surprise: float,
    uniform_is_better: Callable[[], bool],
) -> str:  # fmt: skip
    """The scheme (4.3.2); ``constant``: whether the aggregated value is constant in a cluster.

    UNIFORM needs the expected results of a tuple; without a model, clusters are taken. If the predictions are
    good enough for UNIFORM, the variance decides.
    """
    if surprise == np.inf:
        return "EQ_CLUSTER"
    if scheme == "UNIFORM" or (scheme is None and not aggregated):
        return "UNIFORM"
    if scheme is None and constant and surprise <= UNIFORM_MAX_ERROR and uniform_is_better():
        return "UNIFORM"
    return "PPS_CLUSTER" if by_size else "EQ_CLUSTER"
