"""Scalar expressions: from sqlglot's nodes to bound ones, every column resolved, every type known.

One function a construct, listed in ``BINDERS``; what is not listed is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.cql.expressions import functions, operators, times
from penstock.cql.expressions.aggregates import is_aggregate
from penstock.cql.expressions.coercion import comparands, constant_time, from_sql, unify
from penstock.cql.names.scope import Scope
from penstock.cql.syntax.dialect import RELATION_TO_STREAM, around_list
from penstock.cql.syntax.errors import error, text_of_node, unsupported
from penstock.cql.syntax.foreign import is_window_function, window_function
from penstock.cql.syntax.nesting import chain
from penstock.cql.syntax.nodes import Positive, Unsigned
from penstock.expression import Call, Expression, Literal, PythonCall, connected
from penstock.functions import types
from penstock.functions.types import BOOLEAN, STRING, coerce
from penstock.schema import SQL_TYPES, sql_name


def refuse_over(binder: ExpressionBinder, node: exp.Window) -> Expression:
    """The hook of clauses that have no order."""
    raise unsupported("an OVER clause here", node, "write it in the SELECT list or in QUALIFY")


@dataclass(frozen=True)
class ExpressionBinder:
    """Binds expressions over a scope; the hooks bind aggregates, subqueries and calls with OVER."""

    scope: Scope
    aggregate: Callable[[exp.Expr], Expression]
    subquery: Callable[[ExpressionBinder, exp.Expr], Expression]
    over: Callable[[ExpressionBinder, exp.Window], Expression] = refuse_over

    def bind(self, node: exp.Expr) -> Expression:
        bind_construct = BINDERS.get(type(node))
        if isinstance(node, exp.Func) and (name := node.sql_name().lower()) in functions.REFUSED:
            raise unsupported(f"the function {name.upper()}", node, functions.REFUSED[name])
        if bind_construct is None:
            raise unsupported(UNSUPPORTED.get(type(node), f"'{text_of_node(node)}'"), node)
        return bind_construct(self, node)

    def condition(self, node: exp.Expr, where: str) -> Expression:
        """The bound form of an expression that must be BOOLEAN."""
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, types.NULL):
            raise error(f"type mismatch: {where} takes a BOOLEAN, not {sql_name(bound.type)}", node)
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
        return types.number(node.name)
    except (ArithmeticError, ValueError):
        raise error(f"'{node.name}' is not a number", node) from None


def _hex(binder: ExpressionBinder, node: exp.HexString) -> Expression:
    """``X'1F'``."""
    return functions.call("unhex", [Literal(node.name, STRING)], node)


def _boolean(binder: ExpressionBinder, node: exp.Boolean) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def _null(binder: ExpressionBinder, node: exp.Null) -> Expression:
    return Literal(None, types.NULL)


def _paren(binder: ExpressionBinder, node: exp.Paren) -> Expression:
    return binder.bind(node.this)


# logic


def _logic(function: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        return connected(function, [binder.condition(term, function.upper()) for term in chain(node)])

    return bind


def _not(binder: ExpressionBinder, node: exp.Not) -> Expression:
    bound = binder.condition(node.this, "NOT")
    if isinstance(bound, Call) and bound.function == "isnull":
        return Call("isnotnull", bound.args, BOOLEAN)
    return Call("not", (bound,), BOOLEAN)


def _compare(binder: ExpressionBinder, function: str, node: exp.Expr, *sides: exp.Expr) -> Expression:
    args = comparands(times.lengths(binder, sides) or [binder.bind(s) for s in sides], node)
    if function not in ("=", "<>", "<=>") and not types.is_ordered(args[0].type):
        raise error(f"type mismatch: {sql_name(args[0].type)} has no order", node)
    return Call(function, tuple(args), BOOLEAN)


COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def is_quantified(node: exp.Expr) -> bool:
    """Whether a node is a comparison with ANY, SOME or ALL of a subquery."""
    return type(node) in COMPARISONS and isinstance(node.expression, exp.Any | exp.All)


def _comparison(function: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        if is_quantified(node):
            return binder.subquery(binder, node)
        return _compare(binder, function, node, node.left, node.right)

    return bind


def _between(binder: ExpressionBinder, node: exp.Between) -> Expression:
    low = _compare(binder, ">=", node, node.this, node.args["low"])
    high = _compare(binder, "<=", node, node.this, node.args["high"])
    return Call("and", (low, high), BOOLEAN)


def _subquery(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return binder.subquery(binder, node)


def _over(binder: ExpressionBinder, node: exp.Window) -> Expression:
    return binder.over(binder, node)


def _in(binder: ExpressionBinder, node: exp.In) -> Expression:
    if node.args.get("query"):
        return _subquery(binder, node)
    if isinstance(node.this, exp.Tuple):
        return _in_rows(binder, node)
    items = [binder.bind(e) for e in node.expressions]
    if not all(isinstance(i, Literal) for i in items):
        return _in_expressions(binder, node)
    args = comparands([binder.bind(node.this), *items], node)
    return Call("in", tuple(args), BOOLEAN)


def _in_rows(binder: ExpressionBinder, node: exp.In) -> Expression:
    """``(a, b) IN ((1, 2), (3, 4))``: as in Spark, whose rows are structs, NULL equals NULL in it."""
    columns, alike = node.this.expressions, list[Expression]()
    for row in node.expressions:
        values = row.expressions if isinstance(row, exp.Tuple) else []
        if len(values) != len(columns):
            hint = "write (a, b) IN ((1, 2), (3, 4))"
            raise error(f"IN takes rows of {len(columns)} values here", row, hint)
        pairs = zip(columns, values, strict=True)
        alike.append(connected("and", [_compare(binder, "<=>", node, *pair) for pair in pairs]))
    return connected("or", alike)


def _in_expressions(binder: ExpressionBinder, node: exp.In) -> Expression:
    """IN over anything but constants is a chain of ORs."""
    return connected("or", [_compare(binder, "=", node, node.this, e) for e in node.expressions])


def _is(binder: ExpressionBinder, node: exp.Is) -> Expression:
    if isinstance(node.expression, exp.Null):
        return Call("isnull", (binder.bind(node.this),), BOOLEAN)
    if not isinstance(node.expression, exp.Boolean):
        raise error("IS must be followed by NULL, TRUE, FALSE or DISTINCT FROM", node, "write = or <=>")
    left = binder.condition(node.this, "IS TRUE and IS FALSE")
    return Call("<=>", (left, binder.condition(node.expression, "IS")), BOOLEAN)


# CASE, CAST and functions

CASTS_BY_NAME = {
    **{n: SQL_TYPES[n] for n in "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE STRING BINARY".split()},
    "DECIMAL": pa.decimal128(10, 0),
}
"""Types whose names are functions, as in Spark: ``INT(x)`` is ``CAST(x AS INT)``."""


def _case(binder: ExpressionBinder, node: exp.Case) -> Expression:
    conditions = [_case_condition(binder, node, branch) for branch in node.args["ifs"]]
    default = node.args.get("default")
    values = [binder.bind(branch.args["true"]) for branch in node.args["ifs"]]
    values.append(binder.bind(default) if default else Literal(None, types.NULL))
    values = unify(values, node, "CASE returns both", "write CAST so that every branch has one type")
    pairs = [arg for pair in zip(conditions, values, strict=False) for arg in pair]
    return Call("case", (*pairs, values[-1]), values[-1].type)


def _case_condition(binder: ExpressionBinder, node: exp.Case, branch: exp.If) -> Expression:
    if node.this:
        return _compare(binder, "=", branch, node.this, branch.this)
    return binder.condition(branch.this, "WHEN")


def _try_cast(binder: ExpressionBinder, node: exp.TryCast) -> Expression:
    bound, type_ = _castable(binder, node)
    return bound if bound.type == type_ else Call("try_cast", (bound,), type_)


def _castable(binder: ExpressionBinder, node: exp.Expr) -> tuple[Expression, pa.DataType]:
    """The operand and the type of a cast; also of Spark's ``INT(x)``."""
    called = isinstance(node, exp.Anonymous)
    bound = binder.bind(node.expressions[0] if called else node.this)
    type_ = CASTS_BY_NAME[node.name.upper()] if called else from_sql(node.args["to"])
    if not types.castable(bound.type, type_):
        raise error(f"cannot cast {sql_name(bound.type)} to {sql_name(type_)}", node)
    return bound, type_


