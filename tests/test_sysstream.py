"""SysStream without Spark: what a publication has, when there is one, and what queries make of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import cql, sysstream
from penstock.engine import latency
from penstock.engine.latency import Latency, percentiles
from penstock.measurement import Kind, Measurement, Measurements, Property
from penstock.spark.driver.sysstream import Publisher, Publishers


def measurement(prop: Property, value: float, **more: Any) -> Measurement:
    origin = {"time": 7, "query": "run", "stage": 1, "partition": 0, "entity": "engine", "kind": Kind.ENGINE}
    return Measurement(**{**origin, "property": prop, "value": value, "text": "", **more})


def test_the_windowed_average_of_the_selectivity_of_a_join() -> None:
    """The example of thesis 2.4."""
    seconds, values = [0, 1, 2, 3], [0.2, 0.4, 0.6, 0.8]
    found = [
        measurement(p, v, entity=e, kind=Kind.OPERATOR)
        for p, e in (
            (Property.SELECTIVITY, "mjoin.3"),
            (Property.SELECTIVITY, "select.1"),
            (Property.ROWS, "mjoin.3"),
        )
        for v in values
    ]
    rows = []
    for n, second in enumerate(seconds):
        part = sysstream.rows(found[n :: len(values)], "by_link", second * 1_000_000)
        rows += [(second, row) for row in part.to_pylist()]
    schema = ", ".join(f"`{f.name}` {t}" for f, t in zip(sysstream.SCHEMA, TYPES, strict=True))
    changes = penstock.evaluate(
        "SELECT query, AVG(value) AS selectivity FROM SysStream [RANGE 1 SECOND] "
        "WHERE property = 'selectivity' AND entity LIKE 'mjoin.%' GROUP BY query",
        {"SysStream": rows},
        schemas={"SysStream": schema},
    )
    entered = [(ts, round(row["selectivity"], 6)) for ts, sign, row in changes if sign == "+"]
    assert [value for _, value in entered] == [0.2, 0.3, 0.5, 0.7]


TYPES = ["TIMESTAMP", "STRING", "INT", "INT", "STRING", "STRING", "STRING", "DOUBLE", "STRING"]


def test_the_stream_is_what_is_declared() -> None:
    declared = ", ".join(f"`{f.name}` {t}" for f, t in zip(sysstream.SCHEMA, TYPES, strict=True))
    assert cql.schema_of(declared) == sysstream.SCHEMA
    bound = cql.bind(
        "SELECT AVG(value) AS v FROM SysStream [RANGE 1 MINUTE]", {"SysStream": sysstream.definition()}
    )
    assert bound.root.schema.names == ["v"]
    table = sysstream.rows([measurement(Property.BYTES, 8)], "q", 5)
    assert table.schema == sysstream.SCHEMA
    assert list(table.to_pylist()[0].values())[1:] == ["q", 1, 0, "engine", "engine", "bytes", 8.0, ""]
    assert sysstream.rows([], "q", 5).num_rows == 0


def test_a_batch_has_throughput_and_latency_of_the_whole_query() -> None:
    found = Measurements(
        [
            *(measurement(Property.STEP_SECONDS, s, partition=n) for n, s in enumerate((0.1, 0.3))),
            *(measurement(Property.LATENCY, s, partition=n, text="p99") for n, s in enumerate((1.0, 2.0))),
            measurement(Property.LATENCY, 0.5, stage=2, text="p99"),
            measurement(Property.STEP_SECONDS, 0.2, stage=2),
            *(measurement(Property.THROUGHPUT, 50, partition=n, kind=Kind.INPUT) for n in range(2)),
            measurement(Property.THROUGHPUT, 7, kind=Kind.OPERATOR),
        ]
    )
    own = Measurements(sysstream.of_batch(found, 1.5, 0.01))
    assert {m.kind for m in own} == {Kind.QUERY} and {m.stage for m in own} == {0}
    assert own.value(Property.THROUGHPUT) == 100
    assert own.values(Property.LATENCY) == pytest.approx({"p99": 2.0 + 0.5 + (1.5 - 0.3 - 0.2)})
    assert (own.value(Property.BATCH_SECONDS), own.value(Property.PUBLISH_SECONDS)) == (1.5, 0.01)


def test_latency_is_counted_from_the_first_arrival_of_an_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(latency.time, "perf_counter", lambda: float(next(clock)))
    waiting = Latency(waits=True)
    waiting.begin(10)  # at 0
    waiting.end({"q": pa.array([], pa.int64()).to_numpy()}, 5)  # at 1
    waiting.begin(20)  # at 2
    waiting.end({"q": pa.array([4, 9, 12]).to_numpy()}, 20)  # at 3: two waited since 0, one since 2
    assert waiting.results["q"] == [(3.0, 2), (1.0, 1), (1.0, 0)]
    waiting.begin(15)  # at 4: out of order, no new instant
    waiting.end({"q": pa.array([20]).to_numpy()}, 21)  # at 5: since 2
    assert waiting.results["q"][0] == (3.0, 1)
    at_once = Latency(waits=False)
    at_once.begin(10)  # at 6
    at_once.end({"q": pa.array([1, 2]).to_numpy()}, 5)  # at 7
    assert at_once.results["q"] == [(1.0, 2)]
    assert {r.text: r.value for r in percentiles([(1.0, 97), (5.0, 3)])} == {"p50": 1.0, "p99": 5.0}
    assert list(percentiles([(1.0, 0)])) == []


def files(directory: Path) -> list[pa.Table]:
    return [pq.read_table(f) for f in sorted(directory.glob("*.parquet"))]


def latest(run: str) -> Measurements:
    return Measurements([measurement(Property.STEPS, 1, query=run)] if run != "plain" else [])


def test_publications_need_a_reader_and_keep_to_the_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    publisher = Publisher(str(tmp_path), every=10.0)
    publisher.note("r1", "one", 0.5)
    publisher.publish(latest)
    assert files(tmp_path) == [], "nobody reads it"
    publisher.readers.add("reader")
    publisher.publish(latest)
    publisher.note("plain", "a query without engines", 0.1)
    publisher.note("r1", "one", 0.6)
    publisher.note("r2", "two", 0.7)
    publisher.publish(latest)
    assert [set(f["query"].to_pylist()) for f in files(tmp_path)] == [{"one"}, {"two"}]
    now[0] += 10
    publisher.publish(latest)
    publisher.publish(latest)
    publisher.note("r2", "two", 0.8)
    publisher.publish(latest, at_once="r2")
    publisher.end("r2")
    publisher.end("r2")
    *_, third, fourth, last = files(tmp_path)
    assert set(third["query"].to_pylist()) == {"one"} and set(fourth["query"].to_pylist()) == {"two"}
    assert [r["property"] for r in last.to_pylist()] == ["ended"] and len(files(tmp_path)) == 5
    stamps = [f["ts"].unique().to_pylist() for f in files(tmp_path)]
    assert all(len(s) == 1 for s in stamps) and [s[0] for s in stamps] == sorted({s[0] for s in stamps})


def test_old_publications_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    publisher = Publisher(str(tmp_path), every=0.0, readers={"reader"})
    for name in ("17-a.parquet", "other"):
        (tmp_path / name).write_text("")
    for _ in range(2):
        publisher.note("r", "q", 0.1)
        publisher.publish(latest)
        now[0] += 61
    assert not (tmp_path / "17-a.parquet").exists() and (tmp_path / "other").exists()
    assert len(files(tmp_path)) == 2


def test_a_batch_of_sysstream_alone_publishes_nothing(tmp_path: Path) -> None:
    publishers = Publishers(latest)
    publishers.open(str(tmp_path), 0.0)
    (own,) = publishers._by_directory.values()
    assert not publishers.wanted
    own.readers.add("r")
    source, commands = f"FileStreamSource[file:{tmp_path}]", "MemoryStream[value#1]"

    def told(batch: int, **rows: int) -> int:
        named = {"sys": source, "commands": commands, "s": "FileStreamSource[file:/data]"}
        sources = [{"description": named[d], "numInputRows": n} for d, n in rows.items()]
        report = {"runId": "r", "name": None, "batchId": batch, "durationMs": {}, "sources": sources}
        publishers.progressed(json.dumps(report))
        return len(files(tmp_path))

    assert told(0, sys=5, s=0) == 0
    assert told(1, sys=5, s=0, commands=1) == 0
    assert told(2) == 0
    assert told(3, sys=5, s=1) == 1
    assert told(3, sys=5, s=1) == 1, "a second session tells of the same batch"
    assert told(4, s=3) == 2
    assert set(files(tmp_path)[-1]["query"].to_pylist()) == {"r"}, "a query without a name has its run's id"
