"""``penstock explain``: the plans of a CQL file's queries, from the text alone."""

from __future__ import annotations

from pathlib import Path

from penstock import cql
from penstock.catalog import Catalog
from penstock.cli.script import read, statements
from penstock.errors import PenstockError
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.logical import Query
from penstock.settings import Settings


def explain_file(path: Path, partitions: int) -> str:
    """The plan of each query of a file."""
    queries = bound_queries(read(path))
    if not queries:
        raise PenstockError(f"{path} has no query: add a SELECT")
    return "\n\n".join(explain(compile(query, partitions, settings)) for query, settings in queries)


def bound_queries(text: str) -> list[tuple[Query, Settings]]:
    """The queries of a text over what its own statements define and set before them."""
    catalog, settings = Catalog(), Settings()
    queries = []
    for part in statements(text):
        for statement in cql.parse(part):
            match statement:
                case cql.CreateInput() | cql.CreateTable():
                    catalog.add(statement.definition())
                case cql.CreateView():
                    catalog.add(cql.define_view(statement, catalog))
                case cql.Drop():
                    catalog.drop(statement.name, statement.kind, statement.if_exists)
                case cql.SelectStatement():
                    queries.append((cql.bind(statement, catalog), settings))
                case cql.Set():
                    settings = settings.changed(statement.name, statement.value)
    return queries