def _cast(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    bound, type_ = _castable(binder, node)
    if isinstance(bound, Literal) and isinstance(bound.value, str) and types.is_temporal(type_):
        return constant_time(bound.value, type_, node)
    return coerce(bound, type_)


def _concat(binder: ExpressionBinder, node: exp.DPipe) -> Expression:
    return functions.call("concat", [binder.bind(term) for term in chain(node)], node)


def _substring(binder: ExpressionBinder, node: exp.Substring) -> Expression:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return functions.call("substring", [binder.bind(p) for p in parts if p], node)


def _trim(binder: ExpressionBinder, node: exp.Trim) -> Expression:
    what, side = node.args.get("expression"), node.args.get("position") or "BOTH"
    if what is None:
        names = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        return functions.call(names[side], [binder.bind(node.this)], node)
    if side != "BOTH":
        raise unsupported(f"TRIM({side} ... FROM ...)", node)
    return functions.call("btrim", [binder.bind(node.this), binder.bind(what)], node)


def _position(binder: ExpressionBinder, node: exp.StrPosition) -> Expression:
    parts = [node.args["substr"], node.this]
    return functions.call("locate", [binder.bind(p) for p in parts], node)


def _distinct_from(binder: ExpressionBinder, node: exp.NullSafeNEQ) -> Expression:
    return Call("not", (_compare(binder, "<=>", node, node.left, node.right),), BOOLEAN)


def _function(binder: ExpressionBinder, node: exp.Anonymous) -> Expression:
    if node.name.upper() in RELATION_TO_STREAM:
        raise around_list(node.name, node)
    if is_aggregate(node, binder.scope.functions):
        return binder.aggregate(node)
    if node.name.lower() == "date_part" and len(node.expressions) == 2:
        name, time = node.expressions
        return times.field_of(name.name, binder.bind(time), node)
    if node.name.lower() in times.WITH_UNIT and len(node.expressions) == 3:
        return times.with_unit(binder, node)
    registered = binder.scope.functions
    if node.name.upper() in CASTS_BY_NAME and len(node.expressions) == 1 and node.name not in registered:
        return _cast(binder, node)
    if is_window_function(node.name) and node.name.lower() not in registered:
        raise window_function(node.name, node, len(node.expressions))
    if any(isinstance(a, exp.Star) for a in node.expressions):
        functions.known(node.name, node, registered)
    args = [binder.bind(a) for a in node.expressions]
    if node.name.lower() in registered:
        known = registered[node.name.lower()]
        return PythonCall(known.name.lower(), tuple(args), known.returns, known.function)
    return functions.call(node.name, args, node, registered)


def _bitwise_not(binder: ExpressionBinder, node: exp.BitwiseNot) -> Expression:
    return functions.operator("~", [binder.bind(node.this)], node)


def _shift(name: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Binary) -> Expression:
        unsigned = isinstance(node.right, Unsigned)
        by = node.right.this if unsigned else node.right
        called = f"{name}unsigned" if unsigned else name
        return functions.call(called, [binder.bind(node.left), binder.bind(by)], node)

    return bind


def _after_aggregate(clause: str) -> Callable[[ExpressionBinder, Any], Expression]:
    def bind(binder: ExpressionBinder, node: exp.Expr) -> Expression:
        if not is_aggregate(node, binder.scope.functions):
            raise error(f"{clause} follows an aggregate function", node)
        return binder.aggregate(node)

    return bind


BINDERS: dict[type[exp.Expr], Callable[[ExpressionBinder, Any], Expression]] = {
    exp.Column: _column,
    exp.Star: _star,
    exp.Literal: _literal,
    exp.RawString: lambda binder, node: Literal(node.name, STRING),
    exp.HexString: _hex,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: _not,
    **{kind: _comparison(sign) for kind, sign in COMPARISONS.items()},
    exp.NullSafeEQ: _comparison("<=>"),
    exp.Between: _between,
    exp.In: _in,
    exp.Exists: _subquery,
    exp.Subquery: _subquery,
    exp.Window: _over,
    exp.NullSafeNEQ: _distinct_from,
    exp.Like: operators.like,
    exp.ILike: operators.ilike,
    exp.RegexpLike: operators.rlike,
    exp.Escape: operators.escape,
    exp.Is: _is,
    exp.Add: operators.additive("+"),
    exp.Sub: operators.additive("-"),
    exp.Mul: operators.binary("*"),
    exp.Div: operators.binary("/"),
    exp.Mod: operators.binary("%"),
    exp.IntDiv: operators.binary("div"),
    exp.BitwiseAnd: operators.binary("&"),
    exp.BitwiseOr: operators.binary("|"),
    exp.BitwiseXor: operators.binary("^"),
    exp.BitwiseNot: _bitwise_not,
    exp.BitwiseLeftShift: _shift("shiftleft"),
    exp.BitwiseRightShift: _shift("shiftright"),
    exp.Neg: operators.negative,
    Positive: operators.positive,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _try_cast,
    exp.Interval: times.constant,
    exp.Extract: times.extract,
    exp.AtTimeZone: times.at_time_zone,
    exp.StrPosition: _position,
    exp.DPipe: _concat,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Anonymous: _function,
    exp.Filter: _after_aggregate("FILTER (WHERE ...)"),
    exp.WithinGroup: _after_aggregate("WITHIN GROUP (ORDER BY ...)"),
    exp.IgnoreNulls: _after_aggregate("IGNORE NULLS"),
    exp.RespectNulls: _after_aggregate("RESPECT NULLS"),
}

UNSUPPORTED: dict[type[exp.Expr], str] = {
    exp.All: "ALL of a subquery other than on the right of = <> < <= > >=",
    exp.Any: "ANY of a subquery other than on the right of = <> < <= > >=",
    exp.Tuple: "a row of values here",
    exp.Values: "VALUES here",
    exp.Bracket: "an element of an array or map",
    exp.Distinct: "DISTINCT inside a function",
}
