"""Calls of aggregate functions."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Expression
from penstock.functions.aggregates import aggregate
from penstock.functions.types import BIGINT
from penstock.plan.logical import AggregateCall
from penstock.schema import sql_name


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    return isinstance(node, exp.Anonymous) and aggregate(node.name) is not None


def contains_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate function is called anywhere in an expression of this query."""
    return any(is_aggregate(n) for n in node.walk(prune=lambda n: isinstance(n, exp.Query)))


def aggregate_call(node: exp.Anonymous, bind: Callable[[exp.Expr], Expression]) -> AggregateCall:
    """The bound call; ``bind`` binds its argument."""
    function, word, args = aggregate(node.name), node.name.upper(), node.expressions
    assert function is not None
    if len(args) != 1:
        raise error(f"{word} takes 1 argument, not {len(args)}", node)
    distinct, of_distinct = isinstance(args[0], exp.Distinct), "count the rows of a SELECT DISTINCT in FROM"
    if distinct:
        args = args[0].expressions
        if len(args) != 1:
            raise unsupported(f"{word}(DISTINCT ...) of {len(args)} arguments", node, of_distinct)
    if isinstance(args[0], exp.Star):
        if function.name != "count":
            raise error(f"{word}(*) is not defined", node, "only COUNT takes *")
        if distinct:
            raise error("COUNT(DISTINCT *) is not defined", node, of_distinct)
        return AggregateCall("count", None, BIGINT)
    argument = bind(args[0])
    type_ = function.result(argument.type)
    if type_ is None:
        message = f"type mismatch: {word} takes ({function.parameters}), not ({sql_name(argument.type)})"
        raise error(message, node, "write CAST to convert it")
    distinct = distinct and not function.ignores_distinct
    return AggregateCall(function.name, function.argument(argument), type_, distinct)
