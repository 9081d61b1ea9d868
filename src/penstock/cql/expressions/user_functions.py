"""Functions that users register: Python over Arrow arrays, under names that CQL itself does not use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import FunctionDef
from penstock.cql.expressions.functions import REFUSED
from penstock.cql.statements import schema_of
from penstock.cql.syntax.dialect import RELATION_TO_STREAM
from penstock.cql.syntax.parser import parse_expressions
from penstock.errors import CatalogError, CQLError
from penstock.expression import OwnAggregate, RowByRow
from penstock.functions import called
from penstock.functions.aggregates import aggregate


def _is_taken(name: str) -> bool:
    """Whether CQL itself uses a name."""
    words = {*REFUSED, *map(str.lower, RELATION_TO_STREAM), "date_part"}
    return name in words or called(name) is not None or aggregate(name) is not None


def define_function(
    name: str, function: Callable[..., Any], returns: str, scalar: bool = False
) -> FunctionDef:
    """The catalog's entry of a function that returns values of the SQL type ``returns``.

    It is vectorised, or with ``scalar`` takes and returns single values.
    """
    _check_callable(name, "", function)
    _check_name(name)
    return FunctionDef(name, _type(name, returns), RowByRow(function) if scalar else function)


def define_aggregate(
    name: str,
    returns: str,
    state: str,
    add: Callable[..., Any],
    merge: Callable[..., Any],
    finish: Callable[..., Any],
    remove: Callable[..., Any] | None = None,
) -> FunctionDef:
    """The catalog's entry of an aggregate whose states have the columns ``state``, as in CREATE STREAM."""
    for part, function in (("add", add), ("merge", merge), ("finish", finish), ("remove", remove)):
        if part != "remove" or function is not None:
            _check_callable(name, f"{part}=", function)
    _check_name(name)
    type_ = _type(name, returns)
    try:
        columns = schema_of(state)
    except (CQLError, ValueError):
        hint = "write e.g. 'n BIGINT, total DOUBLE'"
        raise CatalogError(f"aggregate {name!r}: state {state!r} is not columns with types; {hint}") from None
    return FunctionDef(name, type_, OwnAggregate(name, type_, columns, add, merge, finish, remove))


def _check_callable(name: str, part: str, function: object) -> None:
    if not callable(function):
        raise CatalogError(f"function {name!r}: {part}{function!r} cannot be called; pass a function")


def _check_name(name: str) -> None:
    if _is_taken(name.lower()):
        raise CatalogError(f"{name.upper()} is a function of CQL already; choose another name for yours")
    if not _can_be_called(name):
        raise CatalogError(f"a query cannot call a function by the name {name!r}; choose another")


def _can_be_called(name: str) -> bool:
    """Whether ``name(1)`` parses as a call of it, and not as a construct such as CAST."""
    try:
        (query,) = parse_expressions(f"SELECT {name}(1)")
    except (CQLError, ValueError):
        return False
    items = query.expressions if isinstance(query, exp.Select) else []
    return len(items) == 1 and isinstance(items[0], exp.Anonymous) and items[0].name == name


def _type(name: str, returns: str) -> pa.DataType:
    try:
        (column,) = schema_of(f"x {returns}")
    except (CQLError, ValueError):
        hint = "types are Spark's, e.g. BIGINT or STRING"
        raise CatalogError(f"function {name!r} returns {returns!r}, which is not a type; {hint}") from None
    return column.type
