"""CQL files: their statements, each with its place in the file, and their plans without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock import cql, sysstream
from penstock.catalog import Catalog, SinkDef
from penstock.cli.session import writing
from penstock.errors import CQLError, PenstockError
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.logical import Query
from penstock.plan.pipeline import plan_pipeline
from penstock.settings import Settings

_BETWEEN = "\n;\n"
"""Ends the last statement of a file, which may end with a comment."""


def read(paths: Sequence[Path]) -> str:
    """The text of files, one after the other."""
    return _BETWEEN.join(_read(path) for path in paths)


@contextmanager
def in_files(paths: Sequence[Path]) -> Iterator[None]:
    """Of several files, errors in their text name the one they are in and their place in it."""
    try:
        yield
    except CQLError as error:
        if len(paths) == 1 or error.line is None:
            raise
        path, line = _place(paths, error.line)
        hint = f"; {error.hint}" if error.hint else ""
        where = f"{path}, line {line}, column {error.column}"
        raise PenstockError(f"{where}: {error.message}{hint}") from None


def _place(paths: Sequence[Path], line: int) -> tuple[Path, int]:
    """The file and its line that a line of the whole text is."""
    for path in paths[:-1]:
        lines = (_read(path) + _BETWEEN).count("\n")
        if line <= lines:
            return path, line
        line -= lines
    return paths[-1], line


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PenstockError(f"cannot read {path}: {reason}") from None


def explain_files(paths: Sequence[Path], partitions: int) -> str:
    """The plan of each query of some files."""
    queries = queries_of(paths)
    plans = [explain(compile(q.query, partitions, q.settings)) for q in queries]
    if len(queries) > 1:
        plans = [
            f"query    {q.named(n)}\n{plan}"
            for n, (q, plan) in enumerate(zip(queries, plans, strict=True), 1)
        ]
    return "\n\n".join(plans)


def draw_files(paths: Sequence[Path], partitions: int, to: Path) -> list[Path]:
    """Write the picture of each query's plan; where there are several, their files are numbered."""
    from penstock.server.picture import picture
    from penstock.server.plans import plan_view, planned_measurements

    queries = queries_of(paths)
    written = []
    for number, q in enumerate(queries, start=1):
        plan = compile(q.query, partitions, q.settings)
        shown = plan_view("", planned_measurements(plan.stages), plan.stages, running=False)
        path = to if len(queries) == 1 else to.with_stem(f"{to.stem}-{number}")
        with writing(path):
            path.write_text(picture(shown).svg, encoding="utf-8")
        written.append(path)
    return written


@dataclass(frozen=True)
class BoundQuery:
    """A query of a text, the settings it is made with, its sink, and its name if it is registered."""

    query: Query
    settings: Settings
    sink: SinkDef | None = None
    name: str = ""

    def named(self, number: int) -> str:
        """What tells it from the others of its file: its name, its sink, or its number."""
        into = f"into {self.sink.name}" if self.sink is not None else ""
        return " ".join(filter(None, (self.name, into))) or str(number)


def queries_of(paths: Sequence[Path], to_run: bool = False) -> list[BoundQuery]:
    """The queries of files, at least one; ``to_run``: or a pipeline, whose checkpoint may have queries."""
    with in_files(paths):
        text = read(paths)
        queries = bound_queries(text)
    if not queries and not (to_run and _has_pipeline(text)):
        raise PenstockError(f"{paths[-1]} has no query: add a SELECT, INSERT INTO or REGISTER QUERY")
    return queries


def _has_pipeline(text: str) -> bool:
    return any(isinstance(s, cql.CreatePipeline) for part in cql.split(text) for s in cql.parse(part))


def bound_queries(text: str, catalog: Catalog | None = None) -> list[BoundQuery]:
    """The queries of a text, bound over the definitions and settings before them; ``catalog`` gets those."""
    catalog, settings = Catalog() if catalog is None else catalog, Settings()
    catalog.add(sysstream.definition())
    queries = []
    for part in cql.split(text):
        for statement in cql.parse(part):
            match statement:
                case cql.CreateInput() | cql.CreateTable():
                    catalog.add(statement.definition(), statement.if_taken)
                case cql.CreateView():
                    catalog.add(cql.define_view(statement, catalog), statement.if_taken)
                case cql.CreateSink():
                    catalog.add(statement.sink, statement.if_taken)
                case cql.Drop(kind="pipeline"):
                    continue
                case cql.Drop():
                    catalog.drop(statement.name, statement.kind, statement.if_exists)
                case cql.SelectStatement():
                    queries.append(BoundQuery(cql.bind(statement, catalog), settings))
                case cql.CreatePipeline():
                    _check_pipeline(statement, catalog)
                case cql.RegisterQuery():
                    query, to = cql.bind_registration(statement, catalog)
                    queries.append(BoundQuery(query, settings, to, statement.name))
                case cql.Insert():
                    query, sink = cql.bind_insert(statement, catalog)
                    queries.append(BoundQuery(query, settings, sink))
                case cql.Set():
                    settings = settings.changed(statement.name, statement.value)
    return queries


def _check_pipeline(statement: cql.CreatePipeline, catalog: Catalog) -> None:
    cql.check_pipeline(statement, catalog)
    streams = [catalog.input(n) for n in statement.streams]
    split = {catalog.input(n).name: [tuple(key) for key in keys] for n, keys in statement.split.items()}
    columns = {catalog.input(n).name: names for n, names in statement.columns.items()}
    plan_pipeline(streams, {}, split=split, columns=columns)  # refuses what cannot be
