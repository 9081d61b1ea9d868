"""Leave rows where their source has them: streams that are declared as partitioned by the key they meet by.

A whole task's rows go to the partition of its number, so nothing is hashed and nothing is taken apart.
Streams that are joined must be partitioned alike: the same number of partitions, the same keys in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.expression import Column
from penstock.plan import logical
from penstock.plan.distribution import Dimension, Key
from penstock.plan.logical import Logical
from penstock.plan.schemes.equal_keys import equal_keys


def partitioned_source(root: Logical) -> Iterator[Dimension]:
    """Joins by exactly what all their streams are partitioned by, and each such stream alone."""
    declared = {s.number: _columns(s) for s in logical.spreadable(root)}
    for dimension in equal_keys(root):
        if all(key is not None and set(key) == set(declared[number]) for number, key in dimension.keys):
            yield replace(dimension, by_source=True)
    for number, key in declared.items():
        if key:
            yield replace(Dimension.of({number: key}), by_source=True)


def _columns(leaf: logical.Spreadable) -> Key:
    names = [f"{leaf.alias}.{c}" for c in logical.definition_of(leaf).options.partitioned_by]
    return tuple(Column(n, leaf.schema.field(n).type) for n in names)
