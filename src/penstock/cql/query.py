"""Binding: from the text of a query to a logical plan, with every name and type resolved.

A view is bound before it is in the catalog, so it can only refer to earlier definitions: no cycles.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import Definition, Input, SinkDef, TableDef, ViewDef, described
from penstock.cql.clauses.queries import RELATIONS, bind_query
from penstock.cql.clauses.select import bind_select
from penstock.cql.clauses.within import check_sampled
from penstock.cql.names.context import Catalog, Context, check_sources
from penstock.cql.pipelines import RegisterQuery
from penstock.cql.settings import MAX_OPERATORS_DEEP
from penstock.cql.statements import CreateView, Insert, SelectStatement, parse
from penstock.cql.syntax.errors import did_you_mean, error
from penstock.cql.syntax.nesting import deep
from penstock.plan.logical import Logical, Query, ToStream
from penstock.schema import sql_name

RELATIONS[exp.Select] = bind_select


def bind(query: str | exp.Expr | SelectStatement, catalog: Catalog) -> Query:
    """The bound form of one query over a catalog.

    ``query`` is its text, the statement that :func:`parse` made of it, or a sqlglot expression.
    """
    node = _expression(query)
    context = Context(catalog)
    with deep():
        root = bind_query(node, context)
    if not context.streams:
        raise error(
            "a continuous query needs a stream in FROM, and this one reads only tables",
            node,
            "query tables with Spark itself",
        )
    _warn_of_references(context)
    _check_depth(root, node)
    check_sources(root, node)
    root = _filled_in(root, context)
    notes = (*context.notes, *check_sampled(root, node))
    return Query(root, context.time, notes, tuple(context.warnings))


def _check_depth(root: Logical, node: exp.Expr) -> None:
    """Reject a plan that is too deep for those who go through it; what is read twice counts once."""
    depths, left = dict[int, int](), [root]
    while left:
        inputs = left[-1].inputs
        unknown = [i for i in inputs if id(i) not in depths]
        if unknown:
            left += unknown
        else:
            depths[id(left.pop())] = 1 + max((depths[id(i)] for i in inputs), default=0)
    depth = depths[id(root)]
    if depth > MAX_OPERATORS_DEEP:
        what = f"the query's subqueries and joins are {depth} operators deep, over {MAX_OPERATORS_DEEP}"
        raise error(what, node, "shorten it, or make streams of parts of it in queries of their own")


def _warn_of_references(context: Context) -> None:
    """References of the query's streams to what does not exist: at their declaration it might come later."""
    streams = {name.casefold(): d for name, d in context.catalog.items()}
    for stream in context.streams:
        for reference in stream.options.constraints.references:
            found = streams.get(reference.target.casefold())
            if isinstance(found, Input):
                continue
            names = [d.name for d in streams.values() if isinstance(d, Input)]
            told = did_you_mean(reference.target, names, "create that stream first, or declare another")
            what = "which does not exist" if found is None else f"which is a {found.kind}"
            context.warn(
                f"stream '{stream.name}' REFERENCES '{reference.target}', {what}, so the constraint is not "
                f"used; {told}"
            )


def _expression(query: str | exp.Expr | SelectStatement) -> exp.Expr:
    if isinstance(query, exp.Expr):
        return query
    if isinstance(query, SelectStatement):
        return query.expression
    statements = parse(query)
    if len(statements) != 1:
        raise error(f"one query is expected here, not {len(statements)} statements")
    if not isinstance(statements[0], SelectStatement):
        raise error("a query is expected here, not INSERT, CREATE, DROP or SET")
    return statements[0].expression


def _filled_in(root: Logical, context: Context) -> Logical:
    """The default: a result that only grows becomes a stream."""
    if root.is_stream or not root.only_grows:
        return root
    context.note("the result only grows, so it is streamed: ISTREAM is filled in")
    return ToStream(root, "istream")


def bind_insert(statement: Insert, catalog: Catalog) -> tuple[Query, SinkDef]:
    """The bound query of INSERT INTO, and its sink, which must have the columns that it is divided by."""
    query, sink = bind(statement.query, catalog), _sink(statement.sink, statement.at, catalog)
    _check_columns(query, sink, statement.at)
    return query, sink


def bind_registration(statement: RegisterQuery, catalog: Catalog) -> tuple[Query, SinkDef | None]:
    """The bound query of REGISTER QUERY, and its sink, if it has one."""
    query = bind(statement.expression, catalog)
    if statement.sink is None:
        return query, None
    at = statement.at or statement.expression
    sink = _sink(statement.sink, at, catalog)
    _check_columns(query, sink, at)
    return query, sink


def _check_columns(query: Query, sink: SinkDef, at: exp.Expr) -> None:
    """Reject a query without the columns that its sink is divided by."""
    own = ("ts",) if query.root.is_stream else ("ts", "op")
    columns = [*own, *query.root.schema.names]
    for name in sink.partitioned_by:
        if name.casefold() not in {c.casefold() for c in columns}:
            hint = did_you_mean(name, columns, f"its columns are {', '.join(columns)}")
            message = f"sink '{sink.name}' is PARTITIONED BY '{name}', which the query does not return"
            raise error(message, at, hint)


def _sink(name: str, at: exp.Expr, catalog: Catalog) -> SinkDef:
    found = next((d for n, d in catalog.items() if n.casefold() == name.casefold()), None)
    if isinstance(found, SinkDef):
        return found
    if found is not None:
        message = f"'{found.name}' is a {found.kind}, not a sink"
        raise error(message, at, "CREATE SINK names where queries write")
    sinks = [n for n, d in catalog.items() if isinstance(d, SinkDef)]
    hint = did_you_mean(name, sinks, f"write CREATE SINK {name} TO ... before it")
    raise error(f"unknown sink '{name}'", at, hint)


def columns_of(definition: Definition, catalog: Catalog) -> list[tuple[str, str, str]]:
    """The columns of a definition with their types and what is declared of them; a view's are its query's."""
    notes = described(definition) if isinstance(definition, Input) else {}
    schema = pa.schema([])
    if isinstance(definition, ViewDef):
        quoted = definition.name.replace("`", "``")
        with deep():
            schema = bind_query(_expression(f"SELECT * FROM `{quoted}`"), Context(catalog)).schema
    elif isinstance(definition, Input | TableDef):
        schema = definition.schema
    return [(f.name, sql_name(f.type), notes.get(f.name, "")) for f in schema]


def define_view(statement: CreateView, catalog: Catalog) -> ViewDef:
    """The catalog's entry of a view or derived stream; errors in its query are reported here.

    It does not see a definition that it replaces, so no view can come to stand on itself.
    """
    hidden = statement.name.casefold() if statement.if_taken == "replace" else None
    context = Context({n: d for n, d in catalog.items() if n.casefold() != hidden})
    with deep():
        root = bind_query(statement.expression, context)
    check_sampled(root, statement.expression)
    is_stream = root.is_stream or (root.only_grows and not root.is_static)
    if statement.kind == "stream" and not is_stream:
        raise error(
            f"the query of stream '{statement.name}' returns a relation",
            statement.expression,
            "write ISTREAM( ) around its SELECT list, or CREATE VIEW",
        )
    names, count = statement.columns, len(root.schema)
    if names and len(names) != count:
        message = f"view '{statement.name}' has {len(names)} column name(s) for {count} columns"
        raise error(message, statement.expression)
    if len({n.casefold() for n in names}) < len(names):
        raise error(f"view '{statement.name}' names a column twice", statement.expression)
    return ViewDef(statement.name, statement.text, statement.kind, names)
