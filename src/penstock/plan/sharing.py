"""Sharing within a stage: streams, windows and stores that a query names more than once (thesis 2.3.1).

Two places of a query that read the same rows of a stream (the same filter, the same route to partitions) get
one input. Equal windows over it become one node, and time windows over it that differ only in size share a
store, of which each sees its own part. Every other window has its own store, which the join and the expiry
above it read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.engine.operator import Node
from penstock.engine.operators.project import Project
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.engine.stage import StageInput
from penstock.expression import Column, Expression, transform
from penstock.plan.physical import SourceInput, TableInput

HostInput = SourceInput | TableInput


def shared(
    root: Node, stage_inputs: Sequence[StageInput], host_inputs: Sequence[HostInput]
) -> tuple[Node, tuple[StageInput, ...], tuple[HostInput, ...]]:
    """A stage's root and inputs without duplicates."""
    merged = _Merged([i for i in host_inputs if isinstance(i, SourceInput)])
    taken = [merged.stage_input(i) for i in stage_inputs if i.name not in merged.leader]
    hosts = [merged.inputs.get(i.name, i) for i in host_inputs if i.name not in merged.leader]
    node = _rewritten(root, _Sharing(merged, {i.name: i for i in taken}).change, {})
    return node, tuple(taken), tuple(hosts)


class _Merged:
    """Inputs that read the same rows. ``leader``: by name, the input that another is merged into."""

    def __init__(self, sources: Sequence[SourceInput]) -> None:
        self.leader: dict[str, SourceInput] = {}
        self.inputs: dict[str, SourceInput] = {}
        known: dict[tuple[str, str], list[tuple[str, tuple[Any, ...]]]] = {}
        for source in sources:
            rows = _rows(source)
            seen = known.setdefault((source.stream.name, str(rows[1])), [])
            alike = next((name for name, theirs in seen if theirs == rows), None)
            if alike is not None and _can_merge(source):
                self.leader[source.name] = first = self.inputs[alike]
                new = [n for n in _own_names(source) if n not in _own_names(first)]
                more = [(f"{first.alias}.{n}", _own_names(source)[n].type) for n in new]
                columns = (*first.columns, *((name, Column(name, kind)) for name, kind in more))
                self.inputs[first.name] = replace(first, columns=columns)
            else:
                self.inputs[source.name] = source
                seen.append((source.name, rows))
        self.alias = {s.name: s.alias for s in sources}

    def stage_input(self, taken: StageInput) -> StageInput:
        """The input with the columns of those merged into it."""
        if taken.name not in self.inputs:
            return taken
        known = set(taken.schema.names)
        more = [(n, e.type) for n, e in self.inputs[taken.name].columns if n not in known]
        return replace(taken, schema=pa.schema([*taken.schema, *more])) if more else taken


def _own_names(source: SourceInput) -> dict[str, Expression]:
    """The columns of a source by their names in the stream."""
    return {name.removeprefix(f"{source.alias}."): e for name, e in source.columns}


def _can_merge(source: SourceInput) -> bool:
    """False if partitions get only places of rows, or if the host checks the source's partitioning."""
    route = source.route
    plain = all(e == Column(name, e.type) for name, e in source.columns)
    return plain and route.places is None and not any(a.by_source for a in route.axes)


def _rows(source: SourceInput) -> tuple[Any, ...]:
    """The rows that an input reads: of which stream, by what filter and route, in the stream's own names."""

    def strip(e: Expression) -> Expression:
        return _renamed(e, lambda name: name.removeprefix(f"{source.alias}."))

    axes = tuple(replace(x, keys=tuple(map(strip, x.keys))) for x in source.route.axes)
    return source.stream, source.filter and strip(source.filter), replace(source.route, axes=axes)


def _renamed(expression: Expression, name: Callable[[str], str]) -> Expression:
    return transform(expression, lambda e: Column(name(e.name), e.type) if isinstance(e, Column) else None)


class _Sharing:
    """Rewrites nodes from the leaves up."""

    def __init__(self, merged: _Merged, taken: dict[str, StageInput]) -> None:
        self._merged, self._taken = merged, taken
        self._sources: dict[str, Source] = {}
        self._windows: list[SeqWindow] = []
        self._names: set[str] = set()

    def change(self, node: Node) -> Node:
        """The replacement of a node whose inputs are rewritten."""
        match node:
            case Source(input=name) if name in self._merged.alias:
                return self._source(node)
            case SeqWindow(input=Project(input=Source()) as renamed) if renamed.renames is not None:
                return Project(self._window(_below(node, renamed)), renamed.columns)
            case SeqWindow():
                return self._window(node)
        return node

    def _source(self, node: Source) -> Node:
        leader = self._merged.leader.get(node.input)
        name = leader.name if leader else node.input
        source = self._sources.setdefault(name, replace(node, input=name, of=self._taken[name].schema))
        if node.schema == source.schema:
            return source
        own, alias = f"{self._merged.alias[node.input]}.", f"{self._merged.alias[name]}."
        old = [alias + n.removeprefix(own) for n in node.schema.names]
        columns = [Column(o, source.schema.field(o).type) for o in old]
        return Project(source, tuple(zip(node.schema.names, columns, strict=True)))

    def _window(self, node: SeqWindow) -> SeqWindow:
        """An existing equal window, or the new one with a store, which may be another window's."""
        if node.slide is not None:
            return node
        over = [w for w in self._windows if w.input is node.input]
        for window in over:
            if replace(window, store="", longer=0) == node:
                return window
        others = [w for w in over if w.kind == node.kind == "range" and w.size is not None]
        if others and node.size is not None:
            first = others[0]
            assert first.size is not None
            node = replace(node, store=first.store, longer=node.size - first.size)
        else:
            node = replace(node, store=self._name(node.input))
        self._windows.append(node)
        return node

    def _name(self, below: Node) -> str:
        while below.inputs and not isinstance(below, Source):
            below = below.inputs[0]
        base = below.input if isinstance(below, Source) else "window"
        found = next(
            n for n in (base if k == 1 else f"{base} ({k})" for k in count(1)) if n not in self._names
        )
        self._names.add(found)
        return found


def _below(window: SeqWindow, renamed: Project) -> SeqWindow:
    """The same window below a projection that renames."""
    names = renamed.renames or {}
    return replace(
        window,
        input=renamed.input,
        partition_by=tuple(names[c] for c in window.partition_by),
        keep=tuple(_renamed(k, lambda n: names[n]) for k in window.keep),
    )


def _rewritten(node: Node, change: Callable[[Node], Node], done: dict[int, Node]) -> Node:
    """A plan with each node changed after its inputs; a node with several readers stays one."""
    if id(node) not in done:
        new: dict[str, Any] = {}
        for f in fields(node):
            value = getattr(node, f.name)
            if isinstance(value, Node):
                new[f.name] = _rewritten(value, change, done)
            elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
                new[f.name] = tuple(_rewritten(v, change, done) for v in value)
        done[id(node)] = change(replace(node, **new) if new else node)
    return done[id(node)]
