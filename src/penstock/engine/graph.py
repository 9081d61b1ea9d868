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
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from penstock.engine import overflow
from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.since import Since
from penstock.engine.operators.source import Source
from penstock.engine.snapshot import Stateful, decode, encode
from penstock.engine.synopses.store import Store, Stub
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


class Graph:
    """The operators of some roots, producers before consumers; roots come and go between steps.

    ``numbers`` are those of the operators, if a stage has several graphs. ``queued`` counts the elements in
    the queues now, ``queue_peak`` the most of them at once in the last step. ``isolates``: an operator that
    fails ends only the roots that depend on it; ``failed`` has the errors of the last step by root.
    """

    def __init__(
        self, context: StartContext, numbers: Iterator[int] | None = None, isolates: bool = False
    ) -> None:
        self.entities: list[Entity] = []
        self.clocks: deque[Clock] = deque()
        self.queue_peak = 0
        self.failed: dict[str, str] = {}
        self._slice = self.queued = 0
        self._feeds: dict[str, list[Queue]] = {}
        self.context, self._numbers, self._isolates = context, numbers or count(1), isolates
        self._built: dict[Any, Entity] = {}
        self._roots: dict[str, tuple[Entity, Queue]] = {}
        self._synopses: dict[Entity, set[int]] = {}
        self._past_readers: set[Entity] = set()
        self._knobs = Knobs()

    def configure(self, knobs: Knobs) -> None:
        """Pass changed settings to the operators, and to those that start later."""
        self._knobs = knobs
        for entity in self.entities:
            entity.operator.configure(knobs.of_operator(entity.id))

    def add(self, name: str, root: Node, first: int | None = None) -> None:
        """Start what a root needs and does not run already. ``first``: the first instant that it sees."""
        entity = self._build(root, first)
        self._roots[name] = entity, entity.result()
        self._changed()

    def remove(self, name: str) -> None:
        """End a root, and the operators that no other root needs."""
        entity, queue = self._roots.pop(name)
        entity.results.remove(queue)
        self._collect()

    def share(self, name: str, root: Node, since: int) -> list[str]:
        """Let a root that sees rows ``since`` an instant use what others run over all rows, where it is the
        same by now; ``root`` is its plan over all rows. Returns the roots that do: it and its equals.

        The state of an operator depends on the rows from its horizon on. If the operators that others run
        depend only on rows since the instant, they have the state that the root's own have.
        """
        entity, _ = self._roots[name]
        changed: set[Entity] = set()
        theirs = self._theirs(root, entity, changed)
        if theirs is None or self.unreplayable() & theirs:
            return []
        equals = [n for n, (e, _) in self._roots.items() if e is entity]
        others = [e for e, _ in self._roots.values() if e is not entity]
        if any(not changed.isdisjoint(upstream(e)) for e in others):
            return []  # they see rows since the instant, too, by operators that would change
        lag = sum(e.node.lag for e in theirs)
        if any(e.horizon() - lag < since or (e.first is not None and e.first > since) for e in theirs):
            return []
        new = self._adopted(root, entity)
        for equal in equals:
            queue = self._roots[equal][1]
            entity.results.remove(queue)
            new.results.append(queue)
            self._roots[equal] = new, queue
        self._collect()
        self.entities = list(dict.fromkeys(e for r, _ in self._roots.values() for e in producers_first(r)))
        return equals

    def _theirs(self, node: Node, own: Entity, changed: set[Entity]) -> set[Entity] | None:
        """The operators of others that stand for a root's own, with all below them.

        None if one of its own would have to go on with the row ids, or the store, of another. ``changed``
        gets the own ones that go on with another input.
        """
        other = self._built.get(_identity(node))
        if other is not None:
            return set(upstream(other))
        if _store_of(node) != _store_of(own.node) and _store_of(node) in self.context.stores:
            return None
        changed.add(own)
        found: set[Entity] = set()
        for below, producer in zip(node.inputs, own.producers, strict=True):
            passed = _without_since(below, producer)
            theirs = self._theirs(below, passed, changed)
            moved = self._built.get(_identity(below)) not in (None, passed)
            apart = _store_of(below) != _store_of(producer.node) or (below.has_ids and not below.stored)
            if theirs is None or (moved and apart):
                return None
            found |= theirs
        return found

    def _adopted(self, node: Node, own: Entity) -> Entity:
        """The operator of a node: that of others, or the own one, which then reads theirs."""
        key = _identity(node)
        if key in self._built:
            return self._built[key]
        self._built = {k: e for k, e in self._built.items() if e is not own}
        producers = []
        for place, (below, producer) in enumerate(zip(node.inputs, own.producers, strict=True)):
            new = self._adopted(below, _without_since(below, producer))
            if new is not producer:
                at = producer.outputs.index(own.inputs[place])
                del producer.outputs[at], producer.readers[at]
                own.inputs[place] = new.output_to(own)
            producers.append(new)
        if isinstance(node, SeqWindow) and isinstance(own.node, SeqWindow):
            self.context.stores.rename(own.node.store, node.store)
        own.node, own.producers, own.feeders = (
            node,
            tuple(producers),
            [p.id for p in producers] or own.feeders,
        )
        self._built[key] = own
        return own

    def separate(self, name: str, root: Node) -> None:
        """Give a root operators of its own, which go on with the state of those that it has.

        ``root`` is its plan with other streams and stores, the rest as it is.
        """
        old, queue = self._roots[name]
        known = set(self.entities)
        new = self._build(root, old.first)
        pairs = {own: its for own, its in _pairs(new, old) if own not in known}
        states = decode(encode([its.operator for its in pairs.values()]))
        for own, state in zip(pairs, states, strict=True):
            own.operator.restore(state)
        old.results.remove(queue)
        new.results.append(queue)
        self._roots[name] = new, queue
        self._collect()
        self.entities = list(dict.fromkeys(e for r, _ in self._roots.values() for e in producers_first(r)))

    def _collect(self) -> None:
        """End the operators that no root needs."""
        needed: set[Entity] = set()
        for root, _ in self._roots.values():
            needed.update(upstream(root))
        for gone in (e for e in self.entities if e not in needed):
            gone.close()
            for queue in gone.inputs:
                self._feeds = {name: [q for q in f if q is not queue] for name, f in self._feeds.items()}
        self.entities = [e for e in self.entities if e in needed]
        self._built = {key: e for key, e in self._built.items() if e in needed}
        self._changed()

    def reads(self, input: str) -> bool:
        """Whether some operator reads an input."""
        return bool(self._feeds.get(input))

    def root(self, name: str) -> Entity:
        """The operator whose output is a root's."""
        return self._roots[name][0]

    @property
    def roots(self) -> list[str]:
        return list(self._roots)

    def users(self) -> dict[Entity, list[str]]:
        """The roots that each operator works for."""
        found: dict[Entity, list[str]] = {e: [] for e in self.entities}
        for name, (root, _) in self._roots.items():
            for entity in dict.fromkeys(upstream(root)):
                found[entity].append(name)
        return found

    def unshared_bytes(self) -> int:
        """Bytes of synopses if each root had its own."""
        return sum(len(roots) * e.operator.unshared_bytes() for e, roots in self.users().items())

    def measure(self) -> Iterator[Reading]:
        """The measurements of the operators, their queues, the stores, and the roots."""
        for entity, roots in self.users().items():
            yield from entity.measure()
            if self._isolates:
                told = [Reading(Property.QUERIES, len(roots), ", ".join(roots))]
                told.append(Reading(Property.UNSHARED_BYTES, len(roots) * entity.operator.unshared_bytes()))
                yield from under(entity.id, Kind.OPERATOR, told)
        yield from self._measure_stores()
        for name, (entity, queue) in self._roots.items():
            own = [Reading(Property.FROM, 0, entity.id), Reading(Property.ELEMENTS, queue.elements)]
            yield from under(f"root/{name}", Kind.ROOT, [*own, *entity.throughput()])

    def _measure_stores(self) -> Iterator[Reading]:
        """Each store once, however many operators use it."""
        users: dict[str, list[Entity]] = {}
        for entity in self.entities:
            for name in entity.stores:
                users.setdefault(name, []).append(entity)
        for name, used_by in users.items():
            store = used_by[0].stores[name]
            own = [Reading(Property.ROWS, len(store)), Reading(Property.BYTES, store.nbytes())]
            own.append(Reading(Property.STUBS, len(store.stubs)))
            readings = [*own, *(Reading(Property.USED_BY, 0, e.id) for e in used_by)]
            yield from under(f"store/{name}", Kind.STORE, readings)

    def _changed(self) -> None:
        self._name_stores()
        self._synopses = {e: {id(s) for s in synopses(e.operator)} for e in self.entities}
        self._past_readers = set()
        for e in self.entities:
            if any(p.node.depends_on_past or p in self._past_readers for p in e.producers):
                self._past_readers.add(e)

    def _name_stores(self) -> None:
        """Name the stores that operators fill or read by the operator that was built first."""
        names: dict[int, str] = {}
        for entity in self.entities:
            found = [s.store if isinstance(s, Stub) else s for s in synopses(entity.operator)]
            stores = {id(s): s for s in found if isinstance(s, Store)}
            for number, own in enumerate(stores):
                names.setdefault(own, entity.id if number == 0 else f"{entity.id}+{number}")
            entity.stores = {names[own]: store for own, store in stores.items()}

    def _build(self, node: Node, first: int | None) -> Entity:
        key = _identity(node)
        if key not in self._built:
            producers = tuple(self._build(i, first) for i in node.inputs)
            entity = Entity(f"{node.name}.{next(self._numbers)}", node, [], producers, self.context)
            entity.slice, entity.first = self._slice, first
            entity.inputs = [p.output_to(entity) for p in producers]
            if isinstance(node, Source):
                entity.inputs = [Queue(node.schema)]
                self._feeds.setdefault(node.input, []).extend(entity.inputs)
                entity.feeders = [f"input/{node.input}"]
            entity.operator.configure(self._knobs.of_operator(entity.id))
            self._built[key] = entity
            self.entities.append(entity)
        return self._built[key]

    def open(self, clock: Clock) -> None:
        """Begin a slice; what is fed from now on is part of it."""
        if not self.clocks:
            self.queue_peak = 0
            for entity in self.entities:
                entity.begin()
        self.clocks.append(clock)

    def feed(self, input: str, chunk: Chunk) -> None:
        """Put rows of the last opened slice into the queues of the sources that read an input."""
        for queue in self._feeds.get(input, ()):
            queue.put(self._slice + len(self.clocks) - 1, chunk)
            self.queued += len(chunk)
        self.queue_peak = max(self.queue_peak, self.queued)

    def run(self, entity: Entity) -> None:
        """Let an operator process its next slice."""
        before, clock = entity.queued, self.clocks[entity.slice - self._slice]
        if not self._isolates:
            entity.run(clock)
        elif (error := entity.attempt(clock)) is not None:
            self.failed |= {n: error for n, (root, _) in self._roots.items() if entity in upstream(root)}
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
        return {name: queue.take(self._slice) for name, (_, queue) in self._roots.items()}

    def unreplayable(self, reaches: Mapping[Entity, int] | None = None) -> set[Entity]:
        """The operators whose state cannot be rebuilt from a bounded part of the input, and their dependents.

        These are the operators that depend on all of their input or on past states of a relation, those that
        read their output, those whose row ids they hold, and those that share a synopsis with them.
        ``reaches``: the horizon of each operator, if known.
        """
        reaches = {e: e.horizon() for e in self.entities} if reaches is None else reaches
        found = {
            e
            for e in self.entities
            if reaches[e] == BEFORE_TIME or (e in self._past_readers and e.operator.has_state)
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


def _store_of(node: Node) -> str | None:
    return None if node.stored is None else node.stored.store


def _without_since(node: Node, entity: Entity) -> Entity:
    """The operator of a node; if there is a bound on the first instant above it, what is below that."""
    return entity.producers[0] if isinstance(entity.node, Since) and not isinstance(node, Since) else entity


def _pairs(a: Entity, b: Entity) -> Iterator[tuple[Entity, Entity]]:
    """The operators at the same places of two plans of the same form, producers first."""
    for below, other in zip(a.producers, b.producers, strict=True):
        yield from _pairs(below, other)
    yield a, b


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
