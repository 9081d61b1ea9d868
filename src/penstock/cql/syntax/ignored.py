"""What the parser reads and nothing here would look at: refused, so that no part of a query is ever ignored.

sqlglot reads many dialects' clauses into arguments of its nodes. For the nodes that take such clauses the
arguments that the binder looks at (to use them, or to refuse them with a reason of its own) are listed here.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.cql.syntax.errors import unsupported

_ORDER = {"order", "sort", "cluster", "distribute", "limit", "offset"}
_QUERY = {"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having"} | _ORDER
_ITEM = {"this", "alias", "joins", "window", "sample", "pivots", "laterals"}

UNDERSTOOD: dict[type[exp.Expr], set[str]] = {
    exp.Select: _QUERY
    | {"kind", "hint", "into", "match", "laterals", "pivots", "qualify", "windows", "sample"},
    exp.SetOperation: {"with_", "this", "expression", "distinct", "by_name", "side", "kind", "on"} | _ORDER,
    exp.Subquery: _ITEM | _ORDER | {"with_"},
    exp.Table: _ITEM | {"db", "catalog"},
    exp.Join: {"this", "on", "using", "side", "kind", "method"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Star: {"except_", "replace", "rename"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions", "query"},
    exp.Cast: {"this", "to", "safe"},
}

WORDS = {
    "connect": "CONNECT BY",
    "locks": "FOR UPDATE",
    "version": "AS OF a version or a time",
    "ordinality": "WITH ORDINALITY",
    "format": "FORMAT",
    "symmetric": "BETWEEN SYMMETRIC",
    "ilike": "* ILIKE",
    "unnest": "IN UNNEST",
    "pivots": "PIVOT",
}


def refuse_what_is_ignored(node: exp.Expr) -> None:
    """Refuse the first clause of a statement that the binder would pass over."""
    for part in node.walk(bfs=False):
        understood = next((args for kind, args in UNDERSTOOD.items() if isinstance(part, kind)), None)
        if understood is None:
            continue
        for arg, value in part.args.items():
            if value and arg not in understood:
                at = value[0] if isinstance(value, list) else value
                words = WORDS.get(arg, f"{arg.strip('_').replace('_', ' ').upper()} here")
                raise unsupported(words, at if isinstance(at, exp.Expr) else part)
