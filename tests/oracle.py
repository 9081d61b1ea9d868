"""The oracle: what a CQL query means, worked out the slow way and without Penstock.

For every instant at which the content of some window changes, the windows' contents are built in plain
Python from their definitions, put into DuckDB as one table for each FROM item with the instant as a column,
and the SQL that is left when windows and relation-to-stream operators are taken out is run over them. From
R(t) at every instant follow the changes and the I/D/R streams by bag difference. A query that stands where a
stream may stand is worked out first, by the same definitions, and its elements are then a stream like others.

>>> evaluate("SELECT * FROM S [ROWS 1]", {"S": [(1, {"a": 1}), (2, {"a": 2})]})
[(1, '+', {'a': 1}), (2, '+', {'a': 2}), (2, '-', {'a': 1})]
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from oracle_between import windows_between
from oracle_compare import assert_same, differences
from oracle_text import ALL, HIDDEN, ROW, Query, take_apart
from oracle_windows import (
    Change,
    Row,
    Undetermined,
    Window,
    by_columns,
    content,
    moves,
    normalise,
    read_window,
    settle,
    ticks,
    value,
)

__all__ = ["Change", "Undetermined", "assert_same", "differences", "evaluate", "normalise"]


@dataclass(frozen=True)
class Source:
    """A FROM item with all its elements: the window, and its columns as CREATE TABLE has them."""

    window: Window
    elements: list[Any]
    columns: str


@dataclass
class World:
    """The finite inputs, and where time starts and ends: the same for every query within the query."""

    inputs: Mapping[str, Sequence[Any]]
    schemas: Mapping[str, str]
    unit: str
    stamps: set[int]
    end: int
    at_once: bool = True
    begins: int | None = None
    opens: int | None = None
    """The first instant that is shown, with all that is there then."""

    @property
    def start(self) -> int:
        return min(self.stamps) if self.begins is None else self.begins


def evaluate(
    cql: str,
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None = None,
    unit: str = "seconds",
    until: int | None = None,
    at_once: bool = True,
    begins: int | None = None,
    opens: int | None = None,
) -> list[Change]:
    """All changes of a query's result, or its stream: the counterpart of ``penstock.evaluate``.

    ``unit`` may also be "timestamps": microseconds of a TIMESTAMP column. ``at_once``: all instants by one
    lateral query, or by a query for each. ``begins``: the first instant, if it is not that of the first row.
    ``opens``: the first instant that is shown: as changes then, R of it.
    """
    query = take_apart(cql)
    by_name = {name.lower(): list(rows) for name, rows in inputs.items()}
    timed = [rows for name in set(query.names()) if not _is_table(rows := by_name[name.lower()])]
    stamps = [element[0] for rows in timed for element in rows]
    if not stamps and (begins is None or until is None):
        return []
    lower = {name.lower(): schema for name, schema in (schemas or {}).items()}
    end = max([*stamps, *([] if until is None else [until])])
    world = World(by_name, lower, unit, set(stamps), end, at_once, begins, opens)
    return _result(query, world, outermost=True)[0]


def _is_table(rows: Sequence[Any]) -> bool:
    return bool(rows) and isinstance(rows[0], dict)


def _result(query: Query, world: World, outermost: bool = False) -> tuple[list[Change], str]:
    """A query's changes, or its stream as changes that are all +; and its columns."""
    query = _with_windows(query, world)
    sources = [_source(item.source, item.window, world) for item in query.items]
    if HIDDEN in query.sql:
        if re.search(r"(SELECT|DISTINCT|\.) ?\*", query.sql):
            raise Undetermined("* would show the hidden time")
        sources = [_timed(source) for source in sources]
    if query.operator == ALL:
        sources = [_named(source, f"{n}.") for n, source in enumerate(sources)]
    instants = {t for s in sources for t in moves(s.window, s.elements, world.start, world.end)}
    contents, columns = _relation(query.sql, sources, sorted(instants | {world.start}), world.at_once)
    if outermost and world.opens is not None:
        contents = _opened(contents, world.opens)
        world = replace(world, begins=world.opens)
    if query.operator == "R":
        return list(_rstream(contents, world, query.every)), columns
    changes = list(_changes(contents))
    if query.operator is None:
        return changes, columns
    if query.operator == ALL:
        for _, _, row in changes:
            row.pop(ROW)
        columns = columns.removeprefix(f'"{ROW}" VARCHAR, ')
    shown = "-" if query.operator == "D" else "+"
    return [(ts, "+", row) for ts, sign, row in changes if sign == shown], columns


