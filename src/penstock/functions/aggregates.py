"""The aggregate functions, one entry each: types, description, example, how two phases share it.

How an aggregate is computed is an accumulator of its name in :mod:`penstock.engine.synopses.accumulators`; an
entry with a ``rule`` is a call of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.expression import Call, Column, Expression, Literal
from penstock.functions import types
from penstock.functions.aggregate_call import (
    AggregateCall,
    Parts,
    Phase,
    TwoPhases,
    by,
    by_state,
    of_average,
    of_sum,
)
from penstock.functions.registry import Described
from penstock.functions.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from penstock.schema import INTERVAL


@dataclass(frozen=True)
class Order:
    """The order of the rows of a group: by expressions, some of them descending, then by the value."""

    by: tuple[Expression, ...] = ()
    descending: tuple[bool, ...] = ()


Rule = Callable[..., AggregateCall | None]
"""From the arguments, each checked and coerced, to the bound call; None if it does not take them."""


@dataclass(frozen=True)
class Aggregate(Described):
    """An aggregate function. Its example is over the values of :data:`EXAMPLE`."""

    result: Callable[..., pa.DataType | None] | None = None
    """From the types of the arguments to that of the result; None if it does not take them."""
    two_phases: TwoPhases | None = None
    """None: the rows are brought together."""
    aliases: tuple[str, ...] = ()
    ignores_distinct: bool = False
    """DISTINCT makes no difference."""
    rule: Rule | None = None
    """How it is written as a call, if not by its own name with the arguments as they are."""
    in_order: bool = False
    """Whether it depends on the order of the rows, which its rule takes after the arguments."""

    def bind(self, arguments: Sequence[Expression], order: Order | None = None) -> AggregateCall | None:
        """The bound call, None if arguments of these types do not fit.

        Raises ``ValueError`` where a constant argument is not one, or out of bounds.
        """
        taken = self.taken(arguments)
        if taken is None:
            return None
        if self.parameters in ("number", "number or interval"):
            taken = [types.coerce(e, DOUBLE) if e.type == types.NULL else e for e in taken]
        if self.rule:
            return self.rule(*taken, **({"order": order} if self.in_order else {}))
        assert self.result is not None, f"{self.name} has neither a rule nor a type"
        type_ = self.result(*(e.type for e in taken))
        return None if type_ is None else AggregateCall(self.name, taken[0], type_, others=tuple(taken[1:]))


EXAMPLE = (1, 2, 3, 3, None)
"""The values v of the examples."""


def _sum(type_: pa.DataType) -> pa.DataType | None:
    """BIGINT for integers, DOUBLE, an interval, or a DECIMAL with ten more digits."""
    if types.is_decimal(type_):
        return pa.decimal128(min(types.MAX_PRECISION, type_.precision + 10), type_.scale)
    if type_ == INTERVAL:
        return INTERVAL
    return BIGINT if types.is_integer(type_) else _double(type_)


def _average(type_: pa.DataType) -> pa.DataType | None:
    """DOUBLE, or a DECIMAL with four more digits after the point."""
    if types.is_decimal(type_):
        return types.decimal(type_.precision + 4, type_.scale + 4)
    return INTERVAL if type_ == INTERVAL else _double(type_)


def _double(type_: pa.DataType) -> pa.DataType | None:
    return DOUBLE if types.is_numeric(type_) or type_ == types.NULL else None


def _double_of_two(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    return DOUBLE


def _same(type_: pa.DataType) -> pa.DataType | None:
    return type_ if types.is_ordered(type_) else None


def _integer(type_: pa.DataType) -> pa.DataType | None:
    return type_ if types.is_integer(type_) else None


def _any_value(argument: Expression, ignores_nulls: Expression | None = None) -> AggregateCall:
    return AggregateCall("min", argument, argument.type)


def _count(*argument_types: pa.DataType) -> pa.DataType:
    return BIGINT


def _count_if(condition: Expression) -> AggregateCall:
    return AggregateCall("count", only_where(condition, Literal(True, BOOLEAN)), BIGINT)


def _extreme(function: str) -> Rule:
    return lambda argument: AggregateCall(function, argument, argument.type)


def _fraction(e: Expression) -> float:
    if not isinstance(e, Literal) or e.value is None or not 0 <= e.value <= 1:
        raise ValueError("a percentile is a constant from 0 to 1")
    return float(e.value)


def _percentile(argument: Expression, fraction: Expression) -> AggregateCall:
    return AggregateCall("percentile", argument, DOUBLE, constants=(_fraction(fraction),))


def _percentile_disc(argument: Expression, fraction: Expression) -> AggregateCall | None:
    if not types.is_ordered(argument.type):
        return None
    return AggregateCall("percentile_disc", argument, argument.type, constants=(_fraction(fraction),))


def _median(argument: Expression) -> AggregateCall:
    return AggregateCall("percentile", argument, DOUBLE, constants=(0.5,))


def _approx_percentile(
    argument: Expression, fraction: Expression, accuracy: Expression | None = None
) -> AggregateCall:
    accuracy = accuracy or Literal(1000, INT)
    if not isinstance(accuracy, Literal) or accuracy.value is None or not 2 <= accuracy.value <= 1_000_000:
        raise ValueError("the accuracy is a constant from 2 to 1,000,000")
    constants = (_fraction(fraction), int(accuracy.value))
    return AggregateCall("approx_percentile", argument, DOUBLE, constants=constants)


def _extreme_by(function: str) -> Rule:
    def rule(value: Expression, by: Expression) -> AggregateCall | None:
        fits = types.is_ordered(value.type) and types.is_ordered(by.type)
        return AggregateCall(function, value, value.type, others=(by,)) if fits else None

    return rule


def _by_time(function: str) -> Rule:
    """FIRST and LAST: the value of the row that came first or last, with TRUE of those that are not NULL."""

    def rule(
        value: Expression, ignores_nulls: Expression | None = None, *, order: Order
    ) -> AggregateCall | None:
        ignores_nulls = ignores_nulls or Literal(False, BOOLEAN)
        if not isinstance(ignores_nulls, Literal) or ignores_nulls.value is None:
            raise ValueError("whether NULLs are left out is TRUE or FALSE")
        (by,) = order.by
        if ignores_nulls.value:
            by = only_where(Call("isnotnull", (value,), BOOLEAN), by)
        return _extreme_by(function)(value, by)

    return rule


def _list(function: str) -> Rule:
    def rule(value: Expression, *, order: Order) -> AggregateCall | None:
        if not types.is_ordered(value.type):
            return None
        first, *rest = (*order.by, value)
        type_ = pa.list_(value.type)
        return AggregateCall(function, first, type_, others=tuple(rest), constants=(order.descending,))

    return rule


def _set(value: Expression) -> AggregateCall | None:
    return AggregateCall("collect_set", value, pa.list_(value.type)) if types.is_ordered(value.type) else None


def _string_agg(value: Expression, separator: Expression | None = None, *, order: Order) -> AggregateCall:
    separator = separator or Literal("", STRING)
    if not isinstance(separator, Literal) or separator.value is None:
        raise ValueError("the separator is a constant")
    first, *rest = (*order.by, value)
    constants = (order.descending, separator.value)
    return AggregateCall("string_agg", first, STRING, others=tuple(rest), constants=constants)


def _of_extreme_by(name: str, call: AggregateCall) -> Parts:
    """Each partition sends its value and what it is extreme by."""
    value, by = call.arguments
    sent, order = Column(name, call.type), Column(f"{name}#by", by.type)
    extreme = AggregateCall(call.function.removesuffix("_by"), by, by.type)
    whole = AggregateCall(call.function, sent, call.type, others=(order,))
    return Parts((Phase(name, call), Phase(order.name, extreme)), (Phase(name, whole),), sent)


def only_where(condition: Expression, value: Expression) -> Expression:
    """The value where the condition is true, otherwise NULL."""
    return Call("case", (condition, value, Literal(None, value.type)), value.type)


AGGREGATES: dict[str, Aggregate] = {
    aggregate.name: aggregate
    for aggregate in (
        Aggregate("count", "any, ... -> BIGINT",
                  "how many are not NULL, of several arguments in any of them; `COUNT(*)`: how many rows",
                  "COUNT(v) -> 4", _count, by("sum")),
        Aggregate("count_if", "BOOLEAN -> BIGINT", "for how many it is true", "COUNT_IF(v > 2) -> 2",
                  rule=_count_if),
        Aggregate("sum", "number or interval -> number or interval",
                  "sum: BIGINT of integers, DECIMAL of DECIMALs, of intervals one, otherwise DOUBLE",
                  "SUM(v) -> 9", _sum, of_sum),
        Aggregate("avg", "number or interval -> number or interval",
                  "mean: DECIMAL of DECIMALs, of intervals one, otherwise DOUBLE",
                  "AVG(v) -> 2.25", _average, of_average, ("mean",)),
        Aggregate("min", "ordered -> ordered", "least", "MIN(v) -> 1", _same, by(), ignores_distinct=True),
        Aggregate("max", "ordered -> ordered", "greatest", "MAX(v) -> 3", _same, by(),
                  ignores_distinct=True),
        Aggregate("bool_and", "BOOLEAN -> BOOLEAN", "whether all are true", "BOOL_AND(v > 1) -> FALSE",
                  aliases=("every",), ignores_distinct=True, rule=_extreme("min")),
        Aggregate("bool_or", "BOOLEAN -> BOOLEAN", "whether any is true", "BOOL_OR(v > 2) -> TRUE",
                  aliases=("some", "any"), ignores_distinct=True, rule=_extreme("max")),
        Aggregate("min_by", "any, ordered -> any",
                  "the first argument where the second is least; of several the least",
                  "MIN_BY(v, -v) -> 3", two_phases=_of_extreme_by, ignores_distinct=True,
                  rule=_extreme_by("min_by")),
        Aggregate("max_by", "any, ordered -> any",
                  "the first argument where the second is greatest; of several the greatest",
                  "MAX_BY(v, -v) -> 1", two_phases=_of_extreme_by, ignores_distinct=True,
                  rule=_extreme_by("max_by")),
        Aggregate("first", "any [, BOOLEAN] -> any",
                  "value of the row with the least timestamp, of several the least value, NULL before all; "
                  "with TRUE or `IGNORE NULLS` of the rows where it is not NULL",
                  "FIRST(v) IGNORE NULLS -> 1", aliases=("first_value",), ignores_distinct=True,
                  rule=_by_time("min_by"), in_order=True),
        Aggregate("last", "any [, BOOLEAN] -> any",
                  "value of the row with the greatest timestamp, of several the greatest value",
                  "LAST(v) -> 3", aliases=("last_value",), ignores_distinct=True,
                  rule=_by_time("max_by"), in_order=True),
        Aggregate("any_value", "ordered [, BOOLEAN] -> ordered", "some value that is not NULL: the least",
                  "ANY_VALUE(v) -> 1", ignores_distinct=True, rule=_any_value),
        Aggregate("mode", "ordered -> ordered", "the value that occurs most often, of several the least",
                  "MODE(v) -> 3", _same),
        Aggregate("bit_and", "integer -> integer", "the bits that all values have", "BIT_AND(v) -> 0",
                  _integer, by(), ignores_distinct=True),
        Aggregate("bit_or", "integer -> integer", "the bits that any value has", "BIT_OR(v) -> 3",
                  _integer, by(), ignores_distinct=True),
        Aggregate("bit_xor", "integer -> integer", "the bits that an odd number of values have",
                  "BIT_XOR(v) -> 3", _integer, by()),
        Aggregate("median", "DOUBLE -> DOUBLE", "middle value, or halfway between the two around the middle",
                  "MEDIAN(v) -> 2.5", rule=_median),
        Aggregate("percentile", "DOUBLE, DOUBLE -> DOUBLE",
                  "value at a fraction of the values, between the two around it; also "
                  "`PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY v [DESC])`",
                  "PERCENTILE(v, 0.5) -> 2.5", rule=_percentile),
        Aggregate("percentile_disc", "ordered, DOUBLE -> ordered",
                  "least value with at least a fraction of the values up to it, written "
                  "`PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY v)`",
                  "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY v) -> 2", rule=_percentile_disc),
        Aggregate("approx_percentile", "DOUBLE, DOUBLE [, INT] -> DOUBLE",
                  "the same to a relative error of 1/1000, or 1 / the third argument, with bounded state",
                  "ROUND(APPROX_PERCENTILE(v, 0.5)) -> 2.0", aliases=("percentile_approx",),
                  rule=_approx_percentile),
        Aggregate("approx_count_distinct", "any -> BIGINT",
                  "how many distinct values, with a standard error of 5% and bounded state",
                  "APPROX_COUNT_DISTINCT(v) -> 3", _count, ignores_distinct=True),
        Aggregate("collect_list", "ordered -> ARRAY",
                  "the values by the timestamps of their rows, or by `ORDER BY` in the call, then by value; "
                  "with DISTINCT by value", "COLLECT_LIST(v) -> [1, 2, 3, 3]", aliases=("array_agg",),
                  rule=_list("collect_list"), in_order=True),
        Aggregate("collect_set", "ordered -> ARRAY", "the distinct values in order",
                  "COLLECT_SET(v) -> [1, 2, 3]", ignores_distinct=True, rule=_set),
        Aggregate("string_agg", "STRING [, STRING] -> STRING",
                  "the texts as one, with a separator between, in the order of a list",
                  "STRING_AGG(CAST(v AS STRING), '-') -> '1-2-3-3'", aliases=("listagg",),
                  rule=_string_agg, in_order=True),
        Aggregate("variance", "DOUBLE -> DOUBLE", "variance of a sample", "VARIANCE(DISTINCT v) -> 1.0",
                  _double, by_state("spread_state"), ("var_samp",)),
        Aggregate("var_pop", "DOUBLE -> DOUBLE", "variance of the whole", "VAR_POP(v) -> 0.6875", _double,
                  by_state("spread_state")),
        Aggregate("stddev", "DOUBLE -> DOUBLE", "standard deviation of a sample", "STDDEV(DISTINCT v) -> 1.0",
                  _double, by_state("spread_state"), ("stddev_samp", "std")),
        Aggregate("stddev_pop", "DOUBLE -> DOUBLE", "standard deviation of the whole",
                  "ROUND(STDDEV_POP(v), 3) -> 0.829", _double, by_state("spread_state")),
        Aggregate("skewness", "DOUBLE -> DOUBLE",
                  "skewness of the whole, NULL where all values are equal", "ROUND(SKEWNESS(v), 3) -> -0.493",
                  _double),
        Aggregate("kurtosis", "DOUBLE -> DOUBLE",
                  "kurtosis of the whole, less the 3 of a normal distribution, NULL where all are equal",
                  "ROUND(KURTOSIS(v), 3) -> -1.372", _double),
        Aggregate("covar_pop", "DOUBLE, DOUBLE -> DOUBLE", "covariance of the whole, of pairs without NULL",
                  "COVAR_POP(v, 2 * v) -> 1.375", _double_of_two),
        Aggregate("covar_samp", "DOUBLE, DOUBLE -> DOUBLE", "covariance of a sample",
                  "COVAR_SAMP(DISTINCT v, -v) -> -1.0", _double_of_two),
        Aggregate("corr", "DOUBLE, DOUBLE -> DOUBLE",
                  "correlation, from -1 to 1; NULL if one does not vary",
                  "CORR(v, -v) -> -1.0", _double_of_two),
    )
}  # fmt: skip
ALIASES = {alias: aggregate.name for aggregate in AGGREGATES.values() for alias in aggregate.aliases}


def aggregate(name: str) -> Aggregate | None:
    """The aggregate function of a name, in any case."""
    return AGGREGATES.get(ALIASES.get(name.lower(), name.lower()))


def parts(name: str, call: AggregateCall) -> Parts | None:
    """The two phases of a call; None if its rows are brought together."""
    if call.distinct or call.own:
        return None
    phases = AGGREGATES[call.function].two_phases
    return None if phases is None else phases(name, call)
