"""From text to syntax trees; clauses that the binder does not know are rejected.

sqlglot reads many dialects' clauses into arguments of its nodes. For the nodes that take such clauses,
``READ`` lists the arguments that the binder reads, to use them or to reject them with a reason of its own;
any other is rejected here.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from penstock.cql.syntax.dialect import CQL
from penstock.cql.syntax.errors import FRAME, error, from_sqlglot, missing_end, unsupported
from penstock.cql.syntax.foreign import suggestion
from penstock.cql.syntax.nesting import check_nesting, check_parentheses, deep
from penstock.cql.syntax.nodes import Duration
from penstock.cql.syntax.typos import suggest_keyword
from penstock.errors import CQLError, UnsupportedError
from penstock.schema import RESERVED


def parse_expressions(text: str) -> list[exp.Expr]:
    """The syntax trees of a text's statements."""
    with deep():
        try:
            parsed = _parsed(text)
        except UnsupportedError:
            raise
        except CQLError as failure:
            keyword = None if failure.hint else suggest_keyword(text, failure, _parsed)
            raise suggestion(text) or keyword or missing_end(failure) or failure from None
    statements = [e for e in parsed if e is not None and not isinstance(e, exp.Semicolon)]
    for node in statements:
        check_nesting(node)
        _reject_ignored(node)
    return statements


def _parsed(text: str) -> list[exp.Expr | None]:
    dialect = CQL()
    try:
        tokens = dialect.tokenize(text)
        check_parentheses(tokens)
        return dialect.parser().parse(tokens, text)
    except SqlglotError as failure:
        raise from_sqlglot(failure, text) from None


def split(text: str) -> list[str]:
    r"""The statements of a text, each preceded by blanks so that errors name the place in the whole text.

    >>> split("DROP STREAM S;\nSELECT 1")
    ['DROP STREAM S', '              \nSELECT 1']
    """
    try:
        tokens = CQL().tokenize(text)
    except SqlglotError:
        return [text]  # a string or comment without an end: the parser reports it
    found, start, any_token = [], 0, False
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if any_token:
                found.append(_in_place(text, start, token.start))
            start, any_token = token.end + 1, False
        else:
            any_token = True
    if any_token:
        found.append(_in_place(text, start, len(text)))
    return found


def _in_place(text: str, start: int, stop: int) -> str:
    before = "".join(c if c == "\n" else " " for c in text[:start])
    return before + text[start:stop]


def parse_duration(text: str, clause: str) -> Duration:
    """A length of time as a DDL clause takes it, e.g. of ``DISORDER``."""
    nodes = parse_expressions(f"CREATE STREAM s {clause} {text}")
    values = [v for node in nodes for name, v in node.args.items() if name not in ("this", "kind") and v]
    if len(nodes) != 1 or len(values) != 1 or not isinstance(values[0], Duration):
        raise error(f"{clause} '{text}' is not a length of time", hint="write e.g. 2 SECONDS")
    return values[0]


_ORDER = {"order", "sort", "cluster", "distribute", "limit", "offset"}
_QUERY = {"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having"} | _ORDER
_ITEM = {"this", "alias", "joins", "window", "sample", "pivots", "laterals"}

READ: dict[type[exp.Expr], set[str]] = {
    exp.Select: _QUERY
    | {"kind", "hint", "into", "match", "laterals", "pivots", "qualify", "windows", "sample", "between"},
    exp.SetOperation: {"with_", "this", "expression", "distinct", "by_name", "side", "kind", "on"} | _ORDER,
    exp.Subquery: _ITEM | _ORDER | {"with_"},
    exp.Table: _ITEM | {"db", "catalog"},
    exp.Join: {"this", "on", "using", "side", "kind", "method"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Star: {"except_", "replace", "rename"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions", "query"},
    exp.Order: {"this", "expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"},
    exp.Offset: {"expression"},
    exp.Window: {"this", "partition_by", "order", "over"},
    exp.Cast: {"this", "to", "safe"},
}

WORDS = {
    "connect": "CONNECT BY",
    "locks": "FOR UPDATE",
    "version": "AS OF a version or a time",
    "ordinality": "WITH ORDINALITY",
    "format": "FORMAT",
    "symmetric": "BETWEEN SYMMETRIC",
    "between": "a WINDOW clause inside parentheses, or after a query in parentheses,",
    "ilike": "* ILIKE",
    "unnest": "IN UNNEST",
    "pivots": "PIVOT",
    "spec": FRAME,
    "alias": "a WINDOW clause with names for OVER",
}


def _reject_ignored(node: exp.Expr) -> None:
    """Reject the first clause of a statement that the binder would ignore, and reserved names."""
    for part in node.walk(bfs=False):
        if isinstance(part, exp.Identifier) and part.name.startswith(RESERVED):
            raise error(f"names that begin with {RESERVED} are reserved", part, "choose another name")
        read = next((args for kind, args in READ.items() if isinstance(part, kind)), None)
        if read is None:
            continue
        for arg, value in part.args.items():
            if value and arg not in read:
                at = value[0] if isinstance(value, list) else value
                words = WORDS.get(arg, f"{arg.strip('_').replace('_', ' ').upper()} here")
                raise unsupported(words, at if isinstance(at, exp.Expr) else part)
