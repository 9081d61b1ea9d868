"""A run over finite input (``SET penstock.at_end``): read all of it, complete the last instants, stop.

An instant is complete when no row of it can come any more, so the last instant of any input stays incomplete
unless someone says that the input has ended. The command ``end`` says so to every engine, after Spark has
processed all rows: time advances past the last one, and what waited for it is returned. The command is stored
in the checkpoint, which is closed with it: engines reject rows that come later.

A run that ends by its trigger (``availableNow``, ``penstock run --once``) without such a command leaves its
last instants out, and so does one that ends before its last windows; it says so when it has ended.

Spark's trigger ``availableNow`` takes commands with the first of its batches, when most rows are yet to come.
So such a query runs under the default trigger, until its sources have nothing new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import lru_cache

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.command import END
from penstock.errors import PenstockError
from penstock.measurement import Measurements
from penstock.schema import TimeDomain
from penstock.spark.driver.commands import CommandStream
from penstock.streamon.advice import left_out

_log = logging.getLogger("penstock")


def end(query: StreamingQuery, commands: Sequence[CommandStream], ticks: int) -> None:
    """End a query that has just started once it has processed its input.

    ``commands`` are those of its inner queries and its own, each before that of what reads its rows.
    """
    name = f"penstock-end-{query.runId}"
    threading.Thread(target=_end, args=(query, commands, ticks), name=name, daemon=True).start()


def _end(query: StreamingQuery, commands: Sequence[CommandStream], ticks: int) -> None:
    try:
        query.processAllAvailable()
        for stream in commands:
            if END not in stream.kinds:
                stream.append(END, {"ticks": ticks})
                query.processAllAvailable()
    except (PySparkException, PenstockError) as error:
        if query.isActive:
            _log.error("the run cannot be ended: %s", error)
    finally:
        query.stop()


class FiniteRuns:
    """The runs that end by themselves: by run, the query's name, and its time."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[str, TimeDomain]] = {}

    @staticmethod
    def of(context: SparkContext) -> FiniteRuns:
        return _finite_runs(context)

    def add(self, query: StreamingQuery, time: TimeDomain) -> None:
        """A run has started."""
        self._runs[str(query.runId)] = query.name or "", time

    def ended(self, run_id: str, found: Measurements) -> str:
        """A sentence on what a run that has ended leaves out; "" if nothing, or if it was not to end."""
        name, time = self._runs.pop(run_id, ("", None))
        said = "" if time is None else left_out(found, time.length)
        return f"{name}: {said}" if name and said else said


@lru_cache(maxsize=1)
def _finite_runs(context: SparkContext) -> FiniteRuns:
    return FiniteRuns()
