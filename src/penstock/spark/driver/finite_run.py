"""A run over finite input (``SET penstock.at_end``): read all of it, complete the last instants, stop.

An instant is complete when no row of it can come any more, so the last instant of any input stays incomplete
unless someone says that the input has ended. The command ``end`` says so to every engine, after Spark has
processed all rows: time advances past the last one, and what waited for it is returned. The command is stored
in the checkpoint, which is closed with it: engines reject rows that come later.

Spark's trigger ``availableNow`` takes commands with the first of its batches, when most rows are yet to come.
So such a query runs under the default trigger, until its sources have nothing new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.command import END
from penstock.errors import PenstockError
from penstock.spark.driver.commands import CommandStream

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
