"""Running operators with the queues between them, as a graph and a scheduler see them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.engine import overflow
from penstock.engine.element import FOREVER, Chunk
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.store import Store
from penstock.engine.synopses.stub import Stub
from penstock.errors import PenstockError
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
    waits for its snapshot and drops its input. ``first``: the first instant that it sees, if it was started
    later than others.
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
        self.loading = self.failing = False
        self.first: int | None = None
        self.slice = 0
        self.consumed = self.elements = 0
        self.seconds = 0.0
        self.stores: dict[str, Store] = {}
        self._before = (0, 0)
        self._began = self._interval = 0.0
        self._described: tuple[Node, str] | None = None

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

    def begin(self) -> None:
        """Begin a step, for the measurements of the last one."""
        now = time.perf_counter()
        self._interval, self._began = now - self._began if self._began else 0.0, now
        self._before = self.consumed, self.elements

    def close(self) -> None:
        """End it: nobody reads its output any more."""
        for producer in self.producers:
            at = [producer.outputs.index(q) for q in self.inputs if q in producer.outputs]
            for place in sorted(at, reverse=True):
                del producer.outputs[place], producer.readers[place]
        for stub in {id(s): s for s in synopses(self.operator) if isinstance(s, Stub)}.values():
            stub.store.detach(stub)
        self.operator.close()

    def attempt(self, clock: Clock) -> str | None:
        """Process the next slice; returns the error if it cannot, itself or what it reads."""
        if not self.failing:
            failing = next((p for p in self.producers if p.failing), None)
            if failing is None:
                try:
                    self.run(clock)
                    return None
                except MemoryError:
                    raise
                except Exception as error:
                    self.failing = True
                    self.slice += 1
                    return str(error) if isinstance(error, PenstockError) else repr(error)
            self.failing = True
        self.slice += 1
        return None

    def run(self, clock: Clock) -> None:
        """Process the next slice."""
        began = time.perf_counter()
        if self.first is not None and clock.first is not None:
            tables = clock.tables and self.first < clock.now
            clock = replace(clock, first=max(clock.first, self.first), tables=tables)
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

    def throughput(self) -> Iterator[Reading]:
        """Elements emitted per second since the step before, if there was one."""
        if self._interval:
            yield Reading(Property.THROUGHPUT, (self.elements - self._before[1]) / self._interval)

    def measure(self) -> Iterator[Reading]:
        """The measurements of the operator and its input queues."""
        return under(self.id, Kind.OPERATOR, self._own())

    def _description(self) -> str:
        """What its node says of itself: asked for once, since each step publishes it."""
        if self._described is None or self._described[0] is not self.node:
            self._described = self.node, self.node.describe()
        return self._described[1]

    def _own(self) -> Iterator[Reading]:
        yield Reading(Property.NAME, 0, self.node.name)
        yield Reading(Property.DESCRIPTION, 0, self._description())
        yield Reading(Property.ROWS, self.operator.rows())
        yield Reading(Property.BYTES, self.operator.bytes())
        yield Reading(Property.ELEMENTS, self.elements)
        yield Reading(Property.SECONDS, self.seconds)
        consumed = self.consumed - self._before[0]
        if consumed:
            yield Reading(Property.SELECTIVITY, (self.elements - self._before[1]) / consumed)
        yield from self.throughput()
        for name in self.stores:
            yield Reading(Property.STORE, 0, f"store/{name}")
        yield from self.operator.measure()
        for number, (queue, feeder) in enumerate(zip(self.inputs, self.feeders, strict=True)):
            waits = Reading(Property.ROWS, len(queue)), Reading(Property.ELEMENTS, queue.elements)
            yield from under(f"queue.{number}", Kind.QUEUE, [*waits, Reading(Property.FROM, 0, feeder)])


def producers_first(entity: Entity) -> Iterator[Entity]:
    """An operator after those that its output depends on, each once."""
    done: set[Entity] = set()

    def after_producers(found: Entity) -> Iterator[Entity]:
        if found not in done:
            done.add(found)
            for producer in found.producers:
                yield from after_producers(producer)
            yield found

    return after_producers(entity)


def upstream(entity: Entity) -> Iterator[Entity]:
    """An operator and those that its output depends on, each once."""
    done, waiting = set[Entity](), [entity]
    while waiting:
        found = waiting.pop()
        if found not in done:
            done.add(found)
            yield found
            waiting += reversed(found.producers)


def synopses(value: Any) -> Iterator[Stateful]:
    """The synopses in an object's state, which other operators may share."""
    parts = value.state().values() if isinstance(value, Stateful) else value
    for part in parts.values() if isinstance(parts, dict) else parts:
        if isinstance(part, Stateful):
            yield part
            yield from (getattr(part, name) for name in part.bound_to)
        if isinstance(part, Stateful | list | tuple | dict):
            yield from synopses(part)
