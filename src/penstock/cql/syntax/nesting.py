"""How deeply a query may be nested.

A chain of AND, OR, || or of one set operation counts as one level, however long it is: generated queries have
thousands of terms, and :func:`chain` lists them without recursion. What is left to nest (parentheses,
functions, CASE, arithmetic) is limited, since every level costs stack in the parser, the planner, the pickler
and each engine. The parser needs most, so it gets a larger stack (:func:`deep`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.cql.settings import MAX_NESTING, PARSER_RECURSION_LIMIT
from penstock.cql.syntax.errors import error
from penstock.errors import CQLError

_CHAINED = (exp.And, exp.Or, exp.DPipe, exp.Union)
_WITHIN_A_LEVEL = (exp.Paren, exp.Identifier, exp.From, exp.Subquery)
_HINT = "shorten it, or compute parts of it in views or in subqueries in FROM"


def chain(node: exp.Binary | exp.SetOperation) -> list[exp.Expr]:
    """The terms of a chain of one operator, from left to right: of ``a OR (b OR c) OR d`` all four."""
    terms, left = list[exp.Expr](), [node]
    while left:
        part = left.pop()
        inside = part.unnest() if isinstance(part, exp.Paren) else part
        if part is node or _continues(inside, node):
            left += [inside.args["expression"], inside.this]
        else:
            terms.append(part)
    return terms


def _continues(part: exp.Expr, chain: exp.Expr) -> bool:
    """Whether a term is a part of the chain; a set operation is, if it has no clauses of its own."""
    if not isinstance(part, exp.SetOperation) or type(part) is not type(chain):
        return type(part) is type(chain)
    own = {name for name, value in part.args.items() if value}
    return own <= {"this", "expression", "distinct"} and _distinct(part) == _distinct(chain)


def _distinct(node: exp.Expr) -> bool:
    return bool(node.args.get("distinct"))


class _Limit:
    """The interpreter's recursion limit, raised while someone parses in any thread."""

    def __init__(self) -> None:
        self._lock, self._users, self._usual = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, PARSER_RECURSION_LIMIT))
            self._users += 1

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setrecursionlimit(self._usual)


_limit = _Limit()


@contextmanager
def deep() -> Iterator[None]:
    """Allow deep recursion inside; what is too deep all the same is an error in the query."""
    with _limit:
        try:
            yield
        except RecursionError:
            raise too_deep() from None


def too_deep(at: exp.Expr | Token | None = None) -> CQLError:
    """The error for a query that is nested too deeply."""
    return error(f"the query is nested more than {MAX_NESTING} levels deep", at, _HINT)


def check_parentheses(tokens: Sequence[Token]) -> None:
    """Reject too many open parentheses before the parser recurses into them."""
    depth = 0
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            depth += 1
            if depth > MAX_NESTING:
                raise too_deep(token)
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1


def check_nesting(node: exp.Expr) -> None:
    """Reject a statement that is nested too deeply."""
    left = [(node, 0)]
    while left:
        part, depth = left.pop()
        if depth > MAX_NESTING:
            raise too_deep(part)
        for child in part.iter_expressions():
            linked = isinstance(part, _CHAINED) and _continues(child, part)
            counts = not linked and not isinstance(child, _WITHIN_A_LEVEL)
            left.append((child, depth + counts))
