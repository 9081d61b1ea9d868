"""Split heavy keys: a key with most of the traffic must not cap a join at one partition.

As ``equal_keys``, but rows of the values that a stream declares as heavy are spread by row, and the other
streams' rows of those values go to every coordinate. Each pair still meets once: where the spread row is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.expression import Column
from penstock.plan import logical
from penstock.plan.distribution import Dimension
from penstock.plan.logical import Logical
from penstock.plan.schemes.equal_keys import equal_keys


def heavy_keys(root: Logical) -> Iterator[Dimension]:
    """The dimensions by a key of one column of which some stream declares heavy values."""
    leaves = {s.number: s for s in logical.spreadable(root)}
    for dimension in equal_keys(root):
        heavy = tuple(_declared(dimension, leaves))
        if heavy:
            yield replace(dimension, heavy=heavy)


def _declared(
    dimension: Dimension, leaves: dict[int, logical.Spreadable]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The streams that spread, with their values; a value that several declare is spread by the first."""
    taken: set[Any] = set()
    for number, key in dimension.keys:
        values = heavy_values(leaves[number], key)
        own = tuple(v for v in values if v not in taken)
        taken.update(own)
        if own:
            yield number, own


def heavy_values(leaf: logical.Spreadable, key: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """The values of a key of one column that a stream declares as heavy."""
    if key is None or len(key) != 1 or not isinstance(key[0], Column):
        return ()
    heavy = dict(logical.definition_of(leaf).options.heavy)
    return heavy.get(key[0].name.removeprefix(f"{leaf.alias}."), ())
