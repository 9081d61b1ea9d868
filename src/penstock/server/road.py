"""Linear Road live: generated traffic, the queries of the benchmark, and the state of the segments for a map.

Traffic runs faster than the clock, so that a minute of it takes seconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from penstock import cql
from penstock.engine.stage import SIGN, TS
from penstock.errors import PenstockError
from penstock.server.settings import (
    DEMO_FILE_S,
    ROAD_ACCIDENTS,
    ROAD_ALERTS,
    ROAD_EXPRESSWAYS,
    ROAD_RATE,
    ROAD_SECONDS,
    ROAD_SPEED,
    ROAD_SPREAD,
)
from penstock.workloads.files import StreamDirectory
from penstock.workloads.linear_road import DDL, LinearRoad

NAME = "linear_road"
SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "linear_road.cql"
MAP = {
    "map_tolls": "SELECT xway, direction, segment, lav, toll FROM Tolls",
    "map_cars": "SELECT xway, direction, segment, cars FROM Minutes",
    "map_accidents": "SELECT DISTINCT xway, direction, segment FROM Accidents",
}
"""The queries that the map reads, beside those of the benchmark."""
Place = tuple[int, int, int]
"""Expressway, direction, segment."""


@dataclass
class RoadMap:
    """The segments as the queries last reported them."""

    time: int = 0
    tolls: dict[Place, tuple[int, int]] = field(default_factory=dict)
    cars: dict[Place, int] = field(default_factory=dict)
    accidents: set[Place] = field(default_factory=set)
    charged: int = 0
    alerts: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=ROAD_ALERTS))

    def apply(self, query: str, elements: pa.RecordBatch) -> None:
        """Take in results of a query, in order of time."""
        rows = elements.to_pylist()
        if rows:
            self.time = max(self.time, rows[-1][TS])
        for row in rows:
            match query:
                case "map_tolls":
                    self._change(self.tolls, row, (row["lav"], row["toll"]))
                case "map_cars":
                    self.cars[_place(row)] = row["cars"]
                case "map_accidents":
                    (self.accidents.add if row[SIGN] > 0 else self.accidents.discard)(_place(row))
                case "tolls":
                    self.charged += row["toll"]
                case "accidents":
                    self.alerts.appendleft((row[TS], row["vid"], row["segment"]))

    def _change(self, held: dict[Place, Any], row: dict[str, Any], value: Any) -> None:
        if row[SIGN] > 0:
            held[_place(row)] = value
        elif held.get(_place(row)) == value:
            del held[_place(row)]


def _place(row: dict[str, Any]) -> Place:
    return row["xway"], row["direction"], row["segment"]


class Road:
    """The traffic, written to files as it comes, and the pipeline over them."""

    def __init__(self, root: Path) -> None:
        if not SCRIPT.is_file():
            raise PenstockError(f"the queries are in Penstock's source checkout: there is no {SCRIPT}")
        self._root, self.map, self.expressways = root, RoadMap(), ROAD_EXPRESSWAYS
        self._traffic = LinearRoad(
            ROAD_EXPRESSWAYS,
            ROAD_SECONDS,
            first_rate=ROAD_RATE,
            last_rate=ROAD_RATE,
            accidents=ROAD_ACCIDENTS,
            spread=ROAD_SPREAD,
        )
        self._lock, self._read = threading.Lock(), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="road", daemon=True)

    def start(self, session: Any) -> None:
        """Register the stream, the table and the queries, and let the cars go."""
        traffic, history = self._root / "Road", StreamDirectory(self._root / "History")
        history.append(self._traffic.history_of(1000))
        self._directory = StreamDirectory(traffic)
        session.sql(f"CREATE STREAM Road ({DDL}) TIMESTAMP BY time IN SECONDS FROM PARQUET '{traffic}'")
        columns = "vid INT, day INT, xway INT, toll INT"
        session.sql(f"CREATE TABLE History ({columns}) FROM PARQUET '{history.path}'")
        self._pipeline = session.pipeline(NAME, checkpoint=str(self._root / "state"), streams=["Road"])
        for part in cql.split(SCRIPT.read_text(encoding="utf-8")):
            for statement in cql.parse(part):
                if isinstance(statement, cql.CreateView | cql.RegisterQuery):
                    session.sql(part)
        for name, text in MAP.items():
            self._pipeline.register(name, text)
        self._batches = self._traffic.batches(round(DEMO_FILE_S * ROAD_SPEED))
        self._directory.append(pa.Table.from_batches([next(self._batches)]))
        self._pipeline.start()
        self._thread.start()

    def _feed(self) -> None:
        due = time.monotonic()
        for batch in self._batches:
            due += DEMO_FILE_S
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return
            self._directory.append(pa.Table.from_batches([batch]))

    def look(self) -> RoadMap:
        """The map with the results that were published since the last look."""
        with self._lock:
            folder = self._pipeline.results
            ids = {q.name: q.id for q in self._pipeline.queries()}
            published = folder.published()
            for batch in range(max(self._read, published.first), published.next):
                for name, id in ids.items():
                    for piece in folder.pieces(batch, id):
                        for elements in folder.read(piece):
                            self.map.apply(name, elements)
            self._read = published.next
        return self.map

    def stop(self) -> None:
        """Stop the cars and the queries."""
        self._stopped.set()
        self._thread.join()
        with suppress(Exception):  # Spark may be gone already
            self._pipeline.stop()


running: list[Road] = []
"""The road of this process, if it shows one."""


@contextmanager
def running_road(session: Any) -> Iterator[Road]:
    """The road while it is entered; its files are gone afterwards."""
    with TemporaryDirectory(prefix="penstock-road-", ignore_cleanup_errors=True) as directory:
        road = Road(Path(directory))
        road.start(session)
        running[:] = [road]
        try:
            yield road
        finally:
            running.clear()
            road.stop()
