"""The common part of except, intersect and duplicate-eliminate: counts of equal rows on each side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.element import BEFORE_TIME, Chunk, Int64s, Pattern
from penstock.engine.operator import Clock, Growth, Node, Operator, Parts, StartContext
from penstock.engine.synopses.bags import Bags, Events
from penstock.engine.synopses.directory import Directory


@dataclass(frozen=True)
class Bag(Parts):
    """A relation of which each row's number follows from its numbers in the inputs."""

    @property
    def pattern(self) -> Pattern:
        grows = all(p.pattern is Pattern.APPEND for p in self.parts)
        return Pattern.APPEND if grows else Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """Counts need all elements of an instant."""
        return True

    def growth(self) -> Iterator[Growth]:
        return (Growth(p, "each different row") for p in self.parts if p.accumulates)

    @abstractmethod
    def multiplicity(self, counts: np.ndarray) -> Int64s:
        """How often a row with these counts (one column per side) is in the output."""

    def start(self, context: StartContext) -> Operator:
        return _Bag(self)


class CountingOperator(Operator):
    """Counts rows of the inputs of a node in ``bags``."""

    saved = ("_bags",)

    def __init__(self, node: Node, bags: Bags) -> None:
        self._schema, self._bags = node.schema, bags
        self._grows = any(i.pattern is Pattern.APPEND for i in node.inputs)

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()

    def rows(self) -> int:
        return self._bags.rows()

    def bytes(self) -> int:
        return self._bags.nbytes()


class _Bag(CountingOperator):
    def __init__(self, node: Bag) -> None:
        directory = Directory([f.type for f in node.schema])
        super().__init__(node, Bags(directory, len(node.parts), node.multiplicity))

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        events = [
            Events(self._bags.directory.assign(c.columns.columns, len(c)), c.ts, side, c.sign)
            for side, c in enumerate(inputs)
        ]
        return self._bags.apply(events, self._schema)
