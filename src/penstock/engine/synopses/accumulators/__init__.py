"""Accumulators: the state of an aggregate function for all groups, and its value before and after each
instant.

Adding a function: an entry in :mod:`penstock.functions.aggregates`, which types and describes it and says how
partial results combine; a class with ``update`` in a file here; and a line in ``ACCUMULATORS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.synopses.accumulators.base import Accumulator, Segments
from penstock.engine.synopses.accumulators.bits import BitAnd, BitOr, BitXor
from penstock.engine.synopses.accumulators.co_moments import Corr, CovarPop, CovarSamp
from penstock.engine.synopses.accumulators.distinct import DistinctValues
from penstock.engine.synopses.accumulators.doubles import DOUBLES
from penstock.engine.synopses.accumulators.extremes import Max, Min
from penstock.engine.synopses.accumulators.own import own_accumulator
from penstock.engine.synopses.accumulators.sketches import ApproxCountDistinct, ApproxPercentile
from penstock.engine.synopses.accumulators.sorted_bags import (
    CollectList,
    CollectSet,
    Kurtosis,
    MaxBy,
    MinBy,
    Mode,
    Percentile,
    PercentileDisc,
    Skewness,
    StringAgg,
)
from penstock.engine.synopses.accumulators.sums import Count, WholeAverage, WholeSum
from penstock.expression import OwnAggregate


def _by_type(function: str, whole: type[Accumulator]) -> Callable[..., Accumulator]:
    """A function of integers and decimals, or of doubles (or states of them)."""

    def start(arguments: tuple[pa.DataType, ...], *more: Any) -> Accumulator:
        doubles = pa.types.is_floating(arguments[0]) or pa.types.is_binary(arguments[0])
        return DOUBLES[function](arguments, *more) if doubles else whole(arguments, *more)

    return start


ACCUMULATORS: dict[str, Callable[..., Accumulator]] = {
    **DOUBLES,
    "count": Count,
    "sum": _by_type("sum", WholeSum),
    "avg": _by_type("avg", WholeAverage),
    "min": Min,
    "max": Max,
    "covar_pop": CovarPop,
    "covar_samp": CovarSamp,
    "corr": Corr,
    "percentile": Percentile,
    "percentile_disc": PercentileDisc,
    "approx_percentile": ApproxPercentile,
    "approx_count_distinct": ApproxCountDistinct,
    "min_by": MinBy,
    "max_by": MaxBy,
    "collect_list": CollectList,
    "collect_set": CollectSet,
    "string_agg": StringAgg,
    "mode": Mode,
    "skewness": Skewness,
    "kurtosis": Kurtosis,
    "bit_and": BitAnd,
    "bit_or": BitOr,
    "bit_xor": BitXor,
}
KEEPS_VALUES = frozenset(
    "percentile percentile_disc collect_list collect_set string_agg mode skewness kurtosis".split()
)
"""Functions whose state has each different value of a group."""


def accumulator(
    function: str,
    arguments: Sequence[pa.DataType],
    result: pa.DataType,
    grows: bool,
    constants: tuple[Any, ...] = (),
    distinct: bool = False,
    own: OwnAggregate | None = None,
) -> Accumulator:
    """A fresh accumulator of a function, or of a registered aggregate; ``grows``: nothing is ever removed."""
    if own is not None:
        plain = own_accumulator(own, tuple(arguments), grows)
    else:
        plain = ACCUMULATORS[function](tuple(arguments), result, grows, constants)
    return DistinctValues(plain) if distinct else plain


__all__ = ["ACCUMULATORS", "KEEPS_VALUES", "Accumulator", "Segments", "accumulator"]
