"""Sharing within a stage: streams, windows and stores that a query names more than once (thesis 2.3.1).

Two places that read the same rows of a stream (the same filter, the same route to partitions) get one input,
whether they are in one query or in several of a pipeline. Names of columns are changed above what is shared:
equal filters and windows over an input are then equal nodes, which run once. Time windows over the same rows
that differ only in size share a store, of which each sees its own part. Every other window has its own store,
which the join and the expiry above it read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from penstock.engine.operator import Node, with_inputs
from penstock.engine.operators.project import Project
from penstock.engine.operators.select import Select
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.engine.stage import StageInput
from penstock.expression import Column, Expression, transform
from penstock.plan.physical import SourceInput, TableInput
from penstock.routing import Route

HostInput = SourceInput | TableInput


def shared(
    root: Node,
    stage_inputs: Sequence[StageInput],
    host_inputs: Sequence[HostInput],
) -> tuple[Node, tuple[StageInput, ...], tuple[HostInput, ...]]:
    """A stage's root and inputs without duplicates; the first of equal inputs stays."""
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
    return plain and route.places is None and not route.sliced and not any(a.by_source for a in route.axes)


def _rows(source: SourceInput) -> tuple[Any, ...]:
    """The rows that an input reads: of which stream, by what filter and route, in the stream's own names."""
    filter = source.filter and renamed(source.filter, _own_name(source.alias))
    return source.stream, filter, named(source.route, _own_name(source.alias))


def in_own_names(route: Route, alias: str) -> Route:
    """The route of a stream, whose keys are named by its columns, as they are without an alias."""
    return named(route, _own_name(alias))


def _own_name(alias: str) -> Callable[[str], str]:
    return lambda name: name.removeprefix(f"{alias}.")


def named(route: Route, name: Callable[[str], str]) -> Route:
    """A route whose columns have other names."""
    axes = (replace(a, keys=tuple(renamed(k, name) for k in a.keys)) for a in route.axes)
    return replace(route, axes=tuple(axes))


def renamed(expression: Expression, name: Callable[[str], str]) -> Expression:
    """An expression whose columns have other names."""
    return transform(expression, lambda e: Column(name(e.name), e.type) if isinstance(e, Column) else None)


class _Sharing:
    """Rewrites nodes from the leaves up."""

    def __init__(self, merged: _Merged, taken: dict[str, StageInput]) -> None:
        self._merged, self._taken = merged, taken
        self._sources: dict[str, Source] = {}

    def change(self, node: Node) -> Node:
        """The replacement of a node whose inputs are rewritten."""
        match node:
            case Source(input=name) if name in self._merged.alias:
                return self._source(node)
            case Select(input=Project() as over) if _renames_a_stream(over):
                return Project(_select_below(node, over), over.columns)
            case SeqWindow(input=Project() as over) if _renames_a_stream(over):
                return Project(_stored(_window_below(node, over)), over.columns)
            case SeqWindow():
                return _stored(node)
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


def _renames_a_stream(node: Project) -> bool:
    """Whether it only names the columns of a stream anew, which a filter or a window may do later."""
    below = node.input
    while isinstance(below, Select):
        below = below.input
    return node.renames is not None and isinstance(below, Source) and not below.table


def _select_below(node: Select, over: Project) -> Select:
    """The same filter below a projection that renames."""
    names = over.renames or {}
    return replace(
        node,
        input=over.input,
        conjuncts=tuple(renamed(p, lambda n: names[n]) for p in node.conjuncts),
    )


def _window_below(window: SeqWindow, over: Project) -> SeqWindow:
    """The same window below a projection that renames."""
    names = over.renames or {}
    return replace(
        window,
        input=over.input,
        partition_by=tuple(names[c] for c in window.partition_by),
        keep=tuple(renamed(k, lambda n: names[n]) for k in window.keep),
    )


def _stored(window: SeqWindow) -> SeqWindow:
    """The window with the name of its store, which follows from the rows in it: windows that agree on them
    find each other, whichever query they are in.
    """
    if window.slide is not None:
        return window
    grows = window.size is None
    ends_known = window.by_time and not grows
    own = (ends_known, grows, () if ends_known else window.partition_by, window.reader)
    digest = blake2b(repr((window.input, own)).encode(), digest_size=4).hexdigest()
    return replace(window, store=f"{_stream_of(window.input)} {digest}")


def _stream_of(node: Node) -> str:
    while node.inputs and not isinstance(node, Source):
        node = node.inputs[0]
    return node.input if isinstance(node, Source) else "window"


def _rewritten(node: Node, change: Callable[[Node], Node], done: dict[int, Node]) -> Node:
    """A plan with each node changed after its inputs; a node with several readers stays one."""
    if id(node) not in done:
        done[id(node)] = change(with_inputs(node, lambda i: _rewritten(i, change, done)))
    return done[id(node)]
