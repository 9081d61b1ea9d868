"""Constraints as DDL or Python declares them, checked.

From Python a key is a name or several; ``references`` maps columns to (stream, its columns, k), with k as in
``"500 rows"`` or ``"2 seconds"``; ``clustered_by`` and ``ordered_by`` map a column to k.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from penstock.constraint import Arrival, Constraints, Reference, Within
from penstock.cql.syntax.duration import is_bare, written
from penstock.cql.syntax.errors import error
from penstock.cql.syntax.nodes import Duration, RowCount
from penstock.errors import CQLError
from penstock.functions import types
from penstock.schema import TimeDomain, sql_name

OPTIONS = ("primary_key", "references", "clustered_by", "ordered_by")
"""The options that declare constraints, as arguments of ``Session.create_stream``."""


class Source(Protocol):
    """The columns of an input, and its time."""

    @property
    def time(self) -> TimeDomain:
        """What its ticks are."""

    def column(self, given: Any, clause: str) -> pa.Field:
        """A column by its name in any case."""

    def length(self, given: Any, clause: str, least: int = 0) -> int:
        """A length of time in ticks."""


def declared_constraints(given: Mapping[str, Any], source: Source, kind: str) -> Constraints:
    """The constraints among the options of a stream or relation."""
    key = tuple(source.column(c, "PRIMARY KEY").name for c in _several(given.get("primary_key") or ()))
    references = tuple(_references(given.get("references") or (), source))
    arrivals = (*_arrivals("clustered", given, source), *_arrivals("ordered", given, source))
    for found, clause in ((references, "REFERENCES"), (arrivals, "CLUSTERED BY and ORDERED BY")):
        if found and kind == "relation":
            hint = "declare it of a stream; a relation takes PRIMARY KEY"
            raise error(f"{clause} is about the order in which rows arrive", None, hint)
    return Constraints(key, references, arrivals)


def _several(given: Any) -> Sequence[Any]:
    return [given] if isinstance(given, str) else given


def _references(given: Any, source: Source) -> Iterator[Reference]:
    for columns, target, theirs, within in _reference_parts(given):
        if len(columns) != len(theirs):
            message = f"REFERENCES names {len(theirs)} columns of '{_text(target)}' for {len(columns)}"
            raise error(message, _place(target), "name as many columns on both sides")
        own = tuple(source.column(c, "REFERENCES").name for c in columns)
        yield Reference(own, _text(target), tuple(map(_text, theirs)), _within(within, "REFERENCES", source))


def _reference_parts(given: Any) -> Iterator[tuple[Sequence[Any], Any, Sequence[Any], Any]]:
    if not isinstance(given, Mapping):
        for node in given:
            yield node.args["columns"], node.this, node.expressions, node.args.get("within")
        return
    for columns, reference in given.items():
        if isinstance(reference, str) or not 2 <= len(reference) <= 3:
            form = (
                'REFERENCES maps columns to (stream, columns of it, k), as {"pid": ("B", "pid", "2 seconds")}'
            )
            raise error(f"{form}, not to {reference!r}", None)
        target, theirs, *within = reference
        yield _several(columns), target, _several(theirs), within[0] if within else None


def _arrivals(kind: str, given: Mapping[str, Any], source: Source) -> Iterator[Arrival]:
    clause = f"{kind.upper()} BY"
    for column, within in _arrival_parts(given.get(f"{kind}_by") or ()):
        field = source.column(column, clause)
        if kind == "ordered" and not _sorts(field.type):
            message = f"ORDERED BY column '{field.name}' is {sql_name(field.type)}"
            raise error(message, _place(column), "it must be an integer, a DATE or a TIMESTAMP")
        yield Arrival(kind, field.name, _within(within, clause, source))


def _sorts(kind: pa.DataType) -> bool:
    return types.is_integer(kind) or types.is_timestamp(kind) or pa.types.is_date(kind)


def _arrival_parts(given: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(given, str):
        yield given, None
    elif isinstance(given, Mapping):
        yield from given.items()
    else:
        for node in given:
            yield (node.this, node.args.get("within")) if isinstance(node, exp.Expr) else (node, None)


def _within(given: Any, clause: str, source: Source) -> Within:
    """The adherence parameter; without one the constraint is strict."""
    if given is None:
        return Within()
    if isinstance(given, RowCount):
        return _rows(given.this.name, clause, given)
    if is_bare(given) or (isinstance(given, int | str) and str(given).strip().isdigit()):
        number = written(given) if isinstance(given, Duration) else str(given).strip()
        hint = f"write {number} ROWS, or a length of time such as {number} SECONDS"
        raise error(f"{clause} ... WITHIN {number} has no unit", _place(given), hint)
    if isinstance(given, Duration):
        return _by_time(source.length(given, f"{clause} ... WITHIN"), source)
    if found := re.fullmatch(r"\s*(\S+)\s+rows?\s*", str(given), re.IGNORECASE):
        return _rows(found[1], clause, None)
    try:
        return _by_time(source.length(given, "DISORDER"), source)
    except CQLError:
        hint = "write e.g. '500 rows' or '2 seconds'"
        raise error(
            f"{clause}: {given!r} is neither a number of rows nor a length of time", None, hint
        ) from None


def _by_time(k: int, source: Source) -> Within:
    return Within(k, length=source.time.length(k))


def _rows(number: str, clause: str, at: exp.Expr | None) -> Within:
    if not re.fullmatch(r"\d{1,9}", number):
        raise error(f"{clause} ... WITHIN {number} ROWS is not a number of rows", at, "write e.g. 500 ROWS")
    return Within(int(number), by_rows=True)


def _text(given: Any) -> str:
    return given.name if isinstance(given, exp.Expr) else str(given)


def _place(given: Any) -> exp.Expr | None:
    return given if isinstance(given, exp.Expr) else None
