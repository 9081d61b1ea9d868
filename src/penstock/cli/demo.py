"""``penstock demo``: the thesis's network-monitoring query (section 1.3) on generated packets, live.

Stream time runs sixty times as fast as the clock: the windows of ten minutes are full after ten seconds and
slide from then on, and the routing changes every five seconds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli import view
from penstock.cli.output import Terminal
from penstock.cli.session import Stop, local_session, stoppable, user_error
from penstock.cli.settings import DEMO_FILE_S, DEMO_FIRST_BATCH_S, DEMO_ROUTE_S, DEMO_SPEED, POLL_S
from penstock.errors import EngineError
from penstock.workloads.feed import Feed
from penstock.workloads.packets import DDL, LINKS, PacketWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

QUERY = """\
SELECT SUM(C.size)
FROM   C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]
WHERE  C.pid = B.pid AND B.pid = O.pid"""


def packets(rate: int) -> PacketWorkload:
    """The three links, with ``rate`` packets per second of the clock on C."""
    return PacketWorkload(
        rate=max(1, round(rate / DEMO_SPEED)),
        slice_seconds=DEMO_FILE_S * DEMO_SPEED,
        route_seconds=DEMO_ROUTE_S * DEMO_SPEED,
    )


class Demo:
    """The running query and its progress."""

    def __init__(self, session: Any, root: Path) -> None:
        self.progress = view.Progress()
        self._session, self._root = session, root
        self._last_batch = -1
        self._began: float | None = None
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        for name in LINKS:
            directory = self._root / name
            self._session.sql(f"CREATE STREAM {name} ({DDL}) TIMESTAMP BY ts FROM PARQUET '{directory}'")
        writer = self._session.sql(QUERY).writeStream.foreachBatch(self._take)
        query: StreamingQuery = writer.option("checkpointLocation", str(self._root / "checkpoint")).start()
        return query

    def _take(self, batch: DataFrame, _: int) -> None:
        """Count a batch's new results; the newest is the current total."""
        from pyspark.sql import functions as F

        newest = F.max_by(batch.columns[-1], "ts")
        row = batch.where("op = '+'").agg(F.count("*"), newest).first()
        if row is not None and row[0]:
            self.progress.results += row[0]
            self.progress.total = row[1]

    def poll(self) -> None:
        """Add the query's progress since the last call; raise its failure."""
        failure = self._query.exception()
        if failure is not None:
            raise user_error(failure)
        for p in self._query.recentProgress:
            if p.batchId > self._last_batch and p.numInputRows:
                self._last_batch = p.batchId
                self.progress.add_batch(p.numInputRows, p.durationMs["triggerExecution"])
        self.progress.see(view.state_of(self._session.metrics()))
        if self._began is None and self.progress.batches:
            self._began = time.monotonic()
        self.progress.seconds = 0.0 if self._began is None else time.monotonic() - self._began

    def stop(self) -> None:
        self._query.stop()


def run_demo(seconds: float, rate: int) -> bool:
    """Run the demo; False if it was interrupted."""
    console = Terminal(highlight=False)
    with stoppable() as stop, tempfile.TemporaryDirectory(prefix="penstock-demo-") as directory:
        root, workload = Path(directory), packets(rate)
        feed = Feed(workload, root, DEMO_FILE_S)
        feed.write()
        console.print(
            "starting Spark; the very first batch on a machine compiles the kernels ...", style="dim"
        )
        with local_session() as session:
            if stop.is_set():
                return False
            demo = Demo(session, root)
            try:
                _watch(demo, feed, workload, seconds, stop, view.display(console, QUERY, seconds))
            finally:
                feed.stop()
                demo.stop()
        console.print(view.summary(demo.progress), soft_wrap=True)
        return not stop.is_set()


def _watch(
    demo: Demo,
    feed: Feed,
    workload: PacketWorkload,
    seconds: float,
    stop: Stop,
    display: view.Display,
) -> None:
    """Show the query until its time is over; the packets flow once the first batch has finished."""
    give_up = time.monotonic() + DEMO_FIRST_BATCH_S
    flowing = False
    with display:
        while not stop.wait(POLL_S) and demo.progress.seconds < seconds:
            demo.poll()
            demo.progress.routing = workload.routing((feed.written - 1) * workload.slice_seconds)
            if demo.progress.batches and not flowing:
                feed.start()
                flowing = True
            if not flowing and time.monotonic() > give_up:
                raise EngineError(f"no batch finished within {DEMO_FIRST_BATCH_S} seconds")
            if flowing:
                display.show(demo.progress)
