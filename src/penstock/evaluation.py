"""``penstock.evaluate``: all changes of a query over finite inputs given as Python values."""

from __future__ import annotations

import datetime as dt
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral
from typing import Any

import pyarrow as pa

from penstock import cql as language
from penstock.catalog import Catalog, FunctionDef, Input, InputOptions, TableDef, check_count
from penstock.engine.stage import SIGN, TS
from penstock.errors import CatalogError, DataError
from penstock.in_process import InProcessRun
from penstock.measurement import measured
from penstock.plan.compile import compile
from penstock.plan.physical import PhysicalPlan
from penstock.schema import INTERVAL, MOST_TICKS, TIMESTAMP, TimeDomain, sql_name
from penstock.settings import Settings
from penstock.streamon.advice import violated

_log = logging.getLogger("penstock")

Row = dict[str, Any]
Change = tuple[int, str, Row]
"""An instant, ``"+"`` or ``"-"``, and the row that enters or leaves."""

_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.datetime: TIMESTAMP,
    dt.date: pa.date32(),
    dt.timedelta: INTERVAL,
    Decimal: pa.decimal128(38, 18),
}

_SIGNS = {"+": 1, "-": -1}
_TEXTS = {"schemas": "a INT, b STRING", "constraints": "PRIMARY KEY (a)"}
"""Arguments that map names of inputs to text, and an example of it."""
_FUNCTION = (
    "give (function, 'INT') with the type it returns, (function, 'INT', True) if it takes single values, "
    "or a dict of create_aggregate's arguments"
)
_BEFORE = "only CREATE VIEW, CREATE STREAM ... AS and SET may stand before the query of evaluate"


Function = tuple[Callable[..., Any], str] | dict[str, Any]
"""A vectorised function and the SQL type of what it returns; or the parts of an aggregate by name."""


