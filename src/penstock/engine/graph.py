"""Running operators and the queues between them.

A graph holds the started operators of a plan. Equal nodes are one operator, which runs once and fills a queue
per reader. The input of a step comes in one or more *slices*, each with its own clock. Every operator
processes the slices in their order, each after its producers have. Within that, a scheduler chooses who runs
next (:mod:`penstock.engine.scheduler`), which changes no result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from penstock.engine.element import BEFORE_TIME, Chunk
from penstock.engine.entity import Entity, Queue, producers_first, synopses, upstream
from penstock.engine.knobs import Knobs
from penstock.engine.operator import Clock, Node, StartContext
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.since import Since
from penstock.engine.operators.source import Source
from penstock.engine.snapshot import decode, encode
from penstock.engine.synopses.store import Store
from penstock.engine.synopses.stub import Stub
from penstock.measurement import Kind, Property, Reading, under


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
                readings = [Reading(Property.QUERIES, len(roots), ", ".join(roots))]
                readings.append(
                    Reading(Property.UNSHARED_BYTES, len(roots) * entity.operator.unshared_bytes())
                )
                yield from under(entity.id, Kind.OPERATOR, readings)
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
