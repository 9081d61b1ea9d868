"""intersect: bag intersection, or intersection of the distinct rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.operators.bag import Bag


@dataclass(frozen=True)
class Intersect(Bag):
    """INTERSECT ALL, or INTERSECT if not ``all``."""

    all: bool = True

    name = "intersect"

    @property
    def accumulates(self) -> bool:
        return all(p.accumulates for p in self.parts)

    def multiplicity(self, counts: np.ndarray) -> Int64s:
        common = np.maximum(counts.min(axis=1), 0)
        return common if self.all else np.minimum(common, 1)

    def describe(self) -> str:
        return "all" if self.all else "distinct"