def _opened(contents: Contents, first: int) -> Contents:
    """R at an instant, and from then on."""
    before = [t for t in contents if t <= first]
    there = {first: contents[before[-1]] if before else []}
    return there | {t: rows for t, rows in contents.items() if t > first}


def _with_windows(query: Query, world: World) -> Query:
    """The query with the windows between its streams as windows of streams and conditions on timestamps."""
    sql, items = query.sql, list(query.items)
    for number, between in enumerate(query.between):
        streams = {a: n for a, n in between.items.items() if _is_stream(items[n].source, world)}
        unset = [a for a, n in streams.items() if not items[n].window]
        found = windows_between(between.words, list(streams), unset, lambda text: ticks(text, world.unit))
        for alias, reach in found.reach.items():
            n = streams[alias]
            items[n] = replace(items[n], window=items[n].window or f"RANGE {reach}")
        times = {a: f"{a}.{HIDDEN}" for a in streams}
        sql = sql.replace(f"WINDOW__{number}", found.condition(times))
    return replace(query, sql=sql, items=items)


def _is_stream(source: str | Query, world: World) -> bool:
    if isinstance(source, Query):
        return True
    rows = world.inputs[source.lower()]
    return not _is_table(rows) and not (rows and len(rows[0]) == 3)


def _source(source: str | Query, window: str, world: World) -> Source:
    if isinstance(source, Query):
        changes, columns = _result(source, world)
        derived = _under(read_window(window, world.unit), [(ts, row) for ts, _, row in changes], columns)
        if _in_arrival_order(source):
            settle(derived.window, derived.elements, sorted({ts for ts, _ in derived.elements}))
        return replace(derived, elements=by_columns(derived.elements))
    rows = world.inputs[source.lower()]
    columns = world.schemas.get(source.lower()) or _columns(rows)
    if _is_table(rows):
        return Source(Window("table"), list(rows), columns)
    ordered = sorted(rows, key=lambda e: e[0])
    relation = bool(rows) and len(rows[0]) == 3
    return _under(Window("relation") if relation else read_window(window, world.unit), ordered, columns)


def _in_arrival_order(query: Query) -> bool:
    """Whether a query may give a stream's rows as they come; all others have ties by their columns."""
    windows = {item.window.upper().removeprefix("ROWS ").removeprefix("RANGE ") for item in query.items}
    return query.operator in ("I", ALL) and len(query.items) == 1 and windows <= {"", "UNBOUNDED"}


def _under(window: Window, elements: list[Any], columns: str) -> Source:
    """Elements under a window, which may add its bounds to their columns."""
    bounds = ', "window_start" BIGINT, "window_end" BIGINT' if window.bounded else ""
    return Source(window, elements, columns + bounds)


def _timed(source: Source) -> Source:
    """A source with the timestamps of its rows as a column, if it is a stream."""
    elements = source.elements
    if source.window.kind not in ("table", "relation"):
        elements = [(ts, {**row, HIDDEN: ts}) for ts, row in elements]
    return Source(source.window, elements, f'{source.columns}, "{HIDDEN}" BIGINT')


def _named(source: Source, prefix: str) -> Source:
    """A source whose rows have names, by which no two of them are equal."""
    named: list[Any] = []
    for number, element in enumerate(source.elements):
        row = element if isinstance(element, dict) else element[-1]
        row = {**row, ROW: f"{prefix}{number}"}
        named.append(row if isinstance(element, dict) else (*element[:-1], row))
    return Source(source.window, named, f'{source.columns}, "{ROW}" VARCHAR')


def _columns(elements: Sequence[Any]) -> str:
    """Column definitions for CREATE TABLE, from the values."""
    types: dict[str, str] = {}
    names = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
    for element in elements:
        for name, found in (element if isinstance(element, dict) else element[-1]).items():
            if found is not None or name not in types:
                types[name] = names.get(type(found), "VARCHAR")
    return ", ".join(f'"{name}" {type_}' for name, type_ in types.items())


# R at every instant that matters, by DuckDB.


