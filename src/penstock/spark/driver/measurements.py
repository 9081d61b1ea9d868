"""The latest measurements of the engines of all running queries, on any machine.

Relays add the encoded readings of their engines to a Spark accumulator. Spark brings them to the driver with
the result of each task, before the batch ends, and only of tasks that succeeded. They are decoded when they
are read; of each engine the latest is kept.
"""

from __future__ import annotations

from functools import lru_cache

from pyspark import SparkContext

from penstock.measurement import Measurement, Measurements, decode, measured
from penstock.spark.relay.processor import Latest, Published
from penstock.streamon.advice import late_rows


class Registry:
    """The latest measurements of the engines of one Spark application, by query run, stage and partition."""

    def __init__(self, context: SparkContext) -> None:
        self.accumulator = context.accumulator(Published(), Latest())
        self._late: dict[str, dict[str, int]] = {}
        self._decoded: dict[tuple[str, int, int], tuple[int, Measurements]] = {}

    @staticmethod
    def of(context: SparkContext) -> Registry:
        return _registry(context)

    def latest(self, run_id: str | None = None) -> Measurements:
        """All measurements, or those of one run."""
        found: list[Measurement] = []
        for (run, stage, partition), (time, readings) in sorted(self.accumulator.value.items()):
            if run_id in (None, run):
                found += self._of((run, stage, partition), time, readings)
        return Measurements(found)

    def _of(self, place: tuple[str, int, int], time: int, readings: bytes) -> Measurements:
        """The measurements of an engine, decoded once per step however often they are read."""
        known = self._decoded.get(place)
        if known is None or known[0] != time:
            known = self._decoded[place] = time, measured(decode(readings), *place, time)
        return known[1]

    def late_rows(self, run_id: str) -> dict[str, int]:
        """How many rows of each input came too late for a run, also if it has ended."""
        counts = {name: rows for (_, name), rows in late_rows(self.latest(run_id)).items()}
        return counts or self._late.get(run_id, {})

    def forget(self, run_id: str) -> None:
        """Drop the measurements of a run that has ended, but for its late rows."""
        self._late[run_id] = self.late_rows(run_id)
        kept = {place: own for place, own in self.accumulator.value.items() if place[0] != run_id}
        self.accumulator.value = kept
        self._decoded = {place: own for place, own in self._decoded.items() if place[0] != run_id}


@lru_cache(maxsize=1)
def _registry(context: SparkContext) -> Registry:
    return Registry(context)
