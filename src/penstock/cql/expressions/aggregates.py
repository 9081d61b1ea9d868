"""The aggregate functions and their result types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from penstock.cql.expressions import types
from penstock.cql.expressions.coercion import coerce
from penstock.cql.expressions.types import BIGINT, DOUBLE
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Expression
from penstock.plan.logical import AggregateCall


def sum_type(type_: pa.DataType) -> pa.DataType | None:
    """BIGINT for integers, DOUBLE, or a DECIMAL with ten more digits."""
    if types.is_decimal(type_):
        return pa.decimal128(min(types.MAX_PRECISION, type_.precision + 10), type_.scale)
    return _whole_or_double(type_, BIGINT)


def avg_type(type_: pa.DataType) -> pa.DataType | None:
    """DOUBLE, or a DECIMAL with four more digits after the point."""
    if types.is_decimal(type_):
        return types.decimal(type_.precision + 4, type_.scale + 4)
    return _whole_or_double(type_, DOUBLE)


def _whole_or_double(type_: pa.DataType, whole: pa.DataType) -> pa.DataType | None:
    if types.is_integer(type_):
        return whole
    return DOUBLE if types.is_fractional(type_) or type_ == types.NULL else None


def same_type(type_: pa.DataType) -> pa.DataType | None:
    """MIN and MAX give what they take."""
    return type_ if types.is_ordered(type_) else None


def double_type(type_: pa.DataType) -> pa.DataType | None:
    """STDDEV and VARIANCE are DOUBLE."""
    return DOUBLE if types.is_numeric(type_) or type_ == types.NULL else None


def count_type(type_: pa.DataType) -> pa.DataType | None:
    """COUNT is BIGINT whatever it counts."""
    return BIGINT


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate function of one argument, in words what it takes, and its name in the plan if another."""

    result: Callable[[pa.DataType], pa.DataType | None]
    takes: str
    means: str = ""


AGGREGATES: dict[str, AggregateFunction] = {
    "count": AggregateFunction(count_type, "anything"),
    "sum": AggregateFunction(sum_type, "a number"),
    "avg": AggregateFunction(avg_type, "a number"),
    "min": AggregateFunction(same_type, "a type with an order"),
    "max": AggregateFunction(same_type, "a type with an order"),
    "mean": AggregateFunction(avg_type, "a number", "avg"),
    "stddev": AggregateFunction(double_type, "a number"),
    "stddev_samp": AggregateFunction(double_type, "a number", "stddev"),
    "std": AggregateFunction(double_type, "a number", "stddev"),
    "stddev_pop": AggregateFunction(double_type, "a number"),
    "variance": AggregateFunction(double_type, "a number"),
    "var_samp": AggregateFunction(double_type, "a number", "variance"),
    "var_pop": AggregateFunction(double_type, "a number"),
}

_SAME_IF_DISTINCT = ("min", "max")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def contains_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate function is called anywhere in an expression of this query."""
    return any(is_aggregate(n) for n in node.walk(prune=lambda n: isinstance(n, exp.Query)))


def aggregate_call(node: exp.Anonymous, bind: Callable[[exp.Expr], Expression]) -> AggregateCall:
    """The bound call; ``bind`` binds its argument."""
    name, args = node.name.lower(), node.expressions
    if len(args) != 1:
        raise error(f"{name.upper()} takes 1 argument, not {len(args)}", node)
    distinct = isinstance(args[0], exp.Distinct)
    if distinct:
        args = args[0].expressions
        if len(args) != 1:
            hint = "count the rows of a SELECT DISTINCT in FROM"
            raise unsupported(f"{name.upper()}(DISTINCT ...) of {len(args)} arguments", node, hint)
    if isinstance(args[0], exp.Star):
        if name != "count":
            raise error(f"{name.upper()}(*) is not defined", node, "only COUNT takes *")
        if distinct:
            raise error(
                "COUNT(DISTINCT *) is not defined", node, "count the rows of a SELECT DISTINCT in FROM"
            )
        return AggregateCall("count", None, BIGINT)
    argument, function = bind(args[0]), AGGREGATES[name]
    type_ = function.result(argument.type)
    if type_ is None:
        given = types.sql_name(argument.type)
        message = f"type mismatch: {name.upper()} takes {function.takes}, not {given}"
        raise error(message, node, "write CAST to convert it")
    name = function.means or name
    if type_ == DOUBLE and function.result is double_type:
        argument = coerce(argument, DOUBLE)
    return AggregateCall(name, argument, type_, distinct and name not in _SAME_IF_DISTINCT)
