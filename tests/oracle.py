"""The oracle: what a CQL query means, worked out the slow way and without Penstock.

For every instant at which the content of some window changes, the windows' contents are built in plain
Python from their definitions, put into DuckDB as one table for each FROM item with the instant as a column,
and the SQL that is left when windows and relation-to-stream operators are taken out is run over them. From
R(t) at every instant follow the changes and the I/D/R streams by bag difference.

>>> evaluate("SELECT * FROM S [ROWS 1]", {"S": [(1, {"a": 1}), (2, {"a": 2})]})
[(1, '+', {'a': 1}), (2, '+', {'a': 2}), (2, '-', {'a': 1})]
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from oracle_text import Query, take_apart

Row = dict[str, Any]
Change = tuple[int, str, Row]

TICKS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}
SECONDS = {
    "microsecond": Fraction(1, 1_000_000), "millisecond": Fraction(1, 1_000), "second": Fraction(1),
    "minute": Fraction(60), "hour": Fraction(3_600), "day": Fraction(86_400),
}  # fmt: skip
NAN = float("nan")


# Windows, by their definitions.


@dataclass
class Window:
    """``kind`` is rows, range, relation (an input of changes) or table (always there)."""

    kind: str
    size: int | None = None
    partition_by: tuple[str, ...] = ()


def read_window(text: str, unit: str) -> Window:
    """A window as written between the brackets; none is ROWS UNBOUNDED."""
    partition = re.match(r"\s*PARTITION\s+BY\s+(.*?)\s+(?=ROWS\b|RANGE\b)", text, re.IGNORECASE)
    keys = tuple(k.strip().split(".")[-1].strip('"`') for k in partition[1].split(",")) if partition else ()
    kind, *size = text[partition.end() if partition else 0 :].split() or ["ROWS", "UNBOUNDED"]
    if kind.upper() == "NOW":
        return Window("range", 0)
    if size[0].upper() == "UNBOUNDED":
        return Window("rows", None)
    if kind.upper() == "ROWS":
        return Window("rows", int(size[0]), keys)
    return Window("range", ticks(" ".join(size), unit), keys)


def ticks(text: str, unit: str) -> int:
    """A duration in ticks; a bare number is ticks already."""
    parts = re.findall(r"(\d+)\s*([a-z]*)", text.lower())
    if not parts[0][1]:
        return int(parts[0][0])
    return int(sum(int(n) * SECONDS[u.removesuffix("s")] for n, u in parts) * TICKS[unit])


def content(window: Window, elements: Sequence[tuple], instant: int) -> list[Row]:
    """What is in the window at an instant. Elements come in timestamp order, ties as they arrived."""
    if window.kind == "table":
        return list(elements)
    past = [e for e in elements if e[0] <= instant]
    if window.kind == "relation":
        return _folded(past)
    if window.kind == "range":
        return [row for ts, row in past if instant - window.size <= ts]
    rows = [row for _, row in past]
    if window.size is None:
        return rows
    if not window.partition_by:
        return rows[-window.size :]
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_value(row, key) for key in window.partition_by), []).append(row)
    return [row for group in groups.values() for row in group[-window.size :]]


def _folded(changes: Sequence[Change]) -> list[Row]:
    bag: Counter = Counter()
    for _, sign, row in changes:
        bag[tuple(row.items())] += 1 if sign == "+" else -1
    return [dict(items) for items in bag.elements()]


def _value(row: Row, name: str) -> Any:
    lower = {k.lower(): v for k, v in row.items()}
    value = lower.get(name.lower())
    return NAN if isinstance(value, float) and math.isnan(value) else value


# R at every instant that matters.


@dataclass
class Run:
    """A query over finite inputs: where its time starts and ends, and its windows by FROM item."""

    query: Query
    sources: list[list[Any]]
    windows: list[Window]
    columns: list[str]
    start: int | None = None
    end: int = 0
    instants: list[int] = field(default_factory=list)


def prepare(
    cql: str,
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None,
    unit: str,
    until: int | None,
) -> Run:
    """The run's windows, and the instants at which the content of one of them may change."""
    query = take_apart(cql)
    by_name = {name.lower(): name for name in inputs}
    names = [by_name[name.lower()] for name, _ in query.items]
    sources = [_ordered(inputs[name]) for name in names]
    windows = [_kind_of(s, w, unit) for s, (_, w) in zip(sources, query.items, strict=True)]
    columns = [_columns(inputs[name], (schemas or {}).get(name)) for name in names]
    run = Run(query, sources, windows, columns)
    stamps = {e[0] for s, w in zip(sources, windows, strict=True) if w.kind != "table" for e in s}
    if stamps:
        run.start, run.end = min(stamps), max(max(stamps), until if until is not None else min(stamps))
        leaving = {
            ts + w.size + 1
            for s, w in zip(sources, windows, strict=True)
            if w.kind == "range" and w.size is not None
            for ts, _ in s
        }
        run.instants = sorted(t for t in stamps | leaving if t <= run.end)
    return run