@dataclass(frozen=True)
class Finite:
    """Finite inputs in timestamp order, and static tables.

    Among ``streams`` are the relations too: a stream's table has ``TS`` first, a relation's ``TS`` and
    ``SIGN``.
    """

    streams: dict[str, pa.Table]
    tables: dict[str, pa.Table]
    time: TimeDomain
    constraints: Mapping[str, str] = field(default_factory=dict)

    def catalog(self) -> Catalog:
        """The catalog of the inputs; elements carry their time, and their sign, beside the row."""
        found = Catalog()
        for name, rows in self.streams.items():
            kind = "relation" if SIGN in rows.schema.names else "stream"
            found.add(Input(name, own_columns(rows.schema), self.options(name), kind))
        for name, rows in self.tables.items():
            found.add(TableDef(name, rows.schema))
        return found

    def options(self, name: str) -> InputOptions:
        """The options of a stream or relation."""
        rows, text = self.streams[name].schema, self.constraints.get(name, "")
        kind = "relation" if SIGN in rows.names else "stream"
        obeyed = language.constraints_of(text, name, own_columns(rows), self.time, kind)
        return InputOptions(self.time, constraints=obeyed)

    def last_instant(self, until: int | None) -> int | None:
        """Where time ends: ``until``, or the last timestamp of any stream if that is later."""
        stamps = [t.column(TS)[-1].as_py() for t in self.streams.values() if t.num_rows]
        return max([*stamps, *([] if until is None else [until])], default=None)

    def slices(self, count: int) -> Iterable[dict[str, pa.Table]]:
        """All streams' rows in timestamp order, cut into about equal parts."""
        ordered = sorted(
            (ts, order, row, name)
            for order, (name, table) in enumerate(self.streams.items())
            for row, ts in enumerate(table.column(TS).to_pylist())
        )
        fed = dict.fromkeys(self.streams, 0)
        for number in range(count):
            part = ordered[len(ordered) * number // count : len(ordered) * (number + 1) // count]
            sizes = {name: sum(p[3] == name for p in part) for name in self.streams}
            yield {n: self.streams[n].slice(fed[n], size) for n, size in sizes.items()}
            fed = {n: fed[n] + sizes[n] for n in fed}


def evaluate(
    cql: str,
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None = None,
    unit: str = "seconds",
    until: int | None = None,
    on: str = "engine",
    partitions: int = 1,
    batches: int = 3,
    functions: Mapping[str, Function] | None = None,
    constraints: Mapping[str, str] | None = None,
) -> list[Change]:
    """All changes of a query's result over finite inputs, ordered by time, net per instant, - before +.

    CREATE VIEW, CREATE STREAM ... AS and SET may stand before the query, with ``;`` between. An input is a
    stream of ``(ts, row)``, a relation of ``(ts, "+" or "-", row)`` or a static table of rows; ``schemas``
    gives types in SQL where they cannot be inferred from the rows. Time ends at the last row, or at
    ``until``. ``on="spark"`` runs the same on Spark; ``batches`` is the number of micro-batches, which does
    not change the result. ``functions`` are user functions as ``Session.create_function`` takes them: a
    function and the type that it returns, by name; or the arguments of ``Session.create_aggregate``, as a
    dict. ``constraints`` are those that inputs obey, as in CREATE STREAM: ``{"S": "PRIMARY KEY (a)"}``;
    rows that violate them, and what is rarely meant, are logged as warnings.

    >>> evaluate("SELECT * FROM S [ROWS 1]", {"S": [(1, {"a": 1}), (2, {"a": 2})]})
    [(1, '+', {'a': 1}), (2, '-', {'a': 1}), (2, '+', {'a': 2})]
    """
    if not isinstance(cql, str):
        raise CatalogError(f"evaluate takes the text of a query, not {cql!r}")
    check_count("partitions", partitions)
    check_count("batches", batches)
    if until is not None and not _is_instant(until):
        raise CatalogError(f"until={until!r} is not an instant; it must be a whole number below 2^61")
    finite = read_inputs(inputs, schemas or {}, TimeDomain("integer", unit), constraints or {})
    if not isinstance(functions or {}, Mapping):
        raise CatalogError(f"functions maps names to functions, and is not {functions!r}; {_FUNCTION}")
    own = [_own(name, given) for name, given in (functions or {}).items()]
    if on == "spark":
        from penstock.spark.driver.evaluate import run

        return run(cql, finite, own, until, partitions, batches)
    if on != "engine":
        raise CatalogError(f"on={on!r} is unknown; use 'engine' or 'spark'")
    plan = plan_of(cql, finite.catalog(), own, partitions)
    return _run(plan, finite, until, batches)


def _own(name: str, given: Function) -> FunctionDef:
    """A function or an aggregate from the arguments of what defines it."""
    named = given if isinstance(given, Mapping) else {}
    parts = () if named else given if isinstance(given, Sequence) else (given,)
    define: Callable[..., FunctionDef] = language.define_aggregate if named else language.define_function
    try:
        inspect.signature(define).bind(name, *parts, **named)
    except TypeError as error:
        raise CatalogError(f"function {name!r}: {error}; {_FUNCTION}") from None
    return define(name, *parts, **named)


def plan_of(script: str, catalog: Catalog, functions: Iterable[FunctionDef], partitions: int) -> PhysicalPlan:
    """The plan of a query that views, streams and settings may precede; they are added to the catalog."""
    for function in functions:
        catalog.add(function)
    settings, statements = Settings(), language.parse(script)
    if not statements or not isinstance(query := statements.pop(), language.SelectStatement):
        raise CatalogError("evaluate needs a query at the end of the text; add a SELECT")
    for statement in statements:
        match statement:
            case language.CreateView():
                catalog.add(language.define_view(statement, catalog), statement.if_taken)
            case language.Set():
                settings = settings.changed(statement.name, statement.value)
            case language.SelectStatement():
                raise CatalogError("evaluate runs one query; call it once for each SELECT")
            case _:
                raise CatalogError(f"{_BEFORE}; give streams, relations and tables as inputs")
    return compile(language.bind(query, catalog), partitions, settings)


def _run(plan: PhysicalPlan, finite: Finite, until: int | None, batches: int) -> list[Change]:
    end = finite.last_instant(until)
    for warning in plan.warnings:
        _log.warning("%s", warning)
    if end is None:
        return []
    local = InProcessRun(plan, finite.tables)
    parts: list[pa.RecordBatch] = []
    for part in finite.slices(batches):
        parts += local.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows})
    parts += local.end(end)
    for warning in violated(measured(m for of in local.engines for e in of for m in e.measure())).values():
        _log.warning("%s", warning)
    found = (change for batch in parts for change in changes(batch, plan.schema.names))
    return in_order(c for c in found if c[0] <= end)


def in_order(found: Iterable[Change]) -> list[Change]:
    """Changes by their instants, in each of which what leaves comes before what enters."""
    return sorted(found, key=lambda change: (change[0], change[1] == "+"))


def changes(batch: pa.RecordBatch, names: Sequence[str]) -> Iterable[Change]:
    """A batch of elements as Python values."""
    stamps, signs = batch.column(TS).to_pylist(), batch.column(SIGN).to_pylist()
    columns = [_values(batch.column(name), name) for name in names]
    rows = zip(*columns, strict=True) if names else [()] * len(stamps)
    for ts, sign, row in zip(stamps, signs, rows, strict=True):
        yield ts, "+" if sign > 0 else "-", dict(zip(names, row, strict=True))


def _values(column: pa.Array, name: str) -> list[Any]:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        instead = f"cast it to STRING or write UNIX_MICROS({name})"
        raise DataError(f"column {name!r} has a time outside the years 1 to 9999; {instead}") from None


