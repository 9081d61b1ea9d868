"""Scalar expressions: from sqlglot's nodes to bound ones, every column resolved, every type known.

One function a construct, listed in ``BINDERS``; what is not listed is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.cql import functions, types
from penstock.cql.aggregates import AGGREGATES
from penstock.cql.coercion import coerce, comparands, decimal_operand, mismatch, read_time, time_hint, unify
from penstock.cql.dialect import RELATION_TO_STREAM, around_list
from penstock.cql.errors import error, unsupported
from penstock.cql.scope import Scope
from penstock.cql.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from penstock.expression import Call, Expression, Literal


@dataclass(frozen=True)
class ExpressionBinder:
    """Binds expressions over a scope; the hooks say what an aggregate and a subquery mean here."""

    scope: Scope
    aggregate: Callable[[exp.Anonymous], Expression]
    subquery: Callable[[ExpressionBinder, exp.Expr], Expression]

    def bind(self, node: exp.Expr) -> Expression:
        """The bound form of an expression."""
        bind_construct = BINDERS.get(type(node))
        if bind_construct is None:
            raise unsupported(UNSUPPORTED.get(type(node), f"'{node.sql('spark')}'"), node)
        return bind_construct(self, node)

    def condition(self, node: exp.Expr, where: str) -> Expression:
        """The bound form of an expression that must be BOOLEAN."""
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, types.NULL):
            raise error(f"type mismatch: {where} takes a BOOLEAN, not {types.sql_name(bound.type)}", node)
        return coerce(bound, BOOLEAN)


# columns and constants


def _column(binder: ExpressionBinder, node: exp.Column) -> Expression:
    if isinstance(node.this, exp.Star):
        return _star(binder, node)
    return binder.scope.column(node)


def _star(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    raise error("* stands for columns and cannot be part of an expression", node)


def _literal(binder: ExpressionBinder, node: exp.Literal) -> Expression:
    if node.is_string:
        return Literal(node.name, STRING)
    try:
        return number(node.name)
    except ArithmeticError:
        raise error(f"'{node.name}' is not a number", node) from None


def number(text: str) -> Literal:
    """A numeric constant with Spark's type: INT, BIGINT or DECIMAL as it fits, DOUBLE with an exponent."""
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    value = Decimal(text)
    scale = max(-int(value.as_tuple().exponent), 0)
    if scale == 0 and "." not in text:
        for type_ in (INT, BIGINT):
            if -(2 ** (type_.bit_width - 1)) <= int(value) < 2 ** (type_.bit_width - 1):
                return Literal(int(value), type_)
    precision = max(len(value.as_tuple().digits), scale)
    if precision > types.MAX_PRECISION:
        return Literal(float(text), DOUBLE)
    return Literal(value, pa.decimal128(precision, scale))


def _boolean(binder: ExpressionBinder, node: exp.Boolean) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def _null(binder: ExpressionBinder, node: exp.Null) -> Expression:
    return Literal(None, types.NULL)


def _paren(binder: ExpressionBinder, node: exp.Paren) -> Expression:
    return binder.bind(node.this)


# logic


