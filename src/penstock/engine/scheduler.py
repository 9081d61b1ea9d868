"""The scheduler: which operator runs next.

Now: producers before consumers, each once a step, which empties every queue within the step.
"""

from __future__ import annotations

import time

from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operators.source import Source
from penstock.engine.queue import Queue


class Entity:
    """A running operator with its queues and what it has cost so far."""

    def __init__(self, node: Node, inputs: list[Queue], context: StartContext) -> None:
        self.node = node
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
            else:
                inputs = [self._build(i, built).new_output() for i in node.inputs]
            built[id(node)] = Entity(node, inputs, self._context)
            self.entities.append(built[id(node)])
        return built[id(node)]

    def step(self, clock: Clock) -> Chunk:
        """Run everything once; what the root gave."""
        for entity in self.entities:
            entity.run(clock)
        return self._result.take()
