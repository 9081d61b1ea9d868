"""How a query is spread over partitions: by which keys, and what must be brought together again after.

Right is what does not change the answer. Rows that may meet must meet: rows that join, rows of a group,
rows of a row window's partition, and equal results, since they may cancel at an instant. Where a query's
result does not hold the key it was spread by, equal results can come from different partitions, and a
second stage nets them; where groups are split, a second stage combines partial aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.expression import Column, Expression, columns
from penstock.plan import logical
from penstock.plan.join_graph import join_graph

Keys = dict[str, tuple[Expression, ...]]
"""Partition keys by alias."""


@dataclass(frozen=True)
class Scheme:
    """``keys``: each stream's partition key, by alias; empty: one partition, and ``why``.

    ``then``: ``""`` nothing, ``"net"`` equal results, ``"combine"`` partial aggregates in a second stage.
    ``spread``: whether that second stage may have several partitions.
    """

    keys: Keys = field(default_factory=dict)
    then: str = ""
    spread: bool = True
    why: str = ""


@dataclass(frozen=True)
class Shape:
    """A query taken apart: ToStream? → Project → Aggregate? → body."""

    kind: str | None
    every: int | None
    project: logical.Project
    aggregate: logical.Aggregate | None
    body: logical.Logical


def shape(root: logical.Logical) -> Shape:
    """Take a bound query apart."""
    kind, every = None, None
    if isinstance(root, logical.ToStream):
        kind, every, root = root.kind, root.every, root.input
    assert isinstance(root, logical.Project)
    below = root.input
    if isinstance(below, logical.Aggregate):
        return Shape(kind, every, root, below, below.input)
    return Shape(kind, every, root, None, below)


def choose(query: Shape, nets: bool) -> Scheme:
    """The way to spread a query. ``nets``: equal results of one instant cancel, so they must meet."""
    if query.kind == "rstream":
        return Scheme(why="RSTREAM shows the whole relation at every tick of one clock")
    windows = _windows(query.body)
    for w in windows:
        if w.spec.kind == "rows" and w.spec.size is not None and not w.spec.partition_by:
            return Scheme(
                why=f"{w.spec.text} of {logical.stream_of(w).alias} needs the whole order of the stream"
            )
    if len(windows) == 1:
        keys, held = _single_stream(query, windows[0])
    else:
        keys, held = _common_key(query.body, windows)
    if not keys:
        return Scheme(why="no key is common to all streams of the join")
    return _second_stage(query, keys, held, nets)


def _second_stage(query: Shape, keys: Keys, held: list[set[Expression]], nets: bool) -> Scheme:
    shown = {e for _, e in query.project.columns}
    aggregate = query.aggregate
    if aggregate is not None:
        by = {e for _, e in aggregate.keys}
        # Above the aggregate the keys go by their names in its schema.
        visible = {e for name, e in aggregate.keys if Column(name, e.type) in shown}
        if not held or not all(h & by for h in held):
            if any(c.function == "avg" and pa.types.is_decimal(c.type) for _, c in aggregate.calls):
                return Scheme(why="an average of decimals is not combined from parts")
            return Scheme(keys, "combine", spread=bool(aggregate.keys) and visible == by)
        shown = visible
    if nets and (not held or not all(h & shown for h in held)):
        return Scheme(keys, "net")
    return Scheme(keys)


def _windows(node: logical.Logical) -> list[logical.Window]:
    if isinstance(node, logical.Window):
        return [node]
    return [w for i in logical.inputs(node) for w in _windows(i)]


def _single_stream(query: Shape, window: logical.Window) -> tuple[Keys, list[set[Expression]]]:
    """A row window's own partitions, else the groups, else the rows of the result."""
    source = logical.stream_of(window)
    if window.spec.partition_by and window.spec.kind == "rows" and window.spec.size is not None:
        by = [Column(c, source.schema.field(c).type) for c in window.spec.partition_by]
        return {source.alias: tuple(by)}, [{c} for c in by]
    wanted = query.aggregate.keys if query.aggregate is not None else query.project.columns
    own = set(source.schema.names)
    by_result = [e for _, e in wanted if columns(e) and columns(e) <= own]
    if by_result:
        return {source.alias: tuple(by_result)}, [{e} for e in by_result]
    return {source.alias: (_any_column(source),)}, []


def _any_column(source: logical.StreamSource) -> Expression:
    first = source.schema.field(0)
    return Column(first.name, first.type)


def _common_key(body: logical.Logical, windows: list[logical.Window]) -> tuple[Keys, list[set[Expression]]]:
    """A class of equal columns that every stream of the join has."""
    if not isinstance(body, logical.Join):
        return {}, []
    graph = join_graph([i.schema.names for i in body.inputs], body.conjuncts)
    streams = {k: _windows(i)[0] for k, i in enumerate(body.inputs) if _windows(i)}
    assert len(streams) == len(windows)
    for members in graph.classes:
        named = dict(members)
        if all(k in named and _partitions_by(w, named[k]) for k, w in streams.items()):
            found = {k: _expression(graph.derived[k], body.inputs[k].schema, named[k]) for k in named}
            keys: Keys = {logical.stream_of(w).alias: (found[k],) for k, w in streams.items()}
            return keys, [set(found.values())]
    return {}, []


def _partitions_by(window: logical.Window, column: str) -> bool:
    by_rows = window.spec.kind == "rows" and window.spec.size is not None
    return not by_rows or column in window.spec.partition_by


def _expression(derived: tuple[tuple[str, Expression], ...], schema: pa.Schema, name: str) -> Expression:
    return dict(derived).get(name) or Column(name, schema.field(name).type)