def _ordered(elements: Sequence[Any]) -> list[Any]:
    timed = bool(elements) and isinstance(elements[0], tuple)
    return sorted(elements, key=lambda e: e[0]) if timed else list(elements)


def _kind_of(elements: Sequence[Any], window: str, unit: str) -> Window:
    if elements and isinstance(elements[0], dict):
        return Window("table")
    if elements and len(elements[0]) == 3:
        return Window("relation")
    return read_window(window, unit)


def _columns(elements: Sequence[Any], schema: str | None) -> str:
    """Column definitions for CREATE TABLE."""
    if schema:
        return schema
    types: dict[str, str] = {}
    names = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
    for element in elements:
        for name, value in (element if isinstance(element, dict) else element[-1]).items():
            if value is not None or name not in types:
                types[name] = names.get(type(value), "VARCHAR")
    return ", ".join(f'"{name}" {type_}' for name, type_ in types.items())


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    return connection


def _load(run: Run) -> list[str]:
    """One table for each FROM item; gives the lists of their columns."""
    connection, lists = _connection(), []
    for i, (window, source) in enumerate(zip(run.windows, run.sources, strict=True)):
        connection.execute(f"CREATE OR REPLACE TABLE w{i} (inst__ BIGINT, {run.columns[i]})")
        names = [c[0] for c in connection.execute(f"FROM w{i} LIMIT 0").description][1:]
        rows = [(t, row) for t in run.instants for row in content(window, source, t)]
        data = {"inst__": [t for t, _ in rows]} | {n: [_value(r, n) for _, r in rows] for n in names}
        connection.register("loading", pa.table(data))
        connection.execute(f"INSERT INTO w{i} FROM loading")
        connection.unregister("loading")
        lists.append(", ".join(f'"{n}"' for n in names))
    return lists


def relation(run: Run, at_once: bool = True) -> dict[int, list[Row]]:
    """R at each instant of the run: by one lateral query for all instants, or by one query for each."""
    if not run.instants:
        return {}
    lists, connection = _load(run), _connection()
    at = "i.tau" if at_once else "$tau"
    sql = run.query.sql.format(*(f"(SELECT {c} FROM w{n} WHERE inst__ = {at})" for n, c in enumerate(lists)))
    result: dict[int, list[Row]] = {t: [] for t in run.instants}
    if not at_once:
        return {t: [row for _, row in _fetch(connection.execute(sql, {"tau": t}))] for t in run.instants}
    instants = ", ".join(f"({t})" for t in run.instants)
    cursor = connection.execute(f"SELECT i.tau, q.* FROM (VALUES {instants}) i(tau), LATERAL ({sql}) q")
    for tau, row in _fetch(cursor, leading=1):
        result[tau[0]].append(row)
    return result


def _fetch(cursor: duckdb.DuckDBPyConnection, leading: int = 0) -> Iterator[tuple[tuple, Row]]:
    names = _unique(c[0] for c in cursor.description)[leading:]
    for values in cursor.fetchall():
        yield values[:leading], dict(zip(names, normalise(values[leading:]), strict=True))


def _unique(names: Iterable[str]) -> list[str]:
    result: list[str] = []
    for name in names:
        count, candidate = 0, name
        while candidate.lower() in (r.lower() for r in result):
            count += 1
            candidate = f"{name}_{count}"
        result.append(candidate)
    return result


