"""Bound calls of aggregate functions, and how two phases share them.

In two phases every partition computes partial columns, further aggregates combine those, and an expression
over them is the result, which does not depend on how rows were spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.expression import Call, Column, Expression, Literal, OwnAggregate
from penstock.functions.types import MAX_PRECISION


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function of expressions (``count`` of none is COUNT(*)), named as its accumulator.

    Rows in which the last of its expressions is NULL are left out. With ``distinct`` it is of the distinct
    values. ``constants`` are the arguments that have one value for the whole query.
    """

    function: str
    argument: Expression | None
    type: pa.DataType
    distinct: bool = False
    others: tuple[Expression, ...] = ()
    constants: tuple[Any, ...] = ()
    own: OwnAggregate | None = None
    """The registered aggregate that is called."""

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """All expressions."""
        return () if self.argument is None else (self.argument, *self.others)

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.arguments)) or "*"
        constants = "".join(f", {c!r}" for c in self.constants)
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{inside}{constants})"


@dataclass(frozen=True)
class Phase:
    """A column of one phase: its name, and the call that computes it."""

    name: str
    call: AggregateCall


@dataclass(frozen=True)
class Parts:
    """A call in two phases. The final calls are over the partial columns."""

    partial: tuple[Phase, ...]
    final: tuple[Phase, ...]
    result: Expression


TwoPhases = Callable[[str, AggregateCall], Parts | None]
"""From the name of a call's column and the call to its phases; None if this call has none."""


def by(final: str | None = None) -> TwoPhases:
    """Partial results of the function itself are combined by ``final``, or by the function itself."""

    def parts(name: str, call: AggregateCall) -> Parts:
        whole = AggregateCall(final or call.function, Column(name, call.type), call.type)
        return Parts((Phase(name, call),), (Phase(name, whole),), Column(name, call.type))

    return parts


def by_state(state: str) -> TwoPhases:
    """Partitions send a state, which another function returns; the function itself combines states."""

    def parts(name: str, call: AggregateCall) -> Parts:
        partial = replace(call, function=state, type=pa.binary())
        whole = AggregateCall(call.function, Column(name, pa.binary()), call.type)
        return Parts((Phase(name, partial),), (Phase(name, whole),), Column(name, call.type))

    return parts


def of_sum(name: str, call: AggregateCall) -> Parts | None:
    """Of doubles, exact states; of integers, sums that do not overflow; of wide DECIMALs, the rows."""
    assert call.argument is not None
    if pa.types.is_floating(call.type):
        return by_state("sum_state")(name, call)
    if pa.types.is_decimal(call.type):
        return None if call.argument.type.precision > MAX_PRECISION - 10 else by()(name, call)
    partial = replace(call, type=pa.decimal128(MAX_PRECISION, 0))
    whole = AggregateCall("sum", Column(name, partial.type), call.type)
    return Parts((Phase(name, partial),), (Phase(name, whole),), Column(name, call.type))


def of_average(name: str, call: AggregateCall) -> Parts | None:
    """A sum over a count; of DECIMALs, whose sum may be longer than any, and of intervals the rows."""
    assert call.argument is not None
    if pa.types.is_decimal(call.type) or pa.types.is_duration(call.type):
        return None
    if pa.types.is_floating(call.argument.type):
        return by_state("sum_state")(name, call)
    summed = AggregateCall("sum", call.argument, pa.decimal128(MAX_PRECISION, 0))
    total = by()(f"{name}#sum", summed)
    count = by("sum")(f"{name}#count", AggregateCall("count", call.argument, pa.int64()))
    assert total is not None and count is not None
    n = count.result
    quotient = Call("/", (_double(total.result), _double(n)), pa.float64())
    none = Call("=", (n, Literal(0, pa.int64())), pa.bool_())
    result = Call("case", (none, Literal(None, pa.float64()), quotient), pa.float64())
    return Parts((*total.partial, *count.partial), (*total.final, *count.final), result)


def _double(e: Expression) -> Expression:
    return e if pa.types.is_floating(e.type) else Call("cast", (e,), pa.float64())
