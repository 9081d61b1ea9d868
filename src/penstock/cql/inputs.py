"""The options of an input, checked in one place whether DDL or Python declares them.

Each option of ``InputOptions`` has one check, listed in ``CHECKS``. A value comes as a syntax node from DDL
and as a plain value from Python. A wrong one is rejected with the same sentence, from DDL with its position.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import InputOptions
from penstock.constraint import Constraints
from penstock.cql.declared_constraints import OPTIONS as CONSTRAINTS
from penstock.cql.declared_constraints import declared_constraints
from penstock.cql.settings import AUTO_DISORDER
from penstock.cql.syntax.duration import ticks
from penstock.cql.syntax.errors import did_you_mean, error
from penstock.cql.syntax.nodes import Duration, InputDefinition
from penstock.cql.syntax.parser import parse_duration, parse_expressions
from penstock.errors import CatalogError, CQLError
from penstock.functions import types
from penstock.schema import TICKS_PER_SECOND, TIMESTAMP_TIME, TimeDomain, sql_name

BAD_ROWS = ("error", "count")


def declared_options(node: InputDefinition, schema: pa.Schema) -> InputOptions:
    """The options that CREATE STREAM or CREATE RELATION declares."""
    return _checked(node.args["kind"], node.name, schema, node.args, node)


def input_options(kind: str, name: str, schema: pa.Schema, **given: Any) -> InputOptions:
    """The options that Python declares, by the names of ``Session.create_stream``'s arguments.

    >>> input_options("stream", "S", pa.schema([("t", pa.int64())]), timestamp="T", skew="1 minute").skew
    60
    """
    try:
        return _checked(kind, name, schema, given | _adapted(given.get("skew")), None)
    except CQLError as wrong:
        message = wrong.message + (f"; {wrong.hint}" if wrong.hint else "")
        raise CatalogError(f"{kind} {name!r}: {_in_python(message)}") from None


def constraints_of(text: str, name: str, schema: pa.Schema, time: TimeDomain, kind: str) -> Constraints:
    """The constraints of an input as DDL writes them.

    >>> seconds = TimeDomain("integer", "seconds")
    >>> str(constraints_of("PRIMARY KEY (A)", "S", pa.schema([("a", pa.int64())]), seconds, "stream"))
    'PRIMARY KEY (a)'
    """
    try:
        (node,) = parse_expressions(f"CREATE STREAM s {text}")
        allowed = {"this", "kind", "columns", *CONSTRAINTS}
        if not isinstance(node, InputDefinition) or set(node.args) - allowed:
            raise CatalogError(f"constraints of {name!r} are clauses such as PRIMARY KEY (a), not {text!r}")
        return declared_constraints(node.args, _Declared(schema, time), kind)
    except CQLError as wrong:  # its place is one in a text that nobody wrote
        hint = wrong.hint or "write e.g. PRIMARY KEY (a)"
        raise CatalogError(f"constraints of {name!r}: {wrong.message}; {hint}") from None


def _adapted(disorder: Any) -> dict[str, Any]:
    """What ``disorder="auto"`` and ``"auto up to 1 minute"`` declare."""
    found = re.fullmatch(r"auto(?:\s+up\s+to\s+(.+))?", str(disorder).strip(), re.IGNORECASE)
    return {"adaptive": True, "skew": found[1] or AUTO_DISORDER} if found else {}


ARGUMENTS = {
    "TIMESTAMP BY": "timestamp", "CHANGE BY": "change", "DISORDER": "disorder", "IDLE AFTER": "idle_after",
    "HEARTBEAT BY": "heartbeat", "PRIMARY KEY": "primary_key", "REFERENCES": "references",
    "CLUSTERED BY": "clustered_by", "ORDERED BY": "ordered_by",
    "ON BAD ROWS": "bad_rows", "PARTITIONED BY": "partitioned_by", "HEAVY": "heavy", "RATE": "rate",
    "CREATE RELATION": "create_relation", "ERROR or COUNT": "'error' or 'count'",
}  # fmt: skip
"""Clauses of DDL, and what they are called in Python."""


def _in_python(message: str) -> str:
    """A message about a clause in the words of whoever wrote Python."""
    for clause, argument in ARGUMENTS.items():
        message = message.replace(clause, argument)
    message = re.sub(r"\bIN ([A-Z]+)", lambda unit: f"unit={unit[1].lower()!r}", message)
    return message.replace("; add ", "; give ").replace("; write create_", "; call create_")


@dataclass(frozen=True)
class _Declared:
    """The context of option values: the source's columns, and the length of a tick."""

    schema: pa.Schema
    time: TimeDomain = TimeDomain()

    def column(self, given: Any, clause: str) -> pa.Field:
        """The column as the source spells it; case does not matter."""
        name = _text(given)
        found = [f for f in self.schema if f.name.casefold() == name.casefold()]
        if not found:
            columns = f"the columns are {', '.join(self.schema.names)}"
            hint = did_you_mean(name, self.schema.names, columns)
            raise error(f"{clause} names an unknown column '{name}'", _place(given), hint)
        return found[0]

    def length(self, given: Any, clause: str, least: int = 0) -> int:
        """A length of time in ticks."""
        if isinstance(given, dt.timedelta):
            given = f"{given // dt.timedelta(microseconds=1)} microseconds"
        duration = given if isinstance(given, Duration) else parse_duration(str(given), clause)
        return ticks(duration, self.time, clause, least)


