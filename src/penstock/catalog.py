"""What is registered in a session: streams and tables by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.schema import TimeDomain


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