def normalise(values: Iterable[Any]) -> tuple:
    """Values in one form, whoever computed them: decimals as floats, one NaN, no minus zero."""
    return tuple(map(_normal, values))


def _normal(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


# Changes and streams, by their definitions.


def evaluate(
    cql: str,
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None = None,
    unit: str = "seconds",
    until: int | None = None,
    at_once: bool = True,
) -> list[Change]:
    """All changes of a query's result, or its stream: the counterpart of ``penstock.evaluate``."""
    run = prepare(cql, inputs, schemas, unit, until)
    contents = relation(run, at_once)
    if run.query.operator == "R":
        return list(_rstream(run, contents, ticks(run.query.every, unit) if run.query.every else 1))
    changes = list(_changes(contents))
    if run.query.operator is None:
        return changes
    shown = "+" if run.query.operator == "I" else "-"
    return [(ts, "+", row) for ts, sign, row in changes if sign == shown]


def _changes(contents: Mapping[int, list[Row]]) -> Iterator[Change]:
    before: list[Row] = []
    for instant, now in contents.items():
        yield from ((instant, "+", row) for row in _minus(now, before))
        yield from ((instant, "-", row) for row in _minus(before, now))
        before = now


def _minus(left: list[Row], right: list[Row]) -> list[Row]:
    """The difference of two bags."""
    names = list(left[0]) if left else []
    bag = Counter(tuple(r.values()) for r in left) - Counter(tuple(r.values()) for r in right)
    return [dict(zip(names, values, strict=True)) for values in bag.elements()]


def _rstream(run: Run, contents: Mapping[int, list[Row]], period: int) -> Iterator[Change]:
    if run.start is None:
        return
    for tick in range(run.start, run.end + 1):
        if tick % period == 0:
            last = run.instants[bisect_right(run.instants, tick) - 1]
            yield from ((tick, "+", row) for row in contents[last])


# Comparing.


def assert_same(actual: Iterable[Any], expected: Iterable[Change], about: Any = "") -> None:
    """Equal as bags at every instant; floats to 1e-9."""
    ours, theirs = _by_instant(actual), _by_instant(expected)
    lines = []
    for instant in sorted(ours.keys() | theirs.keys()):
        missing, extra = _differences(theirs.get(instant, []), ours.get(instant, []))
        lines += [f"  {instant:>4}  missing     {sign} {row}" for sign, row in missing]
        lines += [f"  {instant:>4}  unexpected  {sign} {row}" for sign, row in extra]
    if lines:
        raise AssertionError("\n".join([f"{about}", "differs from the oracle:", *lines]))


def _by_instant(changes: Iterable[Any]) -> dict[int, list[tuple[str, Row]]]:
    grouped: dict[int, list[tuple[str, Row]]] = {}
    for ts, sign, row in changes:
        grouped.setdefault(ts, []).append((sign, row))
    return grouped


def _differences(expected: list[tuple[str, Row]], actual: list[tuple[str, Row]]) -> tuple[list, list]:
    """What is in one and has no equal in the other."""
    if Counter(map(_key, expected)) == Counter(map(_key, actual)):
        return [], []
    left = list(actual)
    missing = []
    for wanted in expected:
        match = next((i for i, got in enumerate(left) if _same(got, wanted)), None)
        missing.append(wanted) if match is None else left.pop(match)
    return missing, left


def _key(change: tuple[str, Row]) -> tuple:
    """What is surely the same if equal; a row that differs in this may still be close enough."""
    return change[0], *((type(v), v) for v in normalise(change[1].values()))


def _same(got: tuple[str, Row], wanted: tuple[str, Row]) -> bool:
    if got[0] != wanted[0] or len(got[1]) != len(wanted[1]):
        return False
    return all(map(_close, normalise(got[1].values()), normalise(wanted[1].values())))


def _close(got: Any, wanted: Any) -> bool:
    if got is wanted:
        return True
    if isinstance(got, bool) or isinstance(wanted, bool):
        return False
    if isinstance(got, int | float) and isinstance(wanted, int | float):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return type(got) is type(wanted) and bool(got == wanted)
