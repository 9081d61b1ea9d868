"""The scope of names: the visible FROM items, their columns, and the enclosing query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from penstock.catalog import FunctionDef
from penstock.cql.syntax.dialect import RELATION_TO_STREAM, around_list
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.expression import Call, Column, Expression, transform, walk
from penstock.plan.logical import Logical
from penstock.plan.logical.bounded_window import WINDOW_END, WINDOW_START

T = TypeVar("T")
Named = tuple[str, Expression]


def lookup(names: Mapping[str, T], name: str) -> T | None:
    """The entry of a name: an exact match, else one that differs in case."""
    if name in names:
        return names[name]
    folded = name.casefold()
    return next((v for k, v in names.items() if k.casefold() == folded), None)


@dataclass(frozen=True)
class OuterColumn(Column):
    """A column of the query that encloses a subquery."""


def outer_columns(expression: Expression) -> list[OuterColumn]:
    """The columns of the enclosing query that an expression of a subquery reads."""
    return [e for e in walk(expression) if isinstance(e, OuterColumn)]


def inner_columns(expression: Expression) -> list[Column]:
    """The columns of its own query that an expression reads."""
    return [e for e in walk(expression) if isinstance(e, Column) and not isinstance(e, OuterColumn)]


def as_own(expression: Expression) -> Expression:
    """An expression over outer columns in terms of the enclosing query itself."""
    return transform(expression, lambda e: Column(e.name, e.type) if isinstance(e, OuterColumn) else None)


@dataclass(frozen=True)
class Item:
    """A FROM item: its alias, its plan (whose schema is qualified by the alias), its own columns."""

    alias: str
    node: Logical
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, alias: str, node: Logical) -> Item:
        """The item for a plan whose columns are all qualified by ``alias``."""
        start = len(alias) + 1
        return cls(alias, node, {f.name[start:]: Column(f.name, f.type) for f in node.schema})


@dataclass
class Scope:
    """What an expression may refer to.

    ``visible`` are the columns that ``*`` expands to and that a name without qualifier may refer to: every
    column of the items, those merged by USING once. ``equated`` are columns that the conditions make equal,
    so that a name which both have is not ambiguous. ``outer`` is the enclosing query, if this is a subquery.
    """

    items: list[Item] = field(default_factory=list)
    visible: list[Named] = field(default_factory=list)
    functions: Mapping[str, FunctionDef] = field(default_factory=dict)
    equated: list[set[Expression]] = field(default_factory=list)
    clause: str = "FROM"
    outer: Outer | None = None

    @classmethod
    def of(cls, item: Item) -> Scope:
        """A scope of one item, with all its columns visible."""
        return cls([item], list(item.columns.items()))

    def joined(self, other: Scope, at: exp.Expr) -> Scope:
        for item in other.items:
            if any(i.alias.casefold() == item.alias.casefold() for i in self.items):
                hint = "give each its own alias, as in S AS x"
                raise error(f"'{item.alias}' occurs twice in FROM", at, hint)
        return replace(self, items=self.items + other.items, visible=self.visible + other.visible)

    def under(self, conjuncts: Iterable[Expression]) -> Scope:
        """The scope of rows that satisfy these conjuncts."""
        groups = list[set[Expression]]()
        for conjunct in conjuncts:
            if (
                isinstance(conjunct, Call)
                and conjunct.function == "="
                and set(map(type, conjunct.args)) == {Column}
            ):
                linked = set(conjunct.args).union(*(g for g in groups if not g.isdisjoint(conjunct.args)))
                groups = [*(g for g in groups if g.isdisjoint(linked)), linked]
        return replace(self, equated=groups)

    def column(self, node: exp.Column) -> Expression:
        """The expression that a name refers to."""
        return self.find(node)[1]

    def own_name(self, node: exp.Column) -> str:
        """The name of a column as its stream spells it."""
        return self.find(node)[0]

    def find(self, node: exp.Column) -> Named:
        """The name as its stream spells it, and the expression it refers to."""
        if node.args.get("db"):
            raise unsupported(f"a field of a struct ('{node.sql()}')", node)
        found = self.own(node) or (self.outer.find(node) if self.outer else None)
        if found is None:
            raise self._unknown(node)
        _refuse_nested(*found, node)
        return found

    def own(self, node: exp.Column) -> Named | None:
        """The column of FROM that a name refers to; None if there is none."""
        if node.table:
            return self._qualified(node)
        return self.bare(node.name, node)

    def bare(self, name: str, at: exp.Expr) -> Named | None:
        """The column that a name without qualifier refers to; None if there is none."""
        folded = name.casefold()
        found = [pair for pair in self.visible if pair[0].casefold() == folded]
        if len(found) > 1 and not any({e for _, e in found} <= equal for equal in self.equated):
            names = [str(e) for _, e in found]
            raise error(f"column '{name}' is ambiguous", at, f"write {' or '.join(names)}")
        return found[0] if found else None

    def has(self, name: str) -> bool:
        """Whether a name without qualifier refers to a column."""
        return any(n.casefold() == name.casefold() for n, _ in self.visible)

    def star(self, node: exp.Expr) -> list[Named]:
        """The columns of ``*`` or ``S.*`` with their own names."""
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        if table is None:
            found = list(self.visible)
        else:
            item = self.item(table.name)
            if item is None:
                raise self._unknown_item(table)
            found = list[Named](item.columns.items())
        for name, column in found:
            _refuse_nested(name, column, node)
        return found

    def item(self, alias: str) -> Item | None:
        return lookup({i.alias: i for i in self.items}, alias)

    def columns_hint(self) -> str:
        """The items and their columns, for hints."""
        return _columns_hint(self.items)

    def _qualified(self, node: exp.Column) -> Named | None:
        item = self.item(node.table)
        if item is None:
            return None
        folded = {name.casefold(): (name, column) for name, column in item.columns.items()}
        found = (node.name, item.columns[node.name]) if node.name in item.columns else None
        found = found or folded.get(node.name.casefold())
        if found is None:
            hint = did_you_mean(node.name, item.columns, _columns_hint([item]))
            raise error(f"'{item.alias}' has no column '{node.name}'", node.this, hint)
        return found

    def _unknown(self, node: exp.Column) -> Exception:
        if node.table:
            return self._unknown_item(node.args["table"])
        if node.name.upper() in RELATION_TO_STREAM:
            return around_list(node.name, node)
        hint = did_you_mean(node.name, [n for n, _ in self.visible], self.columns_hint())
        select = node.find_ancestor(exp.Select)
        if select and node.name.casefold() in (e.alias.casefold() for e in select.selects):
            hint = "it names an item of the SELECT list: write its expression, or select it in a subquery"
        if node.name.lower() in (WINDOW_START, WINDOW_END):
            hint = "only [TUMBLE ...], [HOP ...] and [SESSION ...] windows have it"
        return error(f"unknown column '{node.name}'", node, hint)

    def _unknown_item(self, table: exp.Identifier) -> Exception:
        aliases = [i.alias for i in self.items]
        hint = did_you_mean(table.name, aliases, f"{self.clause} has {', '.join(aliases)}")
        return error(f"'{table.name}' is not in {self.clause}", table, hint)


def _refuse_nested(name: str, column: Expression, node: exp.Expr) -> None:
    """Reject a column that is a struct, a map or an array of those."""
    type_ = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_nested(type_):
        hint = "select its parts as columns of their own before the stream or table is registered"
        raise unsupported(f"the nested column '{name}'", node, hint)


def _columns_hint(items: Sequence[Item]) -> str:
    return "; ".join(f"{i.alias} has {', '.join(i.columns)}" for i in items)


@dataclass(frozen=True)
class Outer:
    """The query that encloses a subquery, as the subquery sees it.

    ``conjuncts`` collects the subquery's conditions on both queries, over the subquery's result, whose last
    columns, the ``extras``, exist only for them. ``refused`` names the clause that rejects references. For a
    scalar subquery, ``values`` has the value over that result, if it is not a column of it.
    """

    scope: Scope
    conjuncts: list[Expression] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    refused: str = ""
    takes_value: bool = False
    values: list[Expression] = field(default_factory=list)

    def refusing(self, what: str) -> Outer:
        """The enclosing query for a part of the subquery that may not refer to it."""
        return replace(self, refused=self.refused or what)

    def find(self, node: exp.Column) -> Named | None:
        """The column of the enclosing query that a name refers to."""
        found = self.scope.own(node)
        if found is None:
            if self.scope.outer is not None and self.scope.outer.find(node) is not None:
                raise unsupported(f"a reference to '{node.sql()}' of a query beyond the enclosing one", node)
            return None
        if self.refused:
            hint = "refer to it in the subquery's WHERE"
            raise unsupported(
                f"a reference to '{found[1]}' of the enclosing query in {self.refused}", node, hint
            )
        as_outer = transform(found[1], lambda e: OuterColumn(e.name, e.type) if type(e) is Column else None)
        return found[0], as_outer
