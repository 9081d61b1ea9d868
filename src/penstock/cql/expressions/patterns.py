"""LIKE, ILIKE and RLIKE, negated or not, with ESCAPE or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.cql.expressions import types
from penstock.cql.expressions.coercion import coerce
from penstock.cql.expressions.types import BOOLEAN, STRING
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Call, Expression

if TYPE_CHECKING:
    from penstock.cql.expressions.binder import ExpressionBinder


def like(binder: ExpressionBinder, node: exp.Like) -> Expression:
    """``x LIKE pattern``."""
    return _negated(Call("like", _texts(binder, node, "LIKE"), BOOLEAN), node)


def ilike(binder: ExpressionBinder, node: exp.ILike) -> Expression:
    """``x ILIKE pattern``: LIKE in lower case."""
    lowered = tuple(Call("lower", (t,), STRING) for t in _texts(binder, node, "ILIKE"))
    return _negated(Call("like", lowered, BOOLEAN), node)


def rlike(binder: ExpressionBinder, node: exp.RegexpLike) -> Expression:
    """``x RLIKE regex``: the expression is found somewhere in x."""
    return Call("rlike", _texts(binder, node, "RLIKE"), BOOLEAN)


def escape(binder: ExpressionBinder, node: exp.Escape) -> Expression:
    """``x LIKE pattern ESCAPE 'c'``, the pattern a constant: written again with a backslash for c."""
    match, mark = node.this, node.expression
    pattern = match.expression if isinstance(match, exp.Like | exp.ILike) else None
    if not isinstance(pattern, exp.Literal) or not isinstance(mark, exp.Literal) or len(mark.name) != 1:
        raise unsupported("ESCAPE other than a character for a constant pattern", node)
    rewritten = match.copy()
    rewritten.set("expression", exp.Literal.string(_with_backslash(pattern.name, mark.name, node)))
    return binder.bind(rewritten)


def _with_backslash(pattern: str, mark: str, node: exp.Expr) -> str:
    parts, position = list[str](), 0
    while position < len(pattern):
        char = pattern[position]
        if char == mark:
            position += 1
            char = pattern[position : position + 1]
            if char not in ("%", "_", mark):
                raise error(f"in a LIKE pattern {mark} stands before %, _ or {mark}", node)
            parts.append(f"\\{char}" if char in ("%", "_", "\\") else char)
        else:
            parts.append("\\\\" if char == "\\" else char)
        position += 1
    return "".join(parts)


def _texts(binder: ExpressionBinder, node: exp.Binary, word: str) -> tuple[Expression, ...]:
    args = [binder.bind(node.this), binder.bind(node.expression)]
    if not all(types.is_string(a.type) or a.type == types.NULL for a in args):
        given = " and ".join(types.sql_name(a.type) for a in args)
        raise error(f"type mismatch: {word} takes two STRINGs, not {given}", node, "write CAST to convert it")
    return tuple(coerce(a, STRING) for a in args)


def _negated(match: Call, node: exp.Expr) -> Expression:
    return Call("not", (match,), BOOLEAN) if node.args.get("negate") else match
