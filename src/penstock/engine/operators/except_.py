"""except: bag difference, or difference of the distinct rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Int64s, Pattern
from penstock.engine.operators.bag import Bag


@dataclass(frozen=True)
class Except(Bag):
    """EXCEPT ALL, or EXCEPT if not ``all``."""

    all: bool = True

    name = "except"

    @property
    def pattern(self) -> Pattern:
        """A row leaves when an equal row arrives on the right."""
        return super().pattern if self.parts[1].is_static else Pattern.CHANGING

    @property
    def accumulates(self) -> bool:
        return self.parts[0].accumulates

    def multiplicity(self, counts: np.ndarray) -> Int64s:
        """The left count minus the right one, at least 0; or once if only the left has the row."""
        if self.all:
            return np.maximum(counts[:, 0] - counts[:, 1], 0)
        return ((counts[:, 0] > 0) & (counts[:, 1] <= 0)).astype(np.int64)

    def describe(self) -> str:
        return "all" if self.all else "distinct"
