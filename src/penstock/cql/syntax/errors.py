"""Errors with their position in the text, and suggestions of similar names.

Functions report a mistake by ``raise error(message, node)``; its position is found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import Token

from penstock.errors import CQLError, UnsupportedError, nearest

FIRST_WORDS = "SELECT INSERT CREATE REGISTER START STOP ALTER DROP REFRESH SET SHOW DESCRIBE EXPLAIN".split()
"""What statements begin with."""
Place = tuple[int, int] | tuple[None, None]


def _own_place(node: exp.Expr) -> Place:
    meta = node.meta
    if "line" not in meta:
        return None, None
    return meta["line"], meta["col"] - (meta["end"] - meta["start"])


def _first_place(node: exp.Expr) -> Place:
    """The position of the leftmost part of a node that has one."""
    places = [p for p in (_own_place(n) for n in node.walk()) if p[0] is not None]
    return min(places) if places else (None, None)


def place(node: exp.Expr | Token | None) -> Place:
    """Line and column, from 1, of a node or token; of the nearest node around it if it has none itself."""
    if isinstance(node, Token):
        return node.line, node.col - (node.end - node.start)
    while node is not None:
        found = _own_place(node)
        found = found if found[0] is not None else _first_place(node)
        if found[0] is not None:
            return found
        node = node.parent
    return None, None


def error(message: str, at: exp.Expr | Token | None = None, hint: str | None = None) -> CQLError:
    """The error for a mistake of the user at a node."""
    line, column = place(at)
    return CQLError(_in_words(message), line=line, column=column, hint=hint and _in_words(hint))


def _in_words(text: str) -> str:
    """Replace generated aliases of subqueries, such as #1, which the user never wrote."""
    return re.sub(r"'?#\d+\b'?", "a subquery", re.sub(r"#\d+\.", "", text))


FRAME = "a frame (ROWS or RANGE BETWEEN) in an OVER clause"
INSTEAD = {
    FRAME: "write a window after the stream, as in FROM S [PARTITION BY k ROWS 3] or FROM S [RANGE 10 "
    "SECONDS], and GROUP BY",
    "AS OF a version or a time": "for what a relation R holds at the time of each row of S write SELECT "
    "RSTREAM(...) FROM S [NOW] JOIN R ON ...; read an earlier version of a table as a table of its own",
    "TABLESAMPLE": "write WHERE PMOD(HASH(k), 10) = 0, or WITHIN MEMORY n ROWS SAMPLE for a join",
    "PIVOT": "write an aggregate per column, as in SUM(x) FILTER (WHERE k = 'a')",
    "LATERAL VIEW": "unnest the column before the stream is registered",
    "LATERAL": "join a subquery in FROM and write its condition in WHERE, or select a scalar subquery",
    "UNNEST": "unnest the column before the stream is registered",
    "ASOF JOIN": "for the last row of each key as of each row of A write SELECT RSTREAM(...) FROM A [NOW] "
    "JOIN B [PARTITION BY k ROWS 1] USING (k)",
    "a hint": "leave it out: the plan adapts itself",
    "VALUES here": "write it in FROM, as in IN (SELECT * FROM VALUES (1), (2))",
    "a row of values here": "compare the columns one by one, or write (a, b) IN ((1, 2))",
    "a WINDOW clause with names for OVER": "write the PARTITION BY and ORDER BY in the OVER clause",
    "* REPLACE": "write * EXCEPT (a), expression AS a",
    "UNION BY NAME": "write the columns in the same order in both queries",
    "DISTINCT ON": "write QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1",
    "GROUP BY ALL": "name the columns, or their places: GROUP BY 1, 2",
    "an element of an array or map": "select it as a column of its own before the stream is registered",
    "MATCH_RECOGNIZE": "a pattern of two or three rows can be a join of the stream with itself, as in "
    "FROM S AS a, S AS b WINDOW 10 SECONDS",
    "CUMULATE": "its windows grow by steps; [TUMBLE 10 SECONDS] is the last of a series",
    "a path into a column": "select its parts as columns before the stream or table is registered",
}
"""What to write instead of a construct that has no better hint of its own."""


def unsupported(
    construct: str, at: exp.Expr | Token | None = None, hint: str | None = None
) -> UnsupportedError:
    """The error for a construct that is recognised but not supported."""
    line, column = place(at)
    hint = hint or INSTEAD.get(construct)
    return UnsupportedError(f"{construct} is not supported", line=line, column=column, hint=hint)


def text_of_node(node: exp.Expr) -> str:
    """A node as text for a message; its kind, if it has constructs of CQL in it."""
    try:
        return node.sql("spark")
    except ValueError:
        return node.key.upper()


def did_you_mean(
    name: str, candidates: Iterable[str], instead: str = "", similarity: float | None = None
) -> str | None:
    """A hint with the nearest candidate; ``instead`` if none is near.

    >>> did_you_mean("sise", ["pid", "size"])
    "did you mean 'size'?"
    """
    near = nearest(name, candidates, similarity)
    return f"did you mean '{near}'?" if near else instead or None


def from_sqlglot(failure: SqlglotError, text: str) -> CQLError:
    """A readable error from the parser's own."""
    if isinstance(failure, ParseError) and failure.errors:
        return _from_parse_error(failure.errors[0])
    if isinstance(failure, TokenError):
        return _from_token_error(failure, text)
    return CQLError(f"syntax error: {failure}")


def _from_parse_error(details: dict[str, Any]) -> CQLError:
    token = details.get("highlight") or ""
    line, column = details.get("line"), details.get("col")
    if line is not None and column is not None:
        column -= max(len(token) - 1, 0)
    where = f"near '{token}'" if token else "at the end of the text"
    reason = _reason(details.get("description") or "")
    return CQLError(f"syntax error {where}" + (f": {reason}" if reason else ""), line=line, column=column)


def missing_end(failure: CQLError) -> CQLError | None:
    """The error where a statement begins within another."""
    begun = re.fullmatch(r"syntax error near '(\w+)'", failure.message)
    if failure.hint or not begun or begun[1].upper() not in FIRST_WORDS:
        return None
    hint = f"if a statement begins here, write ; before {begun[1]}"
    return CQLError(failure.message, line=failure.line, column=failure.column, hint=hint)


_REASONS = (
    (re.compile(r"Invalid expression / Unexpected token"), ""),
    (re.compile(r"Required (argument|keyword):? '(\w+)' missing for .*"), "something is missing after it"),
    (re.compile(r" but got <Token.*", re.S), ""),
    (re.compile(r"^(Expect)(ed|ing)"), "expected"),
    (re.compile(r"expected table name"), "expected a stream or table"),
    (re.compile(r"expected ([^\w\s]+)$"), r"expected '\1'"),
)


def _reason(description: str) -> str:
    for pattern, text in _REASONS:
        description = pattern.sub(text, description)
    return description.strip().rstrip(".")


def _from_token_error(failure: TokenError, text: str) -> CQLError:
    missing = re.match(r"Missing (\S+) from \d+:(\d+)", str(failure.__cause__ or failure))
    what = f"a closing {missing[1]} is missing" if missing else "a string or comment is not closed"
    offset = int(missing[2]) if missing else len(text.rstrip()) - 1
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - before.rfind("\n")
    return CQLError(f"syntax error: {what}", line=line, column=column)
