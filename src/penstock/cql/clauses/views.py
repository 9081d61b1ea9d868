"""Views and streams defined by a query: bound once when they are defined, and again wherever they stand.

Since a view is bound before it is in the catalog, it can only stand on what was there before: no cycles.
"""

from __future__ import annotations

from penstock.catalog import ViewDef
from penstock.cql.clauses.queries import bind_query
from penstock.cql.clauses.streams import is_static, only_grows
from penstock.cql.names.context import Catalog, Context
from penstock.cql.statements import CreateView
from penstock.cql.syntax.errors import error
from penstock.plan.logical import ToStream


def define_view(statement: CreateView, catalog: Catalog) -> ViewDef:
    """The catalog's entry of a view or derived stream; what is wrong in its query is found here."""
    context = Context(catalog)
    root = bind_query(statement.expression, context)
    is_stream = isinstance(root, ToStream) or (only_grows(root) and not is_static(root))
    if statement.kind == "stream" and not is_stream:
        raise error(
            f"the query of stream '{statement.name}' gives a relation",
            statement.expression,
            "write ISTREAM( ) around its SELECT list, or CREATE VIEW",
        )
    return ViewDef(statement.name, statement.text, statement.kind)