def _checked(
    kind: str, name: str, schema: pa.Schema, given: Mapping[str, Any], at: exp.Expr | None
) -> InputOptions:
    if given.get("timestamp") is None:
        hint = "add TIMESTAMP BY with the column that holds the time"
        raise error(f"{kind} '{name}' has no timestamp", at, hint)
    _check_change(kind, name, given.get("change"), at)
    if arrival := _on_arrival(given["timestamp"], schema):
        _check_arrival(given)
        timestamp, time = None, TIMESTAMP_TIME
    else:
        column = _Declared(schema).column(given["timestamp"], "TIMESTAMP BY")
        timestamp, time = column.name, _time(column, given["timestamp"], given.get("unit"))
    source = _Declared(schema, time)
    checked = {o: check(given[o], source) for o, check in CHECKS.items() if given.get(o) is not None}
    constraints = declared_constraints(given, source, kind)
    options = InputOptions(time, timestamp, arrival=arrival, constraints=constraints, **checked)
    if kind == "relation" and {f.name for f in schema} <= {timestamp, options.change, options.heartbeat}:
        raise error(f"relation '{name}' has no column but its time and its changes", at)
    return options


def _on_arrival(given: Any, schema: pa.Schema) -> bool:
    """Whether ARRIVAL stands for the time of a row's batch: it is no column, and not in backticks."""
    quoted = isinstance(given, exp.Identifier) and given.quoted
    names = {name.casefold() for name in schema.names}
    return not quoted and _text(given).casefold() == "arrival" and "arrival" not in names


def _check_arrival(given: Mapping[str, Any]) -> None:
    at = _place(given["timestamp"])
    if given.get("unit") is not None:
        raise error("TIMESTAMP BY ARRIVAL is a TIMESTAMP and takes no unit", at, "leave the unit out")
    if given.get("skew") is not None:
        raise error("rows with TIMESTAMP BY ARRIVAL come in order", at, "leave DISORDER out")


def _check_change(kind: str, name: str, given: Any, at: exp.Expr | None) -> None:
    if kind == "relation" and given is None:
        hint = "add CHANGE BY with the column that holds '+' or '-'"
        raise error(f"relation '{name}' has no change column", at, hint)
    if kind == "stream" and given is not None:
        hint = "write CREATE RELATION, or leave CHANGE BY out"
        raise error(f"stream '{name}' has only insertions", _place(given), hint)


