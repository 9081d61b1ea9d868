"""Running operators and the queues between them.

A graph holds the started operators of a plan. Equal nodes are one operator, which runs once and fills a queue
per reader. The input of a step comes in one or more *slices*, each with its own clock. Every operator
processes the slices in their order, each after its producers have. Within that, a scheduler chooses who runs
next (:mod:`penstock.engine.scheduler`), which changes no result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from penstock.engine import overflow
from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operators.source import Source
from penstock.engine.snapshot import Stateful
from penstock.measurement import Kind, Property, Reading, under


class Queue:
    """Chunks from a producer to a consumer, by slice."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: deque[tuple[int, Chunk]] = deque()
        self._length = 0
        self.elements = 0

    def put(self, slice: int, chunk: Chunk) -> None:
        """Add a chunk of a slice at the end."""
        if len(chunk):
            self._chunks.append((slice, overflow.waiting(chunk)))
            self._length += len(chunk)
            self.elements += len(chunk)

    def __len__(self) -> int:
        return self._length

    def take(self, slice: int) -> Chunk:
        """Remove the chunks up to a slice and return them as one."""
        chunks = []
        while self._chunks and self._chunks[0][0] <= slice:
            chunks.append(overflow.taken(self._chunks.popleft()[1]))
        found = chunks[0] if len(chunks) == 1 else Chunk.concat(chunks, self._schema)
        self._length -= len(found)
        return found


class Entity:
    """A running operator with its queues and its cost so far; ``feeders`` name what fills the queues.

    Without ``producers`` it is a source. It has processed the slices before ``slice``. While ``loading``, it
    waits for its snapshot and drops its input.
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
        self.readers: list[Entity] = []
        self.outputs: list[Queue] = []
        self.results: list[Queue] = []
        self.loading = False
        self.slice = 0
        self.consumed = self.elements = 0
        self.seconds = 0.0

    def output_to(self, reader: Entity) -> Queue:
        """Add a queue for an operator that reads its output."""
        self.readers.append(reader)
        self.outputs.append(Queue(self.node.schema))
        return self.outputs[-1]

    def result(self) -> Queue:
        """The queue of what leaves the graph here."""
        self.results.append(Queue(self.node.schema))
        return self.results[-1]

    @property
    def queued(self) -> int:
        """Elements in the queues around it."""
        return sum(map(len, (*self.inputs, *self.outputs)))

    @property
    def ready(self) -> bool:
        """Whether its producers have processed its next slice."""
        return all(p.slice > self.slice for p in self.producers)

    @property
    def selectivity(self) -> float:
        """Elements that stay in the graph per element consumed."""
        return self.elements * len(self.readers) / self.consumed if self.consumed else 1.0

    @property
    def cost(self) -> float:
        """Seconds per element consumed."""
        return self.seconds / self.consumed if self.consumed else 0.0

    def run(self, clock: Clock) -> None:
        """Process the next slice."""
        began = time.perf_counter()
        chunks = [q.take(self.slice) for q in self.inputs]
        if not self.loading:
            chunk = self.operator.run(chunks, clock)
            for queue in (*self.outputs, *self.results):
                queue.put(self.slice, chunk)
            self.elements += len(chunk)
        self.consumed += sum(map(len, chunks))
        self.slice += 1
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

    ``first`` is the number of the first operator, if a stage has several graphs. ``queued`` counts the
    elements in the queues now, ``queue_peak`` the most of them at once in the last step.
    """

    def __init__(self, roots: Mapping[str, Node], context: StartContext, first: int = 0) -> None:
        self.entities: list[Entity] = []
        self.clocks: deque[Clock] = deque()
        self.queue_peak = 0
        self._slice = self.queued = 0
        self._feeds: dict[str, list[Queue]] = {}
        self._context, self._first = context, first
        built: dict[Any, Entity] = {}
        self._results = {name: self._build(root, built).result() for name, root in roots.items()}
        self._synopses = {e: {id(s) for s in _synopses(e.operator)} for e in self.entities}
        self._past_readers: set[Entity] = set()
        for e in self.entities:
            if any(p.node.depends_on_past or p in self._past_readers for p in e.producers):
                self._past_readers.add(e)

    def _build(self, node: Node, built: dict[Any, Entity]) -> Entity:
        key = _identity(node)
        if key not in built:
            producers = tuple(self._build(i, built) for i in node.inputs)
            number = self._first + len(self.entities) + 1
            entity = Entity(f"{node.name}.{number}", node, [], producers, self._context)
            entity.inputs = [p.output_to(entity) for p in producers]
            if isinstance(node, Source):
                entity.inputs = [Queue(node.schema)]
                self._feeds.setdefault(node.input, []).extend(entity.inputs)
                entity.feeders = [f"input/{node.input}"]
            built[key] = entity
            self.entities.append(entity)
        return built[key]

    def open(self, clock: Clock) -> None:
        """Begin a slice; what is fed from now on is part of it."""
        if not self.clocks:
            self.queue_peak = 0
        self.clocks.append(clock)

    def feed(self, input: str, chunk: Chunk) -> None:
        """Put rows of the last opened slice into the queues of the sources that read an input."""
        for queue in self._feeds.get(input, ()):
            queue.put(self._slice + len(self.clocks) - 1, chunk)
            self.queued += len(chunk)
        self.queue_peak = max(self.queue_peak, self.queued)

    def run(self, entity: Entity) -> None:
        """Let an operator process its next slice."""
        before = entity.queued
        entity.run(self.clocks[entity.slice - self._slice])
        self.queued += entity.queued - before
        self.queue_peak = max(self.queue_peak, self.queued)

    def kept(self) -> list[Any]:
        """What holds state: operators and queues."""
        queues = [q for e in self.entities for q in (*e.inputs, *e.outputs, *e.results)]
        return [*(e.operator for e in self.entities), *queues]

    def pending(self) -> list[Entity]:
        """The operators that have slices to process and can."""
        last = self._slice + len(self.clocks)
        return [e for e in self.entities if e.slice < last and e.ready]

    def take(self) -> dict[str, Chunk]:
        """The output of the roots, by name, once every operator has processed all slices."""
        self._slice += len(self.clocks)
        self.clocks.clear()
        return {name: queue.take(self._slice) for name, queue in self._results.items()}

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
