"""The scheduler: which operator runs next.

Now: producers before consumers, each once a step, which empties every queue within the step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operators.source import Source
from penstock.engine.queue import Queue
from penstock.measurement import Kind, Property, Reading, under


class Entity:
    """A running operator with its queues and what it has cost so far; ``feeders`` fill the queues."""

    def __init__(
        self, id: str, node: Node, inputs: list[Queue], feeders: list[str], context: StartContext
    ) -> None:
        self.id = id
        self.node = node
        self.feeders = feeders
        self.operator: Operator = node.start(context)
        self.inputs = inputs
        self.outputs: list[Queue] = []
        self.elements = 0
        self.seconds = 0.0

    def new_output(self) -> Queue:
        """One more queue that gets what it gives."""
        self.outputs.append(Queue(self.node.schema))
        return self.outputs[-1]

    def run(self, clock: Clock) -> None:
        """One turn: everything that waits in the input queues."""
        began = time.perf_counter()
        chunk = self.operator.run([q.take() for q in self.inputs], clock)
        for queue in self.outputs:
            queue.put(chunk)
        self.elements += len(chunk)
        self.seconds += time.perf_counter() - began

    def measure(self) -> Iterator[Reading]:
        """What the operator and its input queues publish."""
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


class Scheduler:
    """Runs a plan. ``feeds`` are the queues that the input manager fills, by the source's input name.

    A node that several others read runs once and fills a queue for each.
    """

    def __init__(self, root: Node, context: StartContext) -> None:
        self._context = context
        self.entities: list[Entity] = []
        self.feeds: dict[str, Queue] = {}
        self._result = self._build(root, {}).new_output()

    def _build(self, node: Node, built: dict[int, Entity]) -> Entity:
        if id(node) not in built:
            if isinstance(node, Source):
                inputs = [self.feeds.setdefault(node.input, Queue(node.schema))]
                feeders = [f"input/{node.input}"]
            else:
                producers = [self._build(i, built) for i in node.inputs]
                inputs = [p.new_output() for p in producers]
                feeders = [p.id for p in producers]
            name = f"{node.name}.{len(self.entities) + 1}"
            built[id(node)] = Entity(name, node, inputs, feeders, self._context)
            self.entities.append(built[id(node)])
        return built[id(node)]

    def step(self, clock: Clock) -> Chunk:
        """Run everything once; what the root gave."""
        for entity in self.entities:
            entity.run(clock)
        return self._result.take()
