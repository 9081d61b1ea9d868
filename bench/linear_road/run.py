"""All queries on a file, or on generated traffic, as fast as they go; the answers as files."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.linear_road.answers import Answers
from bench.linear_road.files import Files
from bench.linear_road.on_engine import OnEngine
from bench.linear_road.on_spark import OnSpark, connected
from penstock.engine.stage import TS
from penstock.workloads.files import StreamDirectory
from penstock.workloads.linear_road import LinearRoad
from penstock.workloads.linear_road.traffic_files import HISTORY, TRAFFIC, write_traffic


def generated(traffic: LinearRoad, directory: Path) -> Files:
    """Files of generated traffic."""
    write_traffic(directory, traffic, traffic.batches())
    return Files(directory / TRAFFIC, directory / HISTORY)


@dataclass(frozen=True)
class Outcome:
    """How many rows came, how many answers of each kind there are, and how long the queries took."""

    rows: int
    answers: dict[str, int]
    seconds: float


def run(files: Files, out: Path, on: str, partitions: int, progress: Any = None) -> Outcome:
    """Run the queries and write the answers below ``out``."""
    runner = _on_spark if on == "spark" else _on_engine
    return runner(files, out, partitions, progress or (lambda rows: None))


def _on_engine(files: Files, out: Path, partitions: int, progress: Any) -> Outcome:
    engine, answers = OnEngine(files.tolls(), partitions), Answers()
    rows, seconds = 0, 0.0
    for batch in files.batches():
        start = time.perf_counter()
        found = engine.push(batch)
        seconds += time.perf_counter() - start
        rows += batch.num_rows
        answers.add(found, TS)
        progress(rows)
    answers.add(engine.end(), TS)
    return Outcome(rows, answers.write(out), seconds)


def _on_spark(files: Files, out: Path, partitions: int, progress: Any) -> Outcome:
    ps, answers, rows = connected(partitions), Answers(), 0
    with tempfile.TemporaryDirectory(prefix="linear-road-") as folder:
        ps.sql("SET penstock.at_end = 'complete'")
        spark = OnSpark(Path(folder), files.tolls(), partitions, ps, files=1)
        directory = StreamDirectory(spark.input)
        for batch in files.batches():
            directory.append(pa.Table.from_batches([batch]))
            rows += batch.num_rows
        start = time.perf_counter()
        spark.pipeline.start("available-now")
        spark.pipeline.awaitTermination()
        seconds = time.perf_counter() - start
        for name, elements in spark.results():
            answers.add({name: [elements]}, TS)
        ps.close()
    progress(rows)
    return Outcome(rows, answers.write(out), seconds)
