"""Which names mean what: the FROM items in sight, and the columns they bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from penstock.cql.errors import did_you_mean, error, unsupported
from penstock.expression import Column
from penstock.plan.logical import Logical

T = TypeVar("T")


def qualify(alias: str, schema: pa.Schema) -> pa.Schema:
    """A schema with every name qualified by an alias."""
    return pa.schema([f.with_name(f"{alias}.{f.name}") for f in schema])


def lookup(names: Mapping[str, T], name: str) -> T | None:
    """The entry of a name: as spelled, else whatever its case."""
    if name in names:
        return names[name]
    folded = name.casefold()
    return next((v for k, v in names.items() if k.casefold() == folded), None)


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
    """The FROM items that an expression may refer to."""

    items: list[Item] = field(default_factory=list)

    def add(self, item: Item, at: exp.Expr) -> None:
        """Bring an item in sight."""
        if any(i.alias.casefold() == item.alias.casefold() for i in self.items):
            raise error(f"'{item.alias}' stands twice in FROM", at, "give each its own alias, as in S AS x")
        self.items.append(item)

    def column(self, node: exp.Column) -> Column:
        """The column that a name means."""
        if node.args.get("db"):
            raise unsupported(f"a field of a struct ('{node.sql()}')", node)
        if node.table:
            return self._qualified(node)
        found = [c for c in (lookup(i.columns, node.name) for i in self.items) if c is not None]
        if not found:
            hint = did_you_mean(node.name, self._names(), self._columns_hint(self.items))
            raise error(f"unknown column '{node.name}'", node, hint)
        if len(found) > 1:
            names = [c.name for c in found]
            raise error(f"column '{node.name}' is ambiguous", node, f"write {' or '.join(names)}")
        return found[0]

    def has(self, name: str) -> bool:
        """Whether some item has a column of that name."""
        return any(lookup(i.columns, name) is not None for i in self.items)

    def own_name(self, node: exp.Column) -> str:
        """The name of a column as its stream spells it."""
        column = self.column(node)
        return next(n for i in self.items for n, c in i.columns.items() if c is column)

    def star(self, node: exp.Expr) -> list[tuple[str, Column]]:
        """The columns of ``*`` or ``S.*`` with their own names."""
        table = node.args.get("table") if isinstance(node, exp.Column) else None
        items = [self._item(table)] if table else self.items
        return [pair for item in items for pair in item.columns.items()]

    def _qualified(self, node: exp.Column) -> Column:
        item = self._item(node.args["table"])
        column = lookup(item.columns, node.name)
        if column is None:
            hint = did_you_mean(node.name, item.columns, self._columns_hint([item]))
            raise error(f"'{item.alias}' has no column '{node.name}'", node.this, hint)
        return column

    def _item(self, table: exp.Identifier) -> Item:
        item = lookup({i.alias: i for i in self.items}, table.name)
        if item is None:
            aliases = [i.alias for i in self.items]
            hint = did_you_mean(table.name, aliases, f"FROM has {', '.join(aliases)}")
            raise error(f"'{table.name}' is not in FROM", table, hint)
        return item

    def _names(self) -> list[str]:
        return [name for item in self.items for name in item.columns]

    @staticmethod
    def _columns_hint(items: Sequence[Item]) -> str:
        return "; ".join(f"{i.alias} has {', '.join(i.columns)}" for i in items)
