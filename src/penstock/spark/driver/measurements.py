"""The latest measurements of the engines of all running queries, on any machine.

Relays add the encoded readings of their engines to a Spark accumulator. Spark brings them to the driver with
the result of each task, before the batch ends, and only of tasks that succeeded. They are decoded when they
are read; of each engine the latest is kept.

Engines are known by query, plan, stage and partition. Readers ask for a run of a query, and count the
stages of a Spark query: where it has several plans of ours, those of the plan that was made first come first.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from pyspark import SparkContext

from penstock.measurement import Measurement, Measurements, decode, measured
from penstock.schema import TimeDomain
from penstock.spark.relay.processor import Latest, Published
from penstock.spark.resident.directory import EngineId
from penstock.streamon.advice import in_ticks, late_rows


class Registry:
    """The latest measurements of the engines of one Spark application, by query run, stage and partition."""

    def __init__(self, context: SparkContext) -> None:
        self.accumulator = context.accumulator(Published(), Latest())
        self._runs: dict[str, str] = {}
        """By query, its latest run, as long as it goes on."""
        self._started: dict[str, list[str]] = {}
        """By plan, the running queries that it is part of: a derived DataFrame may have several."""
        self._late: dict[str, dict[str, int]] = {}
        self._times: dict[str, TimeDomain] = {}
        self._decoded: dict[EngineId, tuple[int, str, int, Measurements]] = {}
        self.lock = threading.RLock()

    @staticmethod
    def of(context: SparkContext) -> Registry:
        return _registry(context)

    def begin(self, query_id: str, run_id: str) -> None:
        """A run of a query begins."""
        with self.lock:
            before = self._runs.get(query_id)
            if before not in (None, run_id):
                self._forget(query_id, before)
            self._runs[query_id] = run_id

    def started(self, query_id: str, plan: str) -> None:
        """A query was started that a plan is part of."""
        with self.lock:
            self._started.setdefault(plan, []).append(query_id)

    def counts(self, run_id: str, time: TimeDomain) -> None:
        """Note the unit of time of a run, in which its lengths of time are written."""
        self._times[run_id] = time

    def length(self, run_id: str, ticks: int) -> str:
        """A length of a run's time as CQL writes it."""
        time = self._times.get(run_id)
        return in_ticks(run_id, ticks) if time is None else time.length(ticks)

    def end(self, query_id: str, run_id: str) -> list[str] | None:
        """A run has ended: drop its measurements but for its late rows, and return the plans it was of.

        None if the query has another run by now, or it was said before.
        """
        with self.lock:
            if self._runs.get(query_id) != run_id:
                return None
            plans = {e.plan for e in self.accumulator.value if self._query_of(e) == query_id}
            plans |= {plan for plan, queries in self._started.items() if query_id in queries}
            self._forget(query_id, run_id)
            del self._runs[query_id]
            return sorted(plans)

    def _forget(self, query_id: str, run_id: str) -> None:
        self._late[run_id] = self.late_rows(run_id)
        self._times.pop(run_id, None)
        kept = {e: own for e, own in self.accumulator.value.items() if self._query_of(e) != query_id}
        self.accumulator.value = kept
        self._decoded = {e: own for e, own in self._decoded.items() if e in kept}
        left = {plan: [q for q in own if q != query_id] for plan, own in self._started.items()}
        self._started = {plan: queries for plan, queries in left.items() if queries}

    def _query_of(self, engine: EngineId) -> str:
        return engine.query_id or self._started.get(engine.plan, [""])[-1]

    def latest(self, run_id: str | None = None) -> Measurements:
        """All measurements, or those of one run."""
        found: list[Measurement] = []
        published: Published = self.accumulator.value
        before = self._stages_before(published)
        for engine, (time, readings) in sorted(published.items(), key=lambda item: self._place(item[0])):
            query = self._query_of(engine)
            run = self._runs.get(query, query)
            if run_id in (None, run):
                stage = before[query, engine.plan] + engine.stage + 1
                found += self._of(engine, run, stage, time, readings)
        return Measurements(found)

    def _place(self, engine: EngineId) -> tuple[str, str, int, int]:
        return self._query_of(engine), engine.plan, engine.stage, engine.partition

    def _stages_before(self, published: Published) -> dict[tuple[str, str], int]:
        """By query and plan, how many stages the query's plans have that were made before."""
        stages: dict[str, dict[str, int]] = {}
        for engine in sorted(published, key=self._place):
            stages.setdefault(self._query_of(engine), {})[engine.plan] = engine.stage + 1
        return {
            (query, plan): sum(list(own.values())[:number])
            for query, own in stages.items()
            for number, plan in enumerate(own)
        }

    def _of(self, engine: EngineId, run: str, stage: int, time: int, readings: bytes) -> Measurements:
        """The measurements of an engine, decoded once per step however often they are read."""
        known = self._decoded.get(engine)
        if known is None or known[:3] != (time, run, stage):
            own = measured(decode(readings), run, stage, engine.partition, time)
            known = self._decoded[engine] = time, run, stage, own
        return known[3]

    def late_rows(self, run_id: str) -> dict[str, int]:
        """How many rows of each input came too late for a run, also if it has ended."""
        counts = {name: rows for (_, name), rows in late_rows(self.latest(run_id)).items()}
        return counts or self._late.get(run_id, {})


@lru_cache(maxsize=1)
def _registry(context: SparkContext) -> Registry:
    return Registry(context)
