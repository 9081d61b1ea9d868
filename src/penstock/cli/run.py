"""``penstock run``: start the queries of a CQL file and wait for them."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.script import bound_queries, read, statements
from penstock.cli.session import interruptible, local_session, user_error
from penstock.cli.settings import CONSOLE_ROWS
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def run_file(path: Path, trigger: str, sink: str, out: Path | None, checkpoint: Path | None) -> bool:
    """Run a file's queries until they end; False if they were interrupted."""
    text = read(path)
    if sink == "parquet" and out is None:
        raise PenstockError("the parquet sink needs a directory: add --out DIR")
    when = trigger_options(trigger)
    count = len(bound_queries(text))  # errors are reported before Spark starts
    if not count:
        raise PenstockError(f"{path} has no query: add a SELECT")
    if sys.stderr.isatty():
        print("starting Spark; Ctrl-C ends it", file=sys.stderr)
    with interruptible() as interrupted, local_session() as session:
        results = [df for part in statements(text) if (df := session.sql(part)) is not None]
        for listing in (df for df in results if not df.isStreaming):
            listing.show(truncate=False)
        frames = [df for df in results if df.isStreaming]
        places = [f"query-{n}" for n in range(1, count + 1)] if count > 1 else [""]
        queries = [
            _start(df, when, sink, _below(out, place), _below(checkpoint, place))
            for df, place in zip(frames, places, strict=True)
        ]
        _wait(queries, interrupted)
    return not interrupted.is_set()


def trigger_options(text: str) -> dict[str, Any]:
    """The arguments of ``DataStreamWriter.trigger`` for the option ``--trigger``."""
    word = text.strip().lower()
    if word == "once":
        return {"once": True}
    if word == "available-now":
        return {"availableNow": True}
    number, _, unit = word.partition(" ")
    if number.isdigit() and unit.rstrip("s") in ("millisecond", "second", "minute", "hour"):
        return {"processingTime": word}
    raise PenstockError(
        f"unknown trigger '{text}'; write once, available-now, or a period such as '1 second'"
    )


def _below(directory: Path | None, place: str) -> Path | None:
    return None if directory is None else directory / place


def _start(
    df: DataFrame, when: dict[str, Any], sink: str, out: Path | None, checkpoint: Path | None
) -> StreamingQuery:
    writer = df.writeStream.format(sink).outputMode("append").trigger(**when)
    if sink == "console":
        writer = writer.option("truncate", "false").option("numRows", CONSOLE_ROWS)
    if out is not None:
        writer = writer.option("path", str(out))
    if checkpoint is None and out is not None:
        checkpoint = out / "_checkpoint"
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.start()


def _wait(queries: list[StreamingQuery], interrupted: threading.Event) -> None:
    """Wait until all have ended, one has failed, or the user interrupts."""
    try:
        while any(q.isActive for q in queries) and not interrupted.wait(0.2):
            _raise_failure(queries)
        _raise_failure(queries)
    finally:
        for query in queries:
            query.stop()


def _raise_failure(queries: list[StreamingQuery]) -> None:
    for query in queries:
        failure = query.exception()
        if failure is not None:
            raise user_error(failure)
