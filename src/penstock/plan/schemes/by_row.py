"""Spread by row: one stream's rows go anywhere, one place each, and the others are broadcast to all.

Each pair of rows then meets once, whatever joins them: cross products, inequalities, bands.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan import logical
from penstock.plan.distribution import Dimension
from penstock.plan.logical import Logical


def by_row(root: Logical) -> Iterator[Dimension]:
    """Each stream alone, and all together where nothing compares them."""
    numbers = [s.number for s in logical.spreadable(root)]
    for number in numbers:
        yield Dimension.of({number: None})
    if len(numbers) > 1:
        yield Dimension.of(dict.fromkeys(numbers))
