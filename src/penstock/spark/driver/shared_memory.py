"""The memory that queries share under ``SET penstock.memory``, and each one's part of it (ALLOC, section 5).

Engines publish the recall that they expect by amount of memory; of a sample, the error. The driver shares the
memory out, over all executors, so that all queries have the same quality by their weights, which is the
recall, or 1 / (1 + error): the same recall of all, or the same error of all. Of both kinds together the paper
has no common measure; this one is a heuristic. A query is sent its part as a command when it changes. So it
is logged with the rows, and an engine that is rebuilt decides as it did before. Within a query each partition
has the part that is its part of the rows, and several joins have equal parts.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import lru_cache

from pyspark import SparkContext

from penstock.approx.recall import Demand, ReportedDemand, alloc
from penstock.errors import PenstockError
from penstock.measurement import Measurements, Property
from penstock.spark.driver.commands import CommandStream
from penstock.spark.driver.measurements import Registry
from penstock.spark.settings import ALLOTMENT_CHANGE

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class QueryDemand:
    """The quality of a query as a function of its memory, over all its partitions and joins."""

    joins: tuple[ReportedDemand, ...]

    @property
    def weight(self) -> float:
        return self.joins[0].weight

    def memory_for(self, recall: float) -> float:
        return sum(j.memory_for(recall) for j in self.joins)


def demand(found: Measurements, total: int) -> QueryDemand | None:
    """The demand of a query's engines that share a memory of ``total`` bytes, if some have published one."""
    budgets = [budget for e in found.by_engine().values() for budget in e.by_entity().values()]
    joins = [b for b in budgets if b.value(Property.SHARED_MEMORY) == total]
    return QueryDemand(tuple(map(_reported, joins))) if joins else None


def _reported(join: Measurements) -> ReportedDemand:
    """The recall of a join by memory, or what stands for it: 1 without an error, less with one."""
    quality = {float(at): value for at, value in join.values(Property.RECALL_AT_BYTES).items()}
    for at, error in join.values(Property.ERROR_AT_BYTES).items():
        best = max(quality.values(), default=0.0)
        quality[float(at)] = max(1 / (1 + error), best)
    if 0.0 not in quality:
        quality = {0.0: 0.0, **quality}
    return ReportedDemand(tuple(quality), tuple(quality.values()), join.value(Property.WEIGHT))


def parts(total: int, demands: list[QueryDemand | None]) -> list[int]:
    """Each query's part: an equal one until its demand is known, then one that equalizes weighted recalls.

    Memory that no query needs is divided equally, since streams may grow.
    """
    equal = total // max(len(demands), 1)
    known: list[Demand] = [d for d in demands if d is not None]
    room = total - equal * (len(demands) - len(known))
    given = alloc(known, room) if known else []
    spare = max(room - sum(given), 0.0) / max(len(known), 1)
    allotted = iter(given)
    return [equal if d is None else int(next(allotted) + spare) for d in demands]


class SharedMemory:
    """The running queries of a Spark application that share a memory, and what each was last sent."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._sent: dict[int, dict[CommandStream, int]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def of(context: SparkContext) -> SharedMemory:
        return _shared_memory(context)

    def open(self, stream: CommandStream, total: int) -> None:
        """The part of a query that is about to start, for its first batch."""
        with self._lock:
            running = sum(s.runs for s in self._sent.get(total, {}))
            _send(stream, total // (running + 1))

    def started(self, stream: CommandStream, total: int) -> None:
        """Register a query that has started."""
        with self._lock:
            self._sent.setdefault(total, {})[stream] = 0
        self.rebalance()

    def rebalance(self) -> None:
        """Divide the memory again, and send queries their parts if they changed enough."""
        if not self._sent:
            return
        with self._lock:
            for total in list(self._sent):
                self._rebalance(total)

    def _rebalance(self, total: int) -> None:
        sent = {s: size for s, size in self._sent.pop(total).items() if s.runs}
        if not sent:
            return
        self._sent[total] = sent
        demands = [demand(self._registry.latest(s.run_id), total) for s in sent]
        for stream, size in zip(list(sent), parts(total, demands), strict=True):
            if abs(size - sent[stream]) > ALLOTMENT_CHANGE * max(sent[stream], 1):
                _send(stream, size)
                sent[stream] = size


def _send(stream: CommandStream, size: int) -> None:
    try:
        stream.append("memory", {"bytes": size})
    except PenstockError as error:
        _log.warning("a query cannot be sent its part of penstock.memory: %s", error)


@lru_cache(maxsize=1)
def _shared_memory(context: SparkContext) -> SharedMemory:
    return SharedMemory(Registry.of(context))
