"""The leaves: registered streams, relations and tables, and the output of an earlier stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog import Input, TableDef
from penstock.engine.element import Pattern
from penstock.engine.operators import identify, select, stamp
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread
from penstock.plan.facts import NotNull, Origins
from penstock.plan.logical.operator import Leaf, Logical, Needed, StaticLeaf, UniqueKey, rewrite, walk

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


class FilteredByHost(ABC):
    """A leaf whose rows the host may filter before sending them."""

    @abstractmethod
    def build_filtered(self, context: Builder, needed: Needed, filter: Expression | None) -> Node:
        """The source of the rows for which the filter is true."""

    def build(self, context: Builder, needed: Needed) -> Node:
        return self.build_filtered(context, needed, None)


@dataclass(frozen=True)
class Source(Leaf):
    """A stream or relation, whose rows a host sends to partitions.

    ``number`` identifies the occurrence in a plan, once that is ``numbered``.
    """

    definition: Input
    number: int = 0

    @cached_property
    def schema(self) -> pa.Schema:
        return _qualified(self.alias, self.definition.schema)

    @property
    def origins(self) -> Origins:
        return {f.name: (self.number, Column(f.name, f.type)) for f in self.schema}

    def own_name(self, column: str) -> str:
        """A column without the alias."""
        return column.removeprefix(f"{self.alias}.")

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return distribution.leaf(self.number)


@dataclass(frozen=True)
class StreamSource(FilteredByHost, Source):
    """A stream as it stands in FROM; with ``stamp`` its timestamps are a column too."""

    stamp: bool = False

    is_stream = True

    @property
    def stamp_column(self) -> str:
        """The column of timestamps, in ticks."""
        return f"{self.alias}.#ts"

    @cached_property
    def schema(self) -> pa.Schema:
        columns = _qualified(self.alias, self.definition.schema)
        return columns.append(pa.field(self.stamp_column, pa.int64())) if self.stamp else columns

    def describe(self) -> str:
        return f"Stream {self.called(self.definition.name)}"

    @property
    def origins(self) -> Origins:
        """Without the timestamps as a column: the host that splits the stream does not have it."""
        return {name: o for name, o in super().origins.items() if name != self.stamp_column}

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        return replace(self, stamp=True), (Column(self.stamp_column, pa.int64()),)

    @property
    def pattern(self) -> Pattern:
        return Pattern.APPEND

    @property
    def keeps_arrival_order(self) -> bool:
        return True

    def build_filtered(self, context: Builder, needed: Needed, filter: Expression | None) -> Node:
        source = context.source(self, [n for n in needed if n != self.stamp_column], filter)
        return stamp.Stamp(source, self.stamp_column) if self.stamp_column in needed else source


@dataclass(frozen=True)
class RelationSource(Source):
    """A relation that changes over time as it stands in FROM: its rows are marked + and −."""

    def describe(self) -> str:
        return f"Relation {self.called(self.definition.name)}"

    @property
    def unfixed(self) -> str:
        """Its rows may leave and enter again."""
        return f"relation '{self.definition.name}'"

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        key = self.definition.options.constraints.primary_key
        return ((tuple(f"{self.alias}.{c}" for c in key), False),) if key else ()

    def build(self, context: Builder, needed: Needed) -> Node:
        # Every column is needed to know which row leaves.
        source = context.source(self, self.schema.names, None, Pattern.CHANGING)
        own = context.own_rows(self)
        rows = select.Select(source, own, context.filters) if own else source
        skips = self.definition.options.bad_rows == "count"
        return identify.Identify(rows, None, self.definition.name, skips)


@dataclass(frozen=True)
class TableSource(FilteredByHost, StaticLeaf):
    """A static table as it stands in FROM."""

    definition: TableDef

    @cached_property
    def schema(self) -> pa.Schema:
        return _qualified(self.alias, self.definition.schema)

    def describe(self) -> str:
        return f"Table {self.called(self.definition.name)}"

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        """A row that a refresh replaces leaves; what is not shown of the new one may be all that differs."""
        return set(self.schema.names) <= set(shown)

    def build_filtered(self, context: Builder, needed: Needed, filter: Expression | None) -> Node:
        return context.table(self, needed, filter)


@dataclass(frozen=True)
class Exchange(Leaf):
    """The output of an earlier stage, which ``alias`` names, with what is known of its relation."""

    columns: pa.Schema
    changes: Pattern
    momentary: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    @property
    def pattern(self) -> Pattern:
        return self.changes

    @property
    def is_momentary(self) -> bool:
        return self.momentary

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return distribution.exchanged

    def build(self, context: Builder, needed: Needed) -> Node:
        return context.exchanges[self.alias]


def sources(root: Logical) -> list[Source]:
    """The streams and relations of a plan, from left to right."""
    return [node for node in walk(root) if isinstance(node, Source)]


def numbered(root: Logical) -> Logical:
    """The same plan with each occurrence of a stream or relation numbered."""
    places = count()

    def number(node: Logical) -> Logical:
        return replace(node, number=next(places)) if isinstance(node, Source) else node

    return rewrite(root, number)


def _qualified(alias: str, schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_name(f"{alias}.{f.name}") for f in schema])
