"""Schemes: ways in which a query's streams may be spread in one dimension, one a file.

A scheme only proposes. ``plan/distribution.py`` says which proposals are right for a query, and
``plan/hypercube.py`` how many partitions each gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.plan.distribution import Dimension
from penstock.plan.logical import Logical
from penstock.plan.schemes.by_group import by_group
from penstock.plan.schemes.by_row import by_row
from penstock.plan.schemes.equal_keys import equal_keys
from penstock.plan.schemes.heavy_keys import heavy_keys
from penstock.plan.schemes.partitioned_source import partitioned_source

# Of dimensions that are equally good the first is taken.
SCHEMES: tuple[Callable[[Logical], Iterator[Dimension]], ...] = (
    partitioned_source,  # before what hashes by the same key
    heavy_keys,  # before equal_keys, of which it is the better where a stream declares heavy values
    equal_keys,  # before by_group, since it splits most streams at once
    by_group,
    by_row,  # last, since its results are nowhere known to meet
)


def proposals(root: Logical) -> list[Dimension]:
    """What all schemes propose, each once."""
    return list(dict.fromkeys(dimension for scheme in SCHEMES for dimension in scheme(root)))
