"""The language: CQL text to statements, and queries to logical plans.

``parse(text)`` gives the statements of a text, ``bind(query, catalog)`` the logical plan of a query.
Everything a user can get wrong is a :class:`~penstock.errors.CQLError` with line and column.
"""

from penstock.cql.bind import bind
from penstock.cql.ddl import (
    CreateStream,
    CreateTable,
    Drop,
    SelectStatement,
    SourceSpec,
    Statement,
    duration_ticks,
    parse,
    schema_of,
)

__all__ = [
    "CreateStream",
    "CreateTable",
    "Drop",
    "SelectStatement",
    "SourceSpec",
    "Statement",
    "bind",
    "duration_ticks",
    "parse",
    "schema_of",
]
