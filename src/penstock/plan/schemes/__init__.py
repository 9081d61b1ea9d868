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

SCHEMES: tuple[Callable[[Logical], Iterator[Dimension]], ...] = (
    equal_keys,  # first, since it splits most streams at once; the first of equally good ones is taken
    by_group,
    by_row,  # last, since its results are nowhere known to meet
)


def proposals(root: Logical) -> list[Dimension]:
    """What all schemes propose, each once."""
    return list(dict.fromkeys(dimension for scheme in SCHEMES for dimension in scheme(root)))
