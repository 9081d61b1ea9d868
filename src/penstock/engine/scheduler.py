"""The scheduler: which operator runs next.

Now: producers before consumers, each once a step, which empties every queue within the step.
"""

from __future__ import annotations

import time

from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, Node, Operator
from penstock.engine.operators.source import Source
from penstock.engine.queue import Queue


class Entity:
    """A running operator with its queues and what it has cost so far."""

    def __init__(self, node: Node, inputs: list[Queue]) -> None:
        self.node = node
        self.operator: Operator = node.start()
        self.inputs = inputs
        self.output = Queue(node.schema)
        self.seconds = 0.0

    def run(self, clock: Clock) -> None:
        """One turn: everything that waits in the input queues."""
        began = time.perf_counter()
        self.output.put(self.operator.run([q.take() for q in self.inputs], clock))
        self.seconds += time.perf_counter() - began


class Scheduler:
    """Runs a plan. ``feeds`` are the queues that the input manager fills, by the source's input name."""

    def __init__(self, root: Node) -> None:
        self.entities: list[Entity] = []
        self.feeds: dict[str, Queue] = {}
        self._root = self._build(root)

    def _build(self, node: Node) -> Entity:
        if isinstance(node, Source):
            queue = self.feeds[node.input] = Queue(node.schema)
            entity = Entity(node, [queue])
        else:
            entity = Entity(node, [self._build(i).output for i in node.inputs])
        self.entities.append(entity)
        return entity

    def step(self, clock: Clock) -> Chunk:
        """Run everything once; what the root gave."""
        for entity in self.entities:
            entity.run(clock)
        return self._root.output.take()