def _time(column: pa.Field, given: Any, unit: Any) -> TimeDomain:
    if types.is_integer(column.type):
        return TimeDomain("integer", _unit(unit))
    if not types.is_timestamp(column.type):
        message = f"TIMESTAMP BY column '{column.name}' is {sql_name(column.type)}"
        hint = "it must be a TIMESTAMP or an integer"
        if types.is_string(column.type):
            hint += "; declare it as TIMESTAMP, which readers of files and messages parse, or convert a "
            hint += "DataFrame's with to_timestamp"
        raise error(message, _place(given), hint)
    if unit is not None and _unit(unit) != TIMESTAMP_TIME.unit:
        message = f"IN {_text(unit).upper()} is for integer timestamps, and '{column.name}' is a TIMESTAMP"
        raise error(message, _place(unit), "leave the unit out")
    return TIMESTAMP_TIME


def _unit(given: Any) -> str:
    if given is None:
        return "seconds"
    name = f"{_text(given).lower().removesuffix('s')}s"
    if name not in TICKS_PER_SECOND:
        hint = f"use {', '.join(TICKS_PER_SECOND).upper()}"
        raise error(f"unknown unit of time '{_text(given)}'", _place(given), hint)
    return name


def _change(given: Any, source: _Declared) -> str:
    column = source.column(given, "CHANGE BY")
    if not types.is_string(column.type):
        message = f"CHANGE BY column '{column.name}' is {sql_name(column.type)}"
        raise error(message, _place(given), "it must be a STRING that holds '+' or '-'")
    return str(column.name)


def _heartbeat(given: Any, source: _Declared) -> str:
    column = source.column(given, "HEARTBEAT BY")
    if not pa.types.is_boolean(column.type):
        message = f"HEARTBEAT BY column '{column.name}' is {sql_name(column.type)}"
        raise error(message, _place(given), "it must be BOOLEAN")
    return str(column.name)


def _bad_rows(given: Any, source: _Declared) -> str:
    policy = _text(given).lower()
    if policy not in BAD_ROWS:
        raise error("ON BAD ROWS takes ERROR or COUNT", _place(given))
    return policy


def _rate(given: Any, source: _Declared) -> float:
    try:
        rate = float(_text(given))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise error(f"RATE {_text(given)} is out of bounds", _place(given), "it must be greater than 0")
    return rate


def _partitioned_by(given: Any, source: _Declared) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    return tuple(source.column(n, "PARTITIONED BY").name for n in names)


def _heavy(given: Any, source: _Declared) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    pairs = given.items() if isinstance(given, Mapping) else ((h.this, h.expressions) for h in given)
    heavy: dict[str, tuple[Any, ...]] = {}
    for name, values in pairs:
        column = source.column(name, "HEAVY")
        heavy[column.name] = (*heavy.get(column.name, ()), *(_heavy_value(v, column) for v in values))
    return tuple(heavy.items())


def _heavy_value(given: Any, column: pa.Field) -> object:
    value = _literal(given) if isinstance(given, exp.Expr) else given
    try:
        return pa.scalar(value).cast(column.type).as_py()
    except pa.ArrowException:
        hint = f"it is {sql_name(column.type)}"
        raise error(f"'{value}' is not a value of column '{column.name}'", _place(given), hint) from None


def _literal(node: exp.Expr) -> str:
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal | exp.Boolean):
        raise error("HEAVY takes values: numbers, text in quotes, TRUE or FALSE", node)
    return ("-" if negative else "") + str(literal.this)


CHECKS: dict[str, Callable[[Any, _Declared], Any]] = {
    "change": _change,
    "skew": lambda given, source: source.length(given, "DISORDER"),
    "idle_after": lambda given, source: source.length(given, "IDLE AFTER", least=1),
    "adaptive": lambda given, source: bool(given),
    "heartbeat": _heartbeat,
    "bad_rows": _bad_rows,
    "rate": _rate,
    "partitioned_by": _partitioned_by,
    "heavy": _heavy,
}
"""Per option, a function from the given value to that in ``InputOptions``; time and timestamp come first."""


def _text(given: Any) -> str:
    return given.name if isinstance(given, exp.Expr) else str(given)


def _place(given: Any) -> exp.Expr | None:
    return given if isinstance(given, exp.Expr) else None