def read_inputs(
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str],
    time: TimeDomain,
    constraints: Mapping[str, str] | None = None,
) -> Finite:
    """Classify inputs as streams, relations and tables, infer their types, and sort by time."""
    constraints = constraints or {}
    if not isinstance(inputs, Mapping):
        raise CatalogError(f"inputs maps names to lists of rows, and is not {inputs!r:.40}")
    for argument, names in (("schemas", schemas), ("constraints", constraints)):
        if not isinstance(names, Mapping) or not all(isinstance(text, str) for text in names.values()):
            form = f"names of inputs to text, such as {{'S': {_TEXTS[argument]!r}}}"
            raise CatalogError(f"{argument} maps {form}, and is not {names!r}")
        if unknown := [name for name in names if name not in inputs]:
            among = f"which is not among the inputs {', '.join(inputs)}"
            raise CatalogError(f"{argument} names {unknown[0]!r}, {among}")
    streams: dict[str, pa.Table] = {}
    tables: dict[str, pa.Table] = {}
    for name, rows in inputs.items():
        if not isinstance(name, str) or not isinstance(rows, Sequence) or isinstance(rows, str):
            raise CatalogError(f"inputs maps names to lists of rows, not {name!r} to {rows!r}")
        schema = language.schema_of(schemas[name]) if name in schemas else None
        if rows and isinstance(rows[0], Mapping):
            tables[name] = _table(name, rows, schema)
        else:
            streams[name] = _stream(name, rows, schema)
    if of_table := [name for name in constraints if name in tables]:
        raise CatalogError(f"constraints names {of_table[0]!r}, which is a table; they are for streams")
    return Finite(streams, tables, time, constraints)


def _stream(name: str, elements: Sequence[Any], schema: pa.Schema | None) -> pa.Table:
    for element in elements:
        if not isinstance(element, Sequence) or len(element) < 2 or not _is_instant(element[0]):
            form = "(ts, row), or (ts, '+' or '-', row) for a relation, with ts a whole number below 2^61"
            raise CatalogError(f"an element of {name!r} is {form}, not {element!r}")
    ordered = sorted(elements, key=lambda e: e[0])
    table = _table(name, [e[-1] for e in ordered], schema)
    if ordered and len(ordered[0]) == 3:
        signs = pa.array([_sign(name, e) for e in ordered], pa.int8())
        table = table.add_column(0, pa.field(SIGN, pa.int8()), [signs])
    return table.add_column(0, pa.field(TS, pa.int64()), [pa.array([e[0] for e in ordered], pa.int64())])


def _is_instant(ts: object) -> bool:
    return isinstance(ts, Integral) and not isinstance(ts, bool) and abs(int(ts)) < MOST_TICKS


def _sign(name: str, element: Sequence[Any]) -> int:
    if len(element) != 3 or element[1] not in _SIGNS:
        raise CatalogError(f"an element of relation {name!r} is (ts, '+' or '-', row), not {element!r}")
    return _SIGNS[element[1]]


def own_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a stream's or relation's rows alone."""
    return pa.schema([f for f in schema if f.name not in (TS, SIGN)])


def _table(name: str, rows: Sequence[Row], schema: pa.Schema | None) -> pa.Table:
    for row in rows:
        if not isinstance(row, Mapping) or not all(isinstance(column, str) for column in row):
            raise CatalogError(f"a row of input {name!r} maps names of columns to values, not {row!r}")
    inferred = schema is None
    schema = _inferred(name, rows) if schema is None else schema
    extra = next((column for row in rows for column in row if column not in schema.names), None)
    if extra is not None:
        raise CatalogError(f"input {name!r} has a column {extra!r} that its schema does not have")
    try:
        return pa.Table.from_pylist(list(rows), schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        found = ", ".join(f"{f.name} {sql_name(f.type)}" for f in schema)
        hint = "; give the types with schemas" if inferred else ""
        message = f"a row of input {name!r} does not fit its schema {found}: {error}{hint}"
        raise CatalogError(message) from None


def _inferred(name: str, rows: Sequence[Row]) -> pa.Schema:
    if not rows:
        raise CatalogError(f"input {name!r} has no rows to infer its types from; give them in schemas")
    columns = dict.fromkeys(column for row in rows for column in row)
    if not columns:
        raise CatalogError(f"the rows of input {name!r} have no columns; a row needs at least one")
    return pa.schema([(c, _type(name, c, {type(row.get(c)) for row in rows})) for c in columns])


def _type(name: str, column: str, kinds: set[type]) -> pa.DataType:
    kinds = kinds - {type(None)}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) != 1 or (kind := _TYPES.get(kinds.copy().pop())) is None:
        found = ", ".join(sorted(k.__name__ for k in kinds)) or "only None"
        several = kinds & {list, tuple, set, dict}
        hint = "a column has single values" if several else "give its type in schemas"
        raise CatalogError(f"column {column!r} of input {name!r} has {found}; {hint}")
    return kind
