"""duplicate-eliminate: each row once, while there is at least one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Int64s
from penstock.engine.operators.bag import Bag


@dataclass(frozen=True)
class DuplicateEliminate(Bag):
    """DISTINCT, over one input."""

    name = "duplicate-eliminate"

    def multiplicity(self, counts: np.ndarray) -> Int64s:
        return (counts[:, 0] > 0).astype(np.int64)
