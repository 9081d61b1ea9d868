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
from penstock.plan.combine import combines
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
    """A query taken apart: ToStream? → Project → (HAVING's Select? → Aggregate)? → body.

    The body is a join of windows over registered streams and of tables, with filters.
    """

    kind: str | None
    every: int | None
    project: logical.Project
    having: tuple[Expression, ...]
    aggregate: logical.Aggregate | None
    body: logical.Logical


def shape(root: logical.Logical) -> Shape | None:
    """Take a query apart; None if it is of another shape."""
    kind, every = None, None
    if isinstance(root, logical.ToStream):
        kind, every, root = root.kind, root.every, root.input
    if not isinstance(root, logical.Project):
        return None
    below, aggregate = root.input, None
    having: tuple[Expression, ...] = ()
    if isinstance(below, logical.Select) and isinstance(below.input, logical.Aggregate):
        having, below = below.conjuncts, below.input
    if isinstance(below, logical.Aggregate):
        aggregate, below = below, below.input
    if not _plain(below) or not windows_of(below):
        return None
    return Shape(kind, every, root, having, aggregate, below)


def _plain(node: logical.Logical) -> bool:
    if isinstance(node, logical.Window):
        return logical.stream_of(node) is not None
    kinds = logical.Join | logical.Select | logical.TableSource
    return isinstance(node, kinds) and all(_plain(i) for i in logical.inputs(node))


def source_of(window: logical.Window) -> logical.StreamSource:
    """The stream below a window of a plain body."""
    source = logical.stream_of(window)
    assert source is not None
    return source


def windows_of(node: logical.Logical) -> list[logical.Window]:
    """The windows of a plain body, from left to right."""
    if isinstance(node, logical.Window):
        return [node]
    return [w for i in logical.inputs(node) for w in windows_of(i)]


def choose(query: Shape, nets: bool) -> Scheme:
    """The way to spread a query. ``nets``: equal results of one instant cancel, so they must meet."""
    if query.kind == "rstream":
        return Scheme(why="RSTREAM shows the whole relation at every tick of one clock")
    windows = windows_of(query.body)
    for w in windows:
        if w.spec.by_rows and not w.spec.partition_by:
            return Scheme(why=f"{w.spec.text} of {source_of(w).alias} needs the whole order of the stream")
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
            whole = [str(c) for _, c in aggregate.calls if not combines(c)]
            if whole:
                return Scheme(why=f"{whole[0]} cannot be combined from partial results")
            return Scheme(keys, "combine", spread=bool(aggregate.keys) and visible == by)
        shown = visible
    if nets and (not held or not all(h & shown for h in held)):
        return Scheme(keys, "net")
    return Scheme(keys)


def _single_stream(query: Shape, window: logical.Window) -> tuple[Keys, list[set[Expression]]]:
    """A row window's own partitions, else the groups, else the rows of the result."""
    source = source_of(window)
    if window.spec.partition_by and window.spec.by_rows:
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
    streams = {k: windows_of(i)[0] for k, i in enumerate(body.inputs) if windows_of(i)}
    assert len(streams) == len(windows)
    for members in graph.classes:
        named = dict(members)
        if all(k in named and _partitions_by(w, named[k]) for k, w in streams.items()):
            found = {k: _expression(graph.derived[k], body.inputs[k].schema, named[k]) for k in named}
            keys: Keys = {source_of(w).alias: (found[k],) for k, w in streams.items()}
            return keys, [set(found.values())]
    return {}, []


def _partitions_by(window: logical.Window, column: str) -> bool:
    return not window.spec.by_rows or column in window.spec.partition_by


def _expression(derived: tuple[tuple[str, Expression], ...], schema: pa.Schema, name: str) -> Expression:
    return dict(derived).get(name) or Column(name, schema.field(name).type)
