"""``penstock explain``: the plans of a CQL file's queries, from the text alone."""

from __future__ import annotations

from pathlib import Path

from penstock import cql
from penstock.catalog import StreamDef, TableDef
from penstock.cli.script import read, statements
from penstock.errors import CatalogError, PenstockError
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.logical import Query


def explain_file(path: Path, partitions: int) -> str:
    """The plan of each query of a file."""
    queries = bound_queries(read(path))
    if not queries:
        raise PenstockError(f"{path} has no query: add a SELECT")
    return "\n\n".join(explain(compile(query, partitions)) for query in queries)


def bound_queries(text: str) -> list[Query]:
    """The queries of a text over the streams and tables that its own statements declare before them."""
    catalog: dict[str, StreamDef | TableDef] = {}
    queries = []
    for part in statements(text):
        for statement in cql.parse(part):
            match statement:
                case cql.CreateStream() | cql.CreateTable():
                    _create(catalog, statement)
                case cql.Drop():
                    _drop(catalog, statement)
                case cql.SelectStatement():
                    queries.append(cql.bind(statement, catalog))
    return queries


def _create(catalog: dict[str, StreamDef | TableDef], statement: cql.CreateStream | cql.CreateTable) -> None:
    if _known(catalog, statement.name) is not None:
        raise CatalogError(f"'{statement.name}' exists already; DROP it first or choose another name")
    catalog[statement.name] = statement.definition()


def _drop(catalog: dict[str, StreamDef | TableDef], statement: cql.Drop) -> None:
    name = _known(catalog, statement.name)
    if name is not None:
        del catalog[name]
    elif not statement.if_exists:
        raise CatalogError(
            f"there is no {statement.kind} '{statement.name}' to drop; add IF EXISTS or leave it out"
        )


def _known(catalog: dict[str, StreamDef | TableDef], name: str) -> str | None:
    """The name under which something is registered; case does not matter."""
    return next((n for n in catalog if n.casefold() == name.casefold()), None)
