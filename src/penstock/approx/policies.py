"""Which tuples of a window are worth their place: the max-subset policies (Srivastava and Widom, section 3).

A policy gives tuples a priority, fixed or by age, and says how many results a window gives with some memory.
To add one: a class here, and its name in ``POLICIES``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.approx.known_tuples import KnownTuples
from penstock.approx.models.window import WindowModel

Floats = npt.NDArray[np.float64]
NO_AGES: Floats = np.zeros(1)
"""In the place of priorities by age, where they do not depend on it."""


class Policy(Protocol):
    """How one window decides."""

    name: str

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        """Of each tuple; the least is given up first, of equal ones the older."""

    def by_age(self, own: WindowModel) -> Floats | None:
        """The priority at each age, where it depends on that instead."""

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        """Results a tick that a window gives with room for so many tuples."""


class Age:
    """Keep the tuples whose age promises most: optimal where the age curve has no minima (3.2.1)."""

    name = "AGE"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return np.zeros(len(known))

    def by_age(self, own: WindowModel) -> Floats | None:
        return own.curve.priorities

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        curve, rate, step = own.curve, max(own.rate.value * own.step, 1e-12), own.step
        return lambda memory: curve.result_rate(memory, rate) / step


class Prob:
    """Keep the tuples whose value is most frequent on the other stream (3.3)."""

    name = "PROB"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return other.counts.shares(known.key)

    def by_age(self, own: WindowModel) -> Floats | None:
        return None

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        return own.frequencies(other).result_rate


class Random:
    """Any of them, by chance."""

    name = "RANDOM"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return known.draw

    def by_age(self, own: WindowModel) -> Floats | None:
        return None

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        """In the measure of the memory: each tuple is as likely to be there at any age."""
        need, all_results = max(own.need, 1e-12), own.rate.value * own.curve.total
        return lambda memory: all_results * np.minimum(1.0, np.asarray(memory) / need)


class UntilExpiry(Random):
    """Whoever comes while there is room, for life."""

    name = "UNTIL_EXPIRY"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return -known.seq.astype(np.float64)


class Recent(Random):
    """The newest."""

    name = "RECENT"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return known.seq.astype(np.float64)

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        rate = max(own.rate.value, 1e-12)
        return lambda memory: rate * own.curve.at(np.asarray(memory) / rate / own.step)


POLICIES: dict[str, type[Policy]] = {p.name: p for p in (Age, Prob, Random, Recent, UntilExpiry)}
