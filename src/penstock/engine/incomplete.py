"""Which instants rows and results wait for: what a run that ends now leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.engine.element import BEFORE_TIME, Int64s
from penstock.engine.settings import COUNTED_INSTANTS, NAMED_INSTANTS
from penstock.measurement import Property, Reading


def incomplete(pending: Sequence[Int64s], ends_within: int) -> Iterator[Reading]:
    """How many instants are pending, which they are if they are few, and within how many ticks all are over.

    >>> [(str(r.property), r.value, r.text) for r in incomplete([np.array([7, 9, 7]), np.array([12])], 5)]
    [('incomplete', 3.0, '7 9 12'), ('ahead', 5.0, '')]
    """
    some = [array for array in pending if len(array)]
    if not some:
        return
    instants = np.unique(np.concatenate([_few(array) for array in some]))
    instants = instants[instants > BEFORE_TIME]
    counted = all(len(array) <= COUNTED_INSTANTS or array.min() == array.max() for array in some)
    named = counted and len(instants) <= NAMED_INSTANTS
    yield Reading(Property.INCOMPLETE, float(len(instants)), " ".join(map(str, instants)) if named else "")
    yield Reading(Property.AHEAD, float(ends_within))


def _few(array: Int64s) -> Int64s:
    """The distinct instants of an array, or of a part of one that is long."""
    if len(array) <= COUNTED_INSTANTS:
        return array
    return array[[0]] if array.min() == array.max() else array[:: -(-len(array) // COUNTED_INSTANTS)]
