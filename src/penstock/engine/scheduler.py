"""Running operators, the queues between them, and the scheduler that decides which operator runs next.

A graph holds the started operators of a plan. Equal nodes are one operator, which runs once and fills a queue
per reader. A scheduler is any policy that runs operators until every queue is empty.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operators.source import Source
from penstock.engine.snapshot import Stateful
from penstock.measurement import Kind, Property, Reading, under


class Queue:
    """Chunks from a producer to a consumer, which takes all of them at once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: list[Chunk] = []
        self.elements = 0

    def put(self, chunk: Chunk) -> None:
        """Add a chunk at the end."""
        self._chunks.append(chunk)
        self.elements += len(chunk)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def take(self) -> Chunk:
        """Remove all chunks and return them as one."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else Chunk.concat(chunks, self._schema)


class Entity:
    """A running operator with its queues and its cost so far; ``feeders`` name what fills the queues.

    Without ``producers`` it is a source. While ``loading``, it waits for its snapshot and drops its input.
    """

    def __init__(
        self, id: str, node: Node, inputs: list[Queue], producers: tuple[Entity, ...], context: StartContext
    ) -> None:
        self.id = id
        self.node = node
        self.inputs = inputs
        self.producers = producers
        self.feeders = [p.id for p in producers]
        self.operator: Operator = node.start(context)
        self.outputs: list[Queue] = []
        self.loading = False
        self.elements = 0
        self.seconds = 0.0

    def new_output(self) -> Queue:
        """Add a queue for its output."""
        self.outputs.append(Queue(self.node.schema))
        return self.outputs[-1]

    def run(self, clock: Clock) -> None:
        """Process all chunks in the input queues."""
        began = time.perf_counter()
        chunks = [q.take() for q in self.inputs]
        if self.loading:
            return
        chunk = self.operator.run(chunks, clock)
        for queue in self.outputs:
            queue.put(chunk)
        self.elements += len(chunk)
        self.seconds += time.perf_counter() - began

    def horizon(self) -> int:
        """As the operator's; what is made of tables alone needs no row of a stream."""
        return int(FOREVER) if self.node.is_static else self.operator.horizon()

    def measure(self) -> Iterator[Reading]:
        """The measurements of the operator and its input queues."""
        return under(self.id, Kind.OPERATOR, self._own())

    def _own(self) -> Iterator[Reading]:
        yield Reading(Property.NAME, 0, self.node.name)
        yield Reading(Property.DESCRIPTION, 0, self.node.describe())
        yield Reading(Property.ROWS, self.operator.rows())
        yield Reading(Property.BYTES, self.operator.bytes())
        yield Reading(Property.ELEMENTS, self.elements)
        yield Reading(Property.SECONDS, self.seconds)
        yield from self.operator.measure()
        for number, (queue, feeder) in enumerate(zip(self.inputs, self.feeders, strict=True)):
            waits = Reading(Property.ROWS, len(queue)), Reading(Property.ELEMENTS, queue.elements)
            yield from under(f"queue.{number}", Kind.QUEUE, [*waits, Reading(Property.FROM, 0, feeder)])


class Graph:
    """The operators of some roots, producers before consumers.

    ``first`` is the number of the first operator, if a stage has several graphs.
    """

    def __init__(self, roots: Mapping[str, Node], context: StartContext, first: int = 0) -> None:
        self.entities: list[Entity] = []
        self._feeds: dict[str, list[Queue]] = {}
        self._context, self._first = context, first
        built: dict[Any, Entity] = {}
        self._results = {name: self._build(root, built).new_output() for name, root in roots.items()}
        self._synopses = {e: {id(s) for s in _synopses(e.operator)} for e in self.entities}
        self._past_readers: set[Entity] = set()
        for e in self.entities:
            if any(p.node.depends_on_past or p in self._past_readers for p in e.producers):
                self._past_readers.add(e)

    def _build(self, node: Node, built: dict[Any, Entity]) -> Entity:
        key = _identity(node)
        if key not in built:
            producers = tuple(self._build(i, built) for i in node.inputs)
            inputs = [p.new_output() for p in producers]
            number = self._first + len(self.entities) + 1
            entity = Entity(f"{node.name}.{number}", node, inputs, producers, self._context)
            if isinstance(node, Source):
                entity.inputs = [Queue(node.schema)]
                self._feeds.setdefault(node.input, []).extend(entity.inputs)
                entity.feeders = [f"input/{node.input}"]
            built[key] = entity
            self.entities.append(entity)
        return built[key]

    def feed(self, input: str, chunk: Chunk) -> None:
        """Put rows into the queues of the sources that read an input."""
        for queue in self._feeds.get(input, ()):
            queue.put(chunk)

    def take(self) -> dict[str, Chunk]:
        """The output of the roots, by name."""
        return {name: queue.take() for name, queue in self._results.items()}

    def unreplayable(self) -> set[Entity]:
        """The operators whose state cannot be rebuilt from a bounded part of the input, and their dependents.

        These are the operators that depend on all of their input or on past states of a relation, those that
        read their output, those whose row ids they hold, and those that share a synopsis with them.
        """
        found = {
            e
            for e in self.entities
            if e.horizon() == BEFORE_TIME or (e in self._past_readers and e.operator.has_state)
        }
        while more := self._tied_to(found) - found:
            found |= more
        return found

    def _tied_to(self, found: set[Entity]) -> set[Entity]:
        readers = {e for e in self.entities if found.intersection(e.producers)}
        holders = [e for e in found if e.operator.has_state or e.node.has_ids]
        named = {p for e in holders for p in e.producers if p.node.has_ids}
        shared = set().union(*(self._synopses[e] for e in found))
        return readers | named | {e for e in self.entities if self._synopses[e] & shared}


def _identity(node: Node) -> Any:
    """The key under which equal nodes become one operator; an unhashable node equals only itself."""
    try:
        hash(node)
    except TypeError:
        return id(node)
    return node


def _synopses(value: Any) -> Iterator[Stateful]:
    """The synopses in an object's state, which other operators may share."""
    parts = value.state().values() if isinstance(value, Stateful) else value
    for part in parts.values() if isinstance(parts, dict) else parts:
        if isinstance(part, Stateful):
            yield part
            yield from (getattr(part, name) for name in part.bound_to)
        if isinstance(part, Stateful | list | tuple | dict):
            yield from _synopses(part)


class Scheduler(Protocol):
    """A policy: in which order, and how often, the operators of a graph run within a step."""

    def step(self, graph: Graph, clock: Clock) -> None:
        """Run operators until no queue between them holds anything."""


class ProducersFirst:
    """Each operator once, producers before consumers, which empties every queue."""

    def step(self, graph: Graph, clock: Clock) -> None:
        for entity in graph.entities:
            entity.run(clock)
