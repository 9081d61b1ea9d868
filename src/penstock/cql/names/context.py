"""The context of a query: the catalog, names defined by WITH, the time its streams share, notes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from penstock.catalog import Definition, FunctionDef, Input
from penstock.cql.names.scope import Outer
from penstock.cql.settings import MAX_SOURCES
from penstock.cql.syntax.errors import error, unsupported
from penstock.plan.logical import Logical, leaves
from penstock.schema import TimeDomain

Catalog = Mapping[str, Definition]


@dataclass(frozen=True, eq=False)
class CommonTable:
    """A query named by WITH, and the context it is bound in."""

    node: exp.CTE
    context: Context


@dataclass
class Context:
    """The catalog, the notes so far, and the current position in the query.

    ``streams``, ``notes``, ``warnings`` and ``bound`` are shared by all parts of a query; ``common_tables``,
    ``outer``, the query around a subquery, ``views``, the number of views around it, and ``between``, whether
    a WINDOW clause gives the streams of FROM their windows, differ from part to part.
    """

    catalog: Catalog
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    streams: list[Input] = field(default_factory=list)
    common_tables: Mapping[str, CommonTable] = field(default_factory=dict)
    outer: Outer | None = None
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    views: int = 0
    between: bool = False
    bound: dict[Hashable, Logical] = field(default_factory=dict)
    """The plans of views and of queries of WITH that are bound, for those who use them again."""

    @property
    def time(self) -> TimeDomain:
        """The time domain that all streams of the query share."""
        return self.streams[0].options.time

    @property
    def functions(self) -> dict[str, FunctionDef]:
        """The registered functions, by name in lower case."""
        return {n.lower(): f for n, f in self.catalog.items() if isinstance(f, FunctionDef)}

    def note(self, text: str) -> None:
        """Add a note on a default that was filled in, once."""
        if text not in self.notes:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Add a warning of a query that is allowed and rarely meant, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def add_stream(self, stream: Input, at: exp.Expr) -> None:
        """Register a stream of the query; all of them must share one time domain."""
        if self.streams and self.streams[0].options.time != stream.options.time:
            first = self.streams[0]
            raise error(
                f"'{first.name}' has time in {_words(first)} and '{stream.name}' in {_words(stream)}",
                at,
                "declare the same TIMESTAMP BY type and unit for both",
            )
        self.streams.append(stream)

    def new_alias(self) -> str:
        """An alias that no user can have written."""
        return f"#{next(self.numbers)}"

    def inside(self, outer: Outer | None) -> Context:
        return replace(self, outer=outer)

    def apart(self, what: str) -> Context:
        """The context of a part that may not refer to the enclosing query; ``what`` names it in errors."""
        return replace(self, outer=self.outer and self.outer.refusing(what))

    def of_view(self) -> Context:
        """The context of a view, which sees nothing of the query that uses it."""
        return replace(self, outer=None, common_tables={}, views=self.views + 1)

    def once(self, what: Hashable, at: exp.Expr, bind: Callable[[], Logical]) -> Logical:
        """The plan of a view or a query of WITH, bound at its first use; it sees nothing of who uses it."""
        root = self.bound.get(what)
        if root is None:
            root = bind()
            check_sources(root, at)
            self.bound[what] = root
        return root

    def with_common_tables(self, with_: exp.With | None) -> Context:
        if with_ is None:
            return self
        if with_.args.get("recursive"):
            raise unsupported("WITH RECURSIVE", with_)
        context = self
        for table in with_.expressions:
            if any(t.alias.casefold() == table.alias.casefold() for t in with_.expressions if t is not table):
                raise error(f"WITH names '{table.alias}' twice", table.args["alias"])
            known = {**context.common_tables, table.alias: CommonTable(table, context)}
            context = replace(context, common_tables=known)
        return context


def check_sources(root: Logical, at: exp.Expr) -> None:
    """Reject a plan that reads more than those who go through it can."""
    read = len(leaves(root))
    if read > MAX_SOURCES:
        what = f"the query reads {read} streams and tables, each as often as it is used, over {MAX_SOURCES}"
        raise error(what, at, "use views once, or write what one returns to a sink and read that")


def _words(stream: Input) -> str:
    return "TIMESTAMP" if stream.options.time.kind == "timestamp" else f"integer {stream.options.time.unit}"
