"""The queries that this process has started from DataFrames of ``Session.sql``, with text and plan."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from penstock.plan.physical import PlannedStage
from penstock.settings import Settings
from penstock.spark.settings import MOST_ENDED


@dataclass(frozen=True)
class Described:
    """What a query is: its text, its plan, and the settings that it was made with."""

    text: str
    stages: tuple[PlannedStage, ...]
    notes: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Started:
    """A query that was started. ``again`` starts it once more, from its checkpoint if it has one."""

    query: StreamingQuery
    described: Described
    again: Callable[[], StreamingQuery]
    time: float

    @property
    def name(self) -> str:
        """Spark's name of it, or one made of its id."""
        return self.query.name or f"query-{str(self.query.id)[:8]}"


class StartedQueries:
    """The queries by name, oldest first: the last run of each, and of those that have ended only some."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Started] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def of(context: SparkContext) -> StartedQueries:
        return _started(context)

    def add(self, query: StreamingQuery, described: Described, again: Callable[[], StreamingQuery]) -> None:
        """Note a start."""
        made = Started(query, described, again, time.time())
        with self._lock:
            self._found[made.name] = made
            ended = [name for name, s in self._found.items() if not s.query.isActive]
            for name in ended[: max(0, len(ended) - MOST_ENDED)]:
                del self._found[name]

    def all(self) -> list[Started]:
        """All of them."""
        with self._lock:
            return list(self._found.values())

    def find(self, name: str) -> Started | None:
        """One by its name, ignoring case."""
        return next((s for s in self.all() if s.name.casefold() == name.casefold()), None)

    def of_query(self, query: StreamingQuery) -> Started | None:
        """That of Spark's handle."""
        return next((s for s in self.all() if s.query.runId == query.runId), None)

    def forget(self, name: str) -> None:
        """Do not list a query any more."""
        with self._lock:
            self._found.pop(name, None)


@lru_cache(maxsize=1)
def _started(context: SparkContext) -> StartedQueries:
    return StartedQueries()
