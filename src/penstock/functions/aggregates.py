"""The aggregate functions, one entry each: types, description, example, how two phases share it.

How an aggregate is computed is an accumulator of its name in :mod:`penstock.engine.synopses.accumulators`; an
entry with a ``rule`` is a call of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.expression import Call, Expression, Literal
from penstock.functions import types
from penstock.functions.aggregate_call import AggregateCall, Parts, TwoPhases, by, of_average, of_sum
from penstock.functions.registry import Described
from penstock.functions.types import BIGINT, BOOLEAN, DOUBLE

Rule = Callable[..., AggregateCall | None]
"""From the arguments, each checked and coerced, to the bound call; None if it does not take them."""


@dataclass(frozen=True)
class Aggregate(Described):
    """An aggregate function. Its example is over the values of :data:`EXAMPLE`."""

    result: Callable[..., pa.DataType | None]
    """From the types of the arguments to that of the result; None if it does not take them."""
    two_phases: TwoPhases | None = None
    """None: the rows are brought together."""
    aliases: tuple[str, ...] = ()
    ignores_distinct: bool = False
    """DISTINCT makes no difference."""
    rule: Rule | None = None

    def bind(self, arguments: Sequence[Expression]) -> AggregateCall | None:
        """The bound call, None if arguments of these types do not fit."""
        taken = self.taken(arguments)
        if taken is None:
            return None
        if self.rule:
            return self.rule(*taken)
        type_ = self.result(*(e.type for e in taken))
        return None if type_ is None else AggregateCall(self.name, taken[0], type_, others=tuple(taken[1:]))


EXAMPLE = (1, 2, 3, 3, None)
"""The values v of the examples."""


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


def _count(*argument_types: pa.DataType) -> pa.DataType:
    return BIGINT


def _count_if(condition: Expression) -> AggregateCall:
    return AggregateCall("count", only_where(condition, Literal(True, BOOLEAN)), BIGINT)


def _extreme(function: str) -> Rule:
    return lambda argument: AggregateCall(function, argument, argument.type)


def only_where(condition: Expression, value: Expression) -> Expression:
    """The value where the condition is true, otherwise NULL."""
    return Call("case", (condition, value, Literal(None, value.type)), value.type)


AGGREGATES: dict[str, Aggregate] = {
    aggregate.name: aggregate
    for aggregate in (
        Aggregate("count", "any, ... -> BIGINT",
                  "how many are not NULL, of several arguments in any of them; `COUNT(*)`: how many rows",
                  "COUNT(v) -> 4", _count, by("sum")),
        Aggregate("count_if", "BOOLEAN -> BIGINT", "for how many it is true", "COUNT_IF(v > 2) -> 2", _count,
                  rule=_count_if),
        Aggregate("sum", "number -> number", "sum: BIGINT of integers, DECIMAL of DECIMALs, otherwise DOUBLE",
                  "SUM(v) -> 9", _sum, of_sum),
        Aggregate("avg", "number -> number", "mean: DECIMAL of DECIMALs, otherwise DOUBLE", "AVG(v) -> 2.25",
                  _average, of_average, ("mean",)),
        Aggregate("min", "ordered -> ordered", "least", "MIN(v) -> 1", _same, by(), ignores_distinct=True),
        Aggregate("max", "ordered -> ordered", "greatest", "MAX(v) -> 3", _same, by(),
                  ignores_distinct=True),
        Aggregate("bool_and", "BOOLEAN -> BOOLEAN", "whether all are true", "BOOL_AND(v > 1) -> FALSE", _same,
                  aliases=("every",), ignores_distinct=True, rule=_extreme("min")),
        Aggregate("bool_or", "BOOLEAN -> BOOLEAN", "whether any is true", "BOOL_OR(v > 2) -> TRUE", _same,
                  aliases=("some", "any"), ignores_distinct=True, rule=_extreme("max")),
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


def parts(name: str, call: AggregateCall) -> Parts | None:
    """The two phases of a call; None if its rows are brought together."""
    entry = AGGREGATES[call.function]
    return None if call.distinct or entry.two_phases is None else entry.two_phases(name, call)