def _logic(function: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        word = function.upper()
        return Call(
            function, (binder.condition(node.left, word), binder.condition(node.right, word)), BOOLEAN
        )

    return bind


def _not(binder: ExpressionBinder, node: exp.Not) -> Expression:
    bound = binder.condition(node.this, "NOT")
    if isinstance(bound, Call) and bound.function == "isnull":
        return Call("isnotnull", bound.args, BOOLEAN)
    return Call("not", (bound,), BOOLEAN)


def _compare(binder: ExpressionBinder, function: str, node: exp.Expr, *sides: exp.Expr) -> Expression:
    args = comparands([binder.bind(s) for s in sides], node)
    if function not in ("=", "<>", "<=>") and not types.is_ordered(args[0].type):
        raise error(f"type mismatch: {types.sql_name(args[0].type)} has no order", node)
    return Call(function, tuple(args), BOOLEAN)


def _comparison(function: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        return _compare(binder, function, node, node.left, node.right)

    return bind


def _between(binder: ExpressionBinder, node: exp.Between) -> Expression:
    low = _compare(binder, ">=", node, node.this, node.args["low"])
    high = _compare(binder, "<=", node, node.this, node.args["high"])
    return Call("and", (low, high), BOOLEAN)


def _subquery(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return binder.subquery(binder, node)


def _in(binder: ExpressionBinder, node: exp.In) -> Expression:
    if node.args.get("query"):
        return _subquery(binder, node)
    items = [binder.bind(e) for e in node.expressions]
    if not all(isinstance(i, Literal) for i in items):
        return _in_expressions(binder, node)
    args = comparands([binder.bind(node.this), *items], node)
    return Call("in", tuple(args), BOOLEAN)


def _in_expressions(binder: ExpressionBinder, node: exp.In) -> Expression:
    """IN over anything but constants is a chain of ORs."""
    first, *rest = (_compare(binder, "=", node, node.this, e) for e in node.expressions)
    for other in rest:
        first = Call("or", (first, other), BOOLEAN)
    return first


def _like(binder: ExpressionBinder, node: exp.Like) -> Expression:
    args = [binder.bind(node.this), binder.bind(node.expression)]
    if not all(types.is_string(a.type) or a.type == types.NULL for a in args):
        given = " and ".join(types.sql_name(a.type) for a in args)
        raise error(f"type mismatch: LIKE takes two STRINGs, not {given}", node, "write CAST to convert it")
    return Call("like", tuple(coerce(a, STRING) for a in args), BOOLEAN)


def _is(binder: ExpressionBinder, node: exp.Is) -> Expression:
    if isinstance(node.expression, exp.Null):
        return Call("isnull", (binder.bind(node.this),), BOOLEAN)
    left = binder.condition(node.this, "IS TRUE and IS FALSE")
    return Call("<=>", (left, binder.condition(node.expression, "IS")), BOOLEAN)


# arithmetic


def _arithmetic(operator: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        left, right = binder.bind(node.left), binder.bind(node.right)
        if not all(types.is_numeric(e.type) or e.type == types.NULL for e in (left, right)):
            raise mismatch((left, right), node, f"'{operator}' takes numbers, not")
        return arithmetic(operator, left, right)

    return bind


def arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    """``left operator right`` for two numbers, by Spark's rules."""
    decimals = types.is_decimal(left.type) or types.is_decimal(right.type)
    if decimals and not any(types.is_fractional(e.type) or e.type == types.NULL for e in (left, right)):
        left, right = decimal_operand(left), decimal_operand(right)
        return Call(operator, (left, right), types.decimal_arithmetic(operator, left.type, right.type))
    type_ = DOUBLE if operator == "/" else types.common((left.type, right.type)) or DOUBLE
    type_ = INT if type_ == types.NULL else type_
    return Call(operator, (coerce(left, type_), coerce(right, type_)), type_)


def _negative(binder: ExpressionBinder, node: exp.Neg) -> Expression:
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return number(f"-{inner.name}")
    bound = binder.bind(inner)
    if not types.is_numeric(bound.type):
        message = f"type mismatch: '-' takes a number, not {types.sql_name(bound.type)}"
        raise error(message, node, "write CAST to convert it")
    return Call("negative", (bound,), bound.type)


# CASE, CAST and functions


def _case(binder: ExpressionBinder, node: exp.Case) -> Expression:
    conditions = [_case_condition(binder, node, branch) for branch in node.args["ifs"]]
    default = node.args.get("default")
    values = [binder.bind(branch.args["true"]) for branch in node.args["ifs"]]
    values.append(binder.bind(default) if default else Literal(None, types.NULL))
    values = unify(values, node, "CASE gives both", "write CAST so that every branch has one type")
    pairs = [arg for pair in zip(conditions, values, strict=False) for arg in pair]
    return Call("case", (*pairs, values[-1]), values[-1].type)


def _case_condition(binder: ExpressionBinder, node: exp.Case, branch: exp.If) -> Expression:
    if node.this:
        return _compare(binder, "=", branch, node.this, branch.this)
    return binder.condition(branch.this, "WHEN")


def _cast(binder: ExpressionBinder, node: exp.Cast) -> Expression:
    bound, type_ = binder.bind(node.this), types.from_sql(node.args["to"])
    if not types.castable(bound.type, type_):
        raise error(f"cannot cast {types.sql_name(bound.type)} to {types.sql_name(type_)}", node)
    if isinstance(bound, Literal) and isinstance(bound.value, str) and types.is_temporal(type_):
        value = read_time(bound.value, type_)
        if value is None:
            raise error(f"'{bound.value}' is not a {types.sql_name(type_)}", node, time_hint(type_))
        return Literal(value, type_)
    return coerce(bound, type_)


def _concat(binder: ExpressionBinder, node: exp.DPipe) -> Expression:
    return functions.call("concat", [binder.bind(node.left), binder.bind(node.right)], node)


def _substring(binder: ExpressionBinder, node: exp.Substring) -> Expression:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return functions.call("substring", [binder.bind(p) for p in parts if p], node)


def _trim(binder: ExpressionBinder, node: exp.Trim) -> Expression:
    if node.args.get("position") or node.args.get("expression"):
        raise unsupported("TRIM(... FROM ...)", node)
    return functions.call("trim", [binder.bind(node.this)], node)


def _function(binder: ExpressionBinder, node: exp.Anonymous) -> Expression:
    if node.name.upper() in RELATION_TO_STREAM:
        raise around_list(node.name, node)
    if node.name.lower() in AGGREGATES:
        return binder.aggregate(node)
    args, registered = [binder.bind(a) for a in node.expressions], binder.scope.functions
    if node.name.lower() in registered:
        return Call(f"udf:{node.name.lower()}", tuple(args), registered[node.name.lower()].returns)
    return functions.call(node.name, args, node, registered)


BINDERS: dict[type[exp.Expr], Callable[[ExpressionBinder, Any], Expression]] = {
    exp.Column: _column,
    exp.Star: _star,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _comparison("<=>"),
    exp.Between: _between,
    exp.In: _in,
    exp.Exists: _subquery,
    exp.Subquery: _subquery,
    exp.Like: _like,
    exp.Is: _is,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"),
    exp.Mod: _arithmetic("%"),
    exp.Neg: _negative,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.DPipe: _concat,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Anonymous: _function,
}

UNSUPPORTED: dict[type[exp.Expr], str] = {
    exp.All: "a comparison with ALL of a subquery",
    exp.Any: "a comparison with ANY of a subquery",
    exp.Bracket: "an element of an array or map",
    exp.Distinct: "DISTINCT inside a function",
    exp.Escape: "LIKE ... ESCAPE",
    exp.Extract: "EXTRACT",
    exp.Filter: "FILTER (WHERE ...)",
    exp.ILike: "ILIKE",
    exp.IntDiv: "DIV",
    exp.Interval: "INTERVAL in an expression",
    exp.RegexpLike: "RLIKE",
    exp.StrPosition: "POSITION",
    exp.TryCast: "TRY_CAST",
    exp.Window: "an OVER clause",
}
