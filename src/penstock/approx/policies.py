"""Which tuples of a window to keep: the max-subset policies (Srivastava and Widom, section 3).

A policy assigns tuples a priority, fixed or by age, and estimates the results of a window by its memory. To
add one, write a class here and add its name to ``POLICIES``.
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
"""Used for priorities by age if they do not depend on the age."""


class Policy(Protocol):
    """The policy of one window."""

    name: str

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        """The priority of each tuple; the lowest is dropped first, of equal ones the older."""

    def by_age(self, own: WindowModel) -> Floats | None:
        """The priority at each age, if it depends on the age."""

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        """Results per tick of a window with room for this many tuples."""


class Age:
    """Keep the tuples whose age has the most expected results: optimal if the age curve has no minima
    (3.2.1).
    """

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
    """Keep random tuples."""

    name = "RANDOM"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return known.draw

    def by_age(self, own: WindowModel) -> Floats | None:
        return None

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        """Proportional to the memory: a tuple is equally likely to be kept at any age."""
        need, all_results = max(own.need, 1e-12), own.rate.value * own.curve.total
        return lambda memory: all_results * np.minimum(1.0, np.asarray(memory) / need)


class UntilExpiry(Random):
    """Keep tuples that arrive while there is room until they expire."""

    name = "UNTIL_EXPIRY"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return -known.seq.astype(np.float64)


class Recent(Random):
    """Keep the newest tuples."""

    name = "RECENT"

    def priorities(self, known: KnownTuples, own: WindowModel, other: WindowModel) -> Floats:
        return known.seq.astype(np.float64)

    def result_rate(self, own: WindowModel, other: WindowModel) -> Callable[[float | Floats], Floats]:
        rate = max(own.rate.value, 1e-12)
        return lambda memory: rate * own.curve.at(np.asarray(memory) / rate / own.step)


POLICIES: dict[str, type[Policy]] = {p.name: p for p in (Age, Prob, Random, Recent, UntilExpiry)}