@cache
def _connection(optimizer: bool = False) -> duckdb.DuckDBPyConnection:
    """DuckDB as it comes in, or without its optimizer, which has more to go wrong than to win here."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    if not optimizer:
        connection.execute("PRAGMA disable_optimizer")
    return connection


def _load(
    connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], instants: Sequence[int]
) -> list[str]:
    """One table ``w0``, ``w1``, ... for each FROM item; gives the lists of their columns."""
    lists = []
    for i, source in enumerate(sources):
        types = _types(source.columns)
        rows = [(t, row) for t in instants for row in content(source.window, source.elements, t)]
        data = [pa.array([t for t, _ in rows], pa.int64())]
        data += [pa.array([_fit(value(row, n), t) for _, row in rows], t) for n, t in types]
        connection.register(f"w{i}", pa.Table.from_arrays(data, names=["inst__", *(n for n, _ in types)]))
        lists.append(", ".join(f'"{n}"' for n, _ in types))
    return lists


@cache
def _types(columns: str) -> list[tuple[str, pa.DataType]]:
    """Column definitions as Arrow types; DuckDB reads them."""
    connection = _connection()
    plain = columns.replace("TIMESTAMP_NTZ", "TIMESTAMP")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE reading ({plain})")
    schema = connection.sql("FROM reading").to_arrow_table().schema
    return [(f.name, f.type) for f in schema]


def _fit(found: Any, type_: pa.DataType) -> Any:
    """A normalised value for a column: a decimal was made a float, a time has no zone."""
    if isinstance(found, dt.datetime):
        return found.replace(tzinfo=None)
    return Decimal(str(found)) if pa.types.is_decimal(type_) and found is not None else found


Contents = dict[int, list[Row]]


def _relation(
    sql: str, sources: Sequence[Source], instants: list[int], at_once: bool
) -> tuple[Contents, str]:
    """R at each instant, and its columns. What DuckDB stumbles over it is asked again in another way.

    All instants at once are a LATERAL join, where DuckDB 2.0 loses a DISTINCT aggregate's row for nothing.
    """
    at_once = at_once and not re.search(r"\bSELECT\s+DISTINCT\b", sql, re.IGNORECASE)
    ways = [(True, False)] * at_once + [(False, False), (False, True)]
    for all_at_once, optimizer in ways:
        connection = _connection(optimizer)
        try:
            lists = _load(connection, sources, instants)
            ask = _at_once if all_at_once else _one_by_one
            return ask(connection, sql, lists, instants)
        except (duckdb.NotImplementedException, duckdb.BinderException) as failure:
            reason = failure
        except duckdb.InternalException as failure:
            _connection.cache_clear()  # it takes no more questions
            reason = failure
    if isinstance(reason, duckdb.InternalException):
        raise Undetermined("DuckDB has no answer") from reason
    raise reason


def _over(sql: str, lists: Sequence[str], instant: str) -> str:
    """The SQL over the windows' contents at an instant."""
    return sql.format(*(f"(SELECT {c} FROM w{n} WHERE inst__ = {instant})" for n, c in enumerate(lists)))


def _at_once(
    connection: duckdb.DuckDBPyConnection, sql: str, lists: Sequence[str], instants: list[int]
) -> tuple[Contents, str]:
    values = ", ".join(f"({t})" for t in instants)
    lateral = f"LATERAL ({_over(sql, lists, 'i.tau')}) q"
    cursor = connection.execute(f"SELECT i.tau, q.* FROM (VALUES {values}) i(tau), {lateral}")
    columns = _description(cursor.description[1:])
    result: Contents = {t: [] for t in instants}
    for tau, row in _fetch(cursor, leading=1):
        result[tau[0]].append(row)
    return result, columns


def _one_by_one(
    connection: duckdb.DuckDBPyConnection, sql: str, lists: Sequence[str], instants: list[int]
) -> tuple[Contents, str]:
    result, columns = Contents(), ""
    for instant in instants:
        cursor = connection.execute(_over(sql, lists, f"CAST({instant} AS BIGINT)"))
        columns = _description(cursor.description)
        result[instant] = [row for _, row in _fetch(cursor)]
    return result, columns


def _description(description: Sequence[tuple]) -> str:
    names = _unique(c[0] for c in description)
    types = (str(c[1]) for c in description)
    plain = {"HUGEINT": "BIGINT", '"NULL"': "INTEGER"}
    return ", ".join(f'"{n}" {plain.get(t, t)}' for n, t in zip(names, types, strict=True))


def _fetch(cursor: duckdb.DuckDBPyConnection, leading: int = 0) -> Iterator[tuple[tuple, Row]]:
    names = _unique(c[0] for c in cursor.description[leading:])
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


# Changes and streams, by their definitions.


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


def _rstream(contents: Mapping[int, list[Row]], world: World, every: str) -> Iterator[Change]:
    """At every tick or at multiples of a period; of TIMESTAMP time, at the instants with input."""
    period = ticks(every, world.unit) if every else 1
    instants = list(contents)
    for tick in range(world.start, world.end + 1):
        if tick % period == 0 and (every or world.unit != "timestamps" or tick in world.stamps):
            last = instants[bisect_right(instants, tick) - 1]
            yield from ((tick, "+", row) for row in contents[last])
