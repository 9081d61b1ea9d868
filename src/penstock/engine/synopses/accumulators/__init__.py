"""Accumulators: the state of an aggregate function for all groups, and its value before and after each
instant.

Adding a function: a class with ``update`` in a file here, and a line in ``ACCUMULATORS``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.synopses.accumulators.base import Accumulator, Segments
from penstock.engine.synopses.accumulators.distinct import DistinctValues
from penstock.engine.synopses.accumulators.extremes import Max, Min
from penstock.engine.synopses.accumulators.spread import Deviation, DeviationOfAll, Spread, SpreadOfAll
from penstock.engine.synopses.accumulators.sums import Avg, Count, Sum, SumLow

ACCUMULATORS: dict[str, type[Accumulator]] = {
    "count": Count,
    "sum": Sum,
    "sum_low": SumLow,
    "avg": Avg,
    "min": Min,
    "max": Max,
    "variance": Spread,
    "var_pop": SpreadOfAll,
    "stddev": Deviation,
    "stddev_pop": DeviationOfAll,
}
DISTINCT = " distinct"
"""Suffix of the name of a function of the distinct values."""


def accumulators(
    calls: Sequence[tuple[str, pa.DataType | None, pa.DataType]], grows: bool
) -> list[Accumulator]:
    """Fresh accumulators for (function, argument type, result type)."""
    return [_accumulator(function, argument, result, grows) for function, argument, result in calls]


def _accumulator(
    function: str, argument: pa.DataType | None, result: pa.DataType, grows: bool
) -> Accumulator:
    plain = ACCUMULATORS[function.removesuffix(DISTINCT)](argument, result, grows)
    return DistinctValues(plain) if function.endswith(DISTINCT) else plain


__all__ = ["ACCUMULATORS", "DISTINCT", "Accumulator", "Segments", "accumulators"]
