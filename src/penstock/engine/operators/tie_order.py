"""tie-order: a derived stream, the tuples of one instant in the order of their columns. A system operator.

The tuples that a join, an aggregate or a difference of bags yields for an instant have no order of arrival:
it would depend on the plan, on what was measured and on rebuilding. A row window over them must not, so it
takes them in the order of their columns, from the first one on, NULLs first and NaN last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.element import Chunk, Int64s, take_rows
from penstock.engine.operator import Clock, Operator, StartContext, Unary


@dataclass(frozen=True)
class TieOrder(Unary):
    """Passes on its input, in order."""

    name = "tie-order"

    @property
    def waits(self) -> bool:
        """All tuples of an instant must be there."""
        return True

    def describe(self) -> str:
        return "of equal timestamps, by columns"

    def start(self, context: StartContext) -> Operator:
        return _TieOrder()


class _TieOrder(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        same = chunk.ts[1:] == chunk.ts[:-1]
        if not same.any() or not chunk.columns.num_columns:
            return chunk
        tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
        keys = [ranks(column) for column in take_rows(chunk.columns, tied).columns]
        order = np.arange(len(chunk))
        order[tied] = tied[np.lexsort([*keys[::-1], chunk.ts[tied]])]
        return chunk.take(order)


def ranks(column: pa.Array) -> Int64s:
    """Numbers that order the values of a column as Spark does: NULLs first, NaN last.

    >>> ranks(pa.array([2.5, float("nan"), None, 1.0])).tolist()
    [2, 5, 0, 1]
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    found = np.asarray(pc.rank(column, tiebreaker="dense")).astype(np.int64)
    if pa.types.is_floating(column.type):
        nan = np.asarray(pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False))
        found = np.where(nan, len(column) + 1, found)
    return np.where(column.is_null().to_numpy(zero_copy_only=False), 0, found)
