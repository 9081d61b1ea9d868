"""What is registered in a session: streams and tables by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import CatalogError
from penstock.schema import TimeDomain


@dataclass(frozen=True)
class Traffic:
    """What is declared of how a stream's rows come: it says where they are sent, not what a query returns.

    ``rate`` is in rows a second. ``partitioned_by``: columns of which equal values come from one partition of
    the source. ``heavy``: by column, the values that a great part of the rows have.
    """

    rate: float | None = None
    partitioned_by: tuple[str, ...] = ()
    heavy: tuple[tuple[str, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class StreamDef:
    """A registered stream. ``schema`` holds every column, the timestamp column among them if it is one.

    ``timestamp`` names that column, or is None where elements carry their time beside the row.
    ``skew`` and ``idle_after`` are in ticks. ``source`` is opaque to all but the host that reads it.
    """

    name: str
    schema: pa.Schema
    time: TimeDomain
    timestamp: str | None = None
    skew: int = 0
    idle_after: int | None = None
    heartbeat: str | None = None
    source: Any = field(default=None, compare=False)
    traffic: Traffic = Traffic()


@dataclass(frozen=True)
class RelationDef:
    """A registered relation that changes over time: a stream of rows marked + and − in column ``change``.

    ``schema`` is the relation's own: with neither the timestamp nor the change column unless they are
    part of its rows. A − row takes out one row equal to it. The other fields are as a stream's.
    """

    name: str
    schema: pa.Schema
    time: TimeDomain
    timestamp: str | None = None
    change: str | None = None
    skew: int = 0
    idle_after: int | None = None
    heartbeat: str | None = None
    source: Any = field(default=None, compare=False)
    traffic: Traffic = Traffic()


@dataclass(frozen=True)
class ViewDef:
    """A registered view, or stream defined by a query: CQL text that stands wherever its name does."""

    name: str
    text: str
    kind: str = "view"


@dataclass(frozen=True)
class FunctionDef:
    """A registered vectorised function: Arrow arrays in, an array-like of ``returns`` out."""

    name: str
    returns: pa.DataType
    function: Any = field(compare=False)


@dataclass(frozen=True)
class TableDef:
    """A registered static table."""

    name: str
    schema: pa.Schema
    source: Any = field(default=None, compare=False)


Definition = StreamDef | RelationDef | TableDef | ViewDef | FunctionDef
"""Whatever a name can stand for."""


def kind_of(definition: Definition) -> str:
    """What DDL calls it."""
    if isinstance(definition, ViewDef):
        return definition.kind
    kinds = {StreamDef: "stream", RelationDef: "relation", TableDef: "table", FunctionDef: "function"}
    return kinds[type(definition)]


class Catalog(dict[str, Definition]):
    """Definitions by name; case does not matter."""

    def add(self, definition: Definition) -> None:
        """Register a definition under a name that is free."""
        taken = self.known(definition.name)
        if taken is not None:
            raise CatalogError(f"{taken!r} exists already; drop it first or choose another name")
        self[definition.name] = definition

    def drop(self, name: str, kind: str | None = None, if_exists: bool = False) -> None:
        """Forget a definition, which must be of the kind that is named."""
        known = self.known(name)
        if known is None:
            if if_exists:
                return
            there = ", ".join(self) or "nothing"
            raise CatalogError(f"there is no {kind or 'stream or table'} {name!r}; registered: {there}")
        found = kind_of(self[known])
        if kind is not None and kind != found:
            raise CatalogError(f"{known!r} is a {found}, not a {kind}; use DROP {found.upper()}")
        del self[known]

    def known(self, name: str) -> str | None:
        """A name as it was registered; None if it was not."""
        return next((n for n in self if n.casefold() == name.casefold()), None)
