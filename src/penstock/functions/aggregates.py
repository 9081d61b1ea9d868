"""The aggregate functions: types, description, example, whether partial results combine over a second stage.

How an aggregate is computed is an accumulator of its name in :mod:`penstock.engine.synopses.accumulators`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.expression import Expression
from penstock.functions import types
from penstock.functions.types import BIGINT, DOUBLE


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function of one argument."""

    name: str
    signature: str
    doc: str
    example: str
    """Over the values of :data:`EXAMPLE`."""
    result: Callable[[pa.DataType], pa.DataType | None]
    """From the type of the argument to that of the result; None if it does not take it."""
    combines: Callable[[pa.DataType], bool] = lambda result: False
    """Whether a call with a result of this type can be computed in two phases."""
    aliases: tuple[str, ...] = ()
    ignores_distinct: bool = False
    """DISTINCT makes no difference."""

    @property
    def parameters(self) -> str:
        """Its parameters, from the signature."""
        return self.signature.split(" -> ")[0]

    def argument(self, argument: Expression) -> Expression:
        """The argument in the form that the accumulator takes."""
        return types.coerce(argument, DOUBLE) if self.parameters == "DOUBLE" else argument


EXAMPLE = (1, 2, 3, 3, None)
"""The values v of the examples."""


def _always(result: pa.DataType) -> bool:
    return True


def _sum(type_: pa.DataType) -> pa.DataType | None:
    """BIGINT for integers, DOUBLE, or a DECIMAL with ten more digits."""
    if types.is_decimal(type_):
        return pa.decimal128(min(types.MAX_PRECISION, type_.precision + 10), type_.scale)
    return BIGINT if types.is_integer(type_) else _double(type_)


def _average(type_: pa.DataType) -> pa.DataType | None:
    """DOUBLE, or a DECIMAL with four more digits after the point."""
    if types.is_decimal(type_):
        return types.decimal(type_.precision + 4, type_.scale + 4)
    return _double(type_)


def _double(type_: pa.DataType) -> pa.DataType | None:
    return DOUBLE if types.is_numeric(type_) or type_ == types.NULL else None


def _same(type_: pa.DataType) -> pa.DataType | None:
    return type_ if types.is_ordered(type_) else None


AGGREGATES: dict[str, Aggregate] = {
    aggregate.name: aggregate
    for aggregate in (
        Aggregate("count", "any -> BIGINT", "how many are not NULL; `COUNT(*)`: how many rows",
                  "COUNT(v) -> 4", lambda type_: BIGINT, _always),
        Aggregate("sum", "number -> number", "sum: BIGINT of integers, DECIMAL of DECIMALs, otherwise DOUBLE",
                  "SUM(v) -> 9", _sum, _always),
        Aggregate("avg", "number -> number", "mean: DECIMAL of DECIMALs, otherwise DOUBLE", "AVG(v) -> 2.25",
                  _average, lambda result: not types.is_decimal(result), ("mean",)),
        Aggregate("min", "ordered -> ordered", "least", "MIN(v) -> 1", _same, _always, ignores_distinct=True),
        Aggregate("max", "ordered -> ordered", "greatest", "MAX(v) -> 3", _same, _always,
                  ignores_distinct=True),
        Aggregate("variance", "DOUBLE -> DOUBLE", "variance of a sample", "VARIANCE(DISTINCT v) -> 1.0",
                  _double, aliases=("var_samp",)),
        Aggregate("var_pop", "DOUBLE -> DOUBLE", "variance of the whole", "VAR_POP(v) -> 0.6875", _double),
        Aggregate("stddev", "DOUBLE -> DOUBLE", "standard deviation of a sample", "STDDEV(DISTINCT v) -> 1.0",
                  _double, aliases=("stddev_samp", "std")),
        Aggregate("stddev_pop", "DOUBLE -> DOUBLE", "standard deviation of the whole",
                  "ROUND(STDDEV_POP(v), 3) -> 0.829", _double),
    )
}  # fmt: skip
ALIASES = {alias: aggregate.name for aggregate in AGGREGATES.values() for alias in aggregate.aliases}


def aggregate(name: str) -> Aggregate | None:
    """The aggregate function of a name, in any case."""
    return AGGREGATES.get(ALIASES.get(name.lower(), name.lower()))
