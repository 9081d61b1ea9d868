"""The names of a result's columns.

An item is named by its alias; else a column by its own name, as the stream spells it; else by its text,
much as Spark and DuckDB show it: functions in lower case, columns without qualifier, operators in
parentheses: ``SUM(C.size)`` is ``sum(size)``, ``A + 1`` is ``(A + 1)``, ``COUNT(*)`` is ``count(*)``.

A name that is taken gets the suffix ``_1``, ``_2``, ..., as in DuckDB: ``SELECT * FROM R1, R2`` over A and
A, B returns A, A_1, B. Case does not distinguish names.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp


def text_of(node: exp.Expr) -> str:
    """An expression as the name of its column.

    >>> from penstock.cql.syntax.dialect import CQL
    >>> text_of(CQL().parse("SUM(C.size * 8) / COUNT(*)")[0])
    '(sum((size * 8)) / count(*))'
    """
    return _shown(node.copy()).sql("spark", normalize_functions="lower")


def _shown(node: exp.Expr) -> exp.Expr:
    """A node with its parts first: parentheses exactly around operators, columns without qualifiers."""
    if isinstance(node, exp.Paren):
        return _shown(node.this)
    if isinstance(node, exp.Query):
        return exp.Var(this="(...)" if isinstance(node, exp.Subquery) else "...")
    if isinstance(node, exp.Column):
        return exp.Column(this=node.this)
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [_shown(v) if isinstance(v, exp.Expr) else v for v in value])
        elif isinstance(value, exp.Expr):
            node.set(key, _shown(value))
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node


def unique(names: Iterable[str]) -> list[str]:
    """Names made different by suffixes.

    >>> unique(["A", "A", "B", "b"])
    ['A', 'A_1', 'B', 'b_1']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, count = name, 0
        while candidate.casefold() in taken:
            count += 1
            candidate = f"{name}_{count}"
        taken.add(candidate.casefold())
        result.append(candidate)
    return result
