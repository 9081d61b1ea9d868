"""Schedulers: which operator processes which slice next (thesis 2.3.2).

The result is the same under every scheduler: an operator processes the same slices in the same order. What
differs is how many elements the queues hold meanwhile.

- ``fifo`` takes a slice through all operators before the next one. Nothing is chosen at run time, and a step
  that is one slice runs every operator once: the fastest in a micro-batch, and the default.
- ``round-robin`` lets the operators take turns, a slice each.
- ``greedy`` runs the operator that takes most elements out of the queues per second.
- ``chain`` forms blocks of operators along the way of the elements, each the block that reduces the queues
  most per second (the lower envelope of the progress chart), runs blocks greedily and slices within a
  block first in, first out. Where operators branch, an operator has the steepest block of all its ways.

Selectivity and cost of an operator are those measured since it started. Operators not yet run come first, in
plan order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from penstock.engine.element import Chunk
from penstock.engine.entity import Entity
from penstock.engine.graph import Graph
from penstock.engine.operator import Clock


class Task(Protocol):
    """What a scheduler knows of an operator: its measured statistics, its place and its progress."""

    slice: int
    consumed: int

    @property
    def selectivity(self) -> float:
        """Elements that stay in the queues per element consumed."""

    @property
    def cost(self) -> float:
        """Seconds per element consumed."""

    @property
    def readers(self) -> Sequence[Task]:
        """The operators that read its output."""


class Scheduler(ABC):
    """A policy: in which order the operators of a graph process its slices."""

    def step(self, graph: Graph) -> None:
        """Let every operator process all slices."""
        self.prepare(graph.entities)
        while ready := graph.pending():
            graph.run(self.choose(ready))

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Called at the start of a step with all operators, producers before consumers."""
        return

    @abstractmethod
    def choose(self, ready: Sequence[Entity]) -> Entity:
        """One of the operators that can run, which are given in plan order."""


class Fifo(Scheduler):
    """The oldest slice first; of one slice, producers first."""

    def step(self, graph: Graph) -> None:
        # The same as to choose each time, without looking who can run.
        for _ in graph.clocks:
            for entity in graph.entities:
                graph.run(entity)

    def choose(self, ready: Sequence[Entity]) -> Entity:
        return min(ready, key=lambda task: task.slice)


class RoundRobin(Scheduler):
    """The operators in turn."""

    def __init__(self) -> None:
        self._order: dict[int, int] = {}
        self._last = -1

    def prepare(self, tasks: Sequence[Task]) -> None:
        self._order = {id(task): place for place, task in enumerate(tasks)}

    def choose(self, ready: Sequence[Entity]) -> Entity:
        places = [self._order[id(task)] for task in ready]
        at = next((n for n, place in enumerate(places) if place > self._last), 0)
        self._last = places[at]
        return ready[at]


class Greedy(Scheduler):
    """The operator with the steepest reduction of the queues; of equal ones the one with the oldest slice."""

    def __init__(self) -> None:
        self._slopes: dict[int, float] = {}

    def prepare(self, tasks: Sequence[Task]) -> None:
        self._slopes = self.slopes(tasks)

    def slopes(self, tasks: Sequence[Task]) -> dict[int, float]:
        """Elements that each operator takes out of the queues per second, by its id."""
        return {id(task): _slope(1 - task.selectivity, task.cost) for task in tasks}

    def choose(self, ready: Sequence[Entity]) -> Entity:
        return max(ready, key=lambda task: (self._slopes[id(task)], -task.slice))


class Chain(Greedy):
    """Greedy over blocks of operators; within a block, the oldest slice first."""

    def slopes(self, tasks: Sequence[Task]) -> dict[int, float]:
        """The slope of each operator's block, the steepest over all ways that lead through it."""
        read = {id(reader) for task in tasks for reader in task.readers}
        found: dict[int, float] = {}
        for source in (task for task in tasks if id(task) not in read):
            for way in _ways(source):
                for task, slope in _chains(way):
                    found[id(task)] = max(slope, found.get(id(task), slope))
        return found


def _ways(task: Task) -> Iterator[list[Task]]:
    """The ways of an element from an operator out of the graph."""
    if not task.readers:
        yield [task]
    for reader in task.readers:
        yield from ([task, *way] for way in _ways(reader))


def _chains(way: Sequence[Task]) -> Iterator[tuple[Task, float]]:
    """Each operator of a way with the slope of its block, on the lower envelope of the progress chart.

    The chart has a point per operator: the time spent on an element of the source when it has left the
    operator, and the size of what is left of it then.
    """
    times, sizes = [0.0], [1.0]
    for task in way:
        times.append(times[-1] + sizes[-1] * task.cost)
        sizes.append(sizes[-1] * task.selectivity)
    at = 0
    while at < len(way):
        slopes = [_slope(sizes[at] - sizes[k], times[k] - times[at]) for k in range(at + 1, len(sizes))]
        # Of equal slopes the longest block: it leaves less in the queues.
        length = max(range(len(slopes)), key=lambda k: (slopes[k], k)) + 1
        for task in way[at : at + length]:
            yield task, slopes[length - 1]
        at += length


def _slope(reduction: float, seconds: float) -> float:
    return reduction / seconds if seconds else float("inf")


SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "fifo": Fifo,
    "round-robin": RoundRobin,
    "greedy": Greedy,
    "chain": Chain,
}


def slices(
    clock: Clock, released: Mapping[str, Chunk], rows: int | None, in_order: bool
) -> Iterator[tuple[Clock, Mapping[str, Chunk]]]:
    """A step's input in slices of about ``rows`` rows, each with its clock.

    They are cut between instants: results that come at once may cancel others of the same instant.
    ``in_order``: the chunks are in timestamp order, and each slice completes its own instants. Otherwise time
    passes with the last slice.
    """
    total = sum(map(len, released.values()))
    if rows is None or total <= rows:
        yield clock, released
    elif in_order:
        yield from _by_time(clock, released, rows, total)
    else:
        yield from _out_of_order(clock, released, rows, total)


def _by_time(
    clock: Clock, released: Mapping[str, Chunk], rows: int, total: int
) -> Iterator[tuple[Clock, Mapping[str, Chunk]]]:
    ts = np.sort(np.concatenate([chunk.ts for chunk in released.values()]))
    cuts = np.unique(ts[rows:total:rows])
    cuts = cuts[(cuts > clock.before) & (cuts > ts[0]) & (cuts < clock.now)]
    before = clock.before
    for now in [*map(int, cuts), clock.now]:
        part = {}
        for name, chunk in released.items():
            # The first slice has everything before its end, static rows included.
            start = 0 if before == clock.before else int(np.searchsorted(chunk.ts, before))
            part[name] = chunk.slice(start, int(np.searchsorted(chunk.ts, now)))
        within = clock.instants[(clock.instants >= before) & (clock.instants < now)]
        yield replace(clock, before=before, now=now, instants=within), part
        before = now


def _out_of_order(
    clock: Clock, released: Mapping[str, Chunk], rows: int, total: int
) -> Iterator[tuple[Clock, Mapping[str, Chunk]]]:
    ts = np.sort(np.concatenate([chunk.ts for chunk in released.values()]))
    cuts = np.unique(ts[rows:total:rows])
    where = {name: np.searchsorted(cuts, chunk.ts, side="right") for name, chunk in released.items()}
    for number in range(len(cuts) + 1):
        part = {name: chunk.where(where[name] == number) for name, chunk in released.items()}
        yield clock if number == len(cuts) else replace(clock, now=clock.before), part
