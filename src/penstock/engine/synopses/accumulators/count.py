"""COUNT."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.hashing import validity
from penstock.engine.synopses.accumulators.base import Accumulator, Segments, Values


class Count(Accumulator):
    """COUNT(*) and COUNT(x)."""

    def update(self, segments: Segments, column: pa.Array | None) -> Values:
        valid = np.ones(len(segments.sign), np.bool_) if column is None else validity(column)
        before, after = self._count(segments, valid)
        return pa.array(before), pa.array(after)
