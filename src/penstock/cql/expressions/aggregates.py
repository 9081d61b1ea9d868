"""Calls of aggregate functions, with FILTER and DISTINCT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.cql.expressions.functions import check_count, mismatch
from penstock.cql.syntax.errors import error
from penstock.expression import Expression, Literal
from penstock.functions.aggregates import AggregateCall, aggregate, only_where
from penstock.functions.types import BIGINT, BOOLEAN

AROUND = (exp.Filter,)
"""What may stand around a call of an aggregate."""


def call_in(node: exp.Expr) -> exp.Anonymous | None:
    """The call of an aggregate function that a node is, by itself or with clauses after it."""
    while isinstance(node, AROUND):
        node = node.this
    if isinstance(node, exp.Anonymous) and aggregate(node.name) is not None:
        return node
    return None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    return call_in(node) is not None


def contains_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate function is called anywhere in an expression of this query."""
    return any(is_aggregate(n) for n in node.walk(prune=lambda n: isinstance(n, exp.Query)))


def aggregate_call(
    node: exp.Expr,
    bind: Callable[[exp.Expr], Expression],
    condition: Callable[[exp.Expr, str], Expression],
) -> AggregateCall:
    """The bound call; ``bind`` binds its arguments, ``condition`` that of FILTER."""
    call = call_in(node)
    assert call is not None
    bound = _bound(call, bind)
    if isinstance(node, exp.Filter):
        return filtered(bound, condition(node.expression.this, "FILTER (WHERE ...)"))
    return bound


def filtered(call: AggregateCall, condition: Expression) -> AggregateCall:
    """The call over the rows for which a condition is true: for others its last argument becomes NULL."""
    if not call.arguments:
        return replace(call, argument=only_where(condition, Literal(True, BOOLEAN)))
    *others, last = call.arguments
    first, *rest = (*others, only_where(condition, last))
    return replace(call, argument=first, others=tuple(rest))


def _bound(node: exp.Anonymous, bind: Callable[[exp.Expr], Expression]) -> AggregateCall:
    function, word, args = aggregate(node.name), node.name.upper(), node.expressions
    assert function is not None
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = args[0].expressions
    if any(isinstance(a, exp.Star) for a in args):
        return _of_rows(node, args, distinct)
    check_count(word, function, len(args), node)
    arguments = [bind(a) for a in args]
    call = function.bind(arguments)
    if call is None:
        raise mismatch(word, function, arguments, node)
    return replace(call, distinct=distinct and not function.ignores_distinct)


def _of_rows(node: exp.Anonymous, args: Sequence[exp.Expr], distinct: bool) -> AggregateCall:
    """COUNT(*)."""
    word = node.name.upper()
    if word != "COUNT" or len(args) > 1:
        raise error(f"{word} of * is not defined", node, "only COUNT(*) is")
    if distinct:
        hint = "count the rows of a SELECT DISTINCT in FROM"
        raise error("COUNT(DISTINCT *) is not defined", node, hint)
    return AggregateCall("count", None, BIGINT)
