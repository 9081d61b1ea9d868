"""Two-phase aggregation: which partial aggregates each partition keeps, and how they are combined.

A function is replaced by partial columns, the functions that combine them, and an expression over those.
Sums of doubles are sent as two doubles, so that the total does not depend on how rows were spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.expression import Call, Column, Expression, Literal
from penstock.functions.aggregates import AGGREGATES


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function of an expression (``count`` with none is COUNT(*)).

    ``count``, ``sum``, ``avg``, ``min``, ``max``, ``stddev`` and ``variance`` (of a sample), ``stddev_pop``,
    ``var_pop``; with ``distinct``, of the distinct values.
    """

    function: str
    argument: Expression | None
    type: pa.DataType
    distinct: bool = False

    def __str__(self) -> str:
        inside = "*" if self.argument is None else str(self.argument)
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{inside})"


PartialCall = tuple[str, str, Expression | None, pa.DataType]
"""Name, function, argument, type of a partial column."""
FinalCall = tuple[str, str, str, pa.DataType]
"""Name, function, partial column it reads, type."""


@dataclass(frozen=True)
class Parts:
    """A function in two phases."""

    partial: tuple[PartialCall, ...]
    final: tuple[FinalCall, ...]
    result: Expression


def combines(call: AggregateCall) -> bool:
    """Whether a call can be computed in two phases."""
    return not call.distinct and AGGREGATES[call.function].combines(call.type)


def parts(name: str, call: AggregateCall) -> Parts:
    """The two phases of one aggregate call."""
    match call.function:
        case "count":
            return _one(name, "count", "sum", call)
        case "min" | "max":
            return _one(name, call.function, call.function, call)
        case "sum" if pa.types.is_floating(call.type):
            return _float_sum(name, call)
        case "sum":
            return _one(name, "sum", "sum", call)
        case "avg":
            return _average(name, call)
    raise AssertionError(call.function)


def _one(name: str, partial: str, final: str, call: AggregateCall) -> Parts:
    return Parts(
        ((name, partial, call.argument, call.type),),
        ((name, final, name, call.type),),
        Column(name, call.type),
    )


def _float_sum(name: str, call: AggregateCall) -> Parts:
    high, low, rest = name, f"{name}#low", f"{name}#rest"
    total = Call(
        "+",
        (Column(high, call.type), Call("+", (Column(rest, call.type), Column(low, call.type)), call.type)),
        call.type,
    )
    return Parts(
        ((high, "sum", call.argument, call.type), (low, "sum_low", call.argument, call.type)),
        ((high, "sum", high, call.type), (rest, "sum_low", high, call.type), (low, "sum", low, call.type)),
        total,
    )


def _average(name: str, call: AggregateCall) -> Parts:
    assert call.argument is not None
    floats = pa.types.is_floating(call.argument.type)
    summed = AggregateCall("sum", call.argument, pa.float64() if floats else pa.int64())
    total = parts(f"{name}#sum", summed)
    count = parts(f"{name}#count", AggregateCall("count", call.argument, pa.int64()))
    n = count.result
    quotient = Call("/", (_double(total.result), _double(n)), pa.float64())
    none = Call("=", (n, Literal(0, pa.int64())), pa.bool_())
    result = Call("case", (none, Literal(None, pa.float64()), quotient), pa.float64())
    return Parts((*total.partial, *count.partial), (*total.final, *count.final), result)


def _double(e: Expression) -> Expression:
    return e if pa.types.is_floating(e.type) else Call("cast", (e,), pa.float64())
