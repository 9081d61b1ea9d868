"""Every query of NEXMark, in the text of the examples, returns what DuckDB returns over the whole input."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from bench.nexmark import flink
from bench.nexmark.__main__ import Spent, flink_markdown
from bench.nexmark.answers import BY_ARRIVAL, EXAMPLES, QUERIES, SQL, answer, cql, net
from bench.nexmark.document import PAGE, kept, page
from bench.nexmark.spark_frames import FRAMES, WITHOUT
from penstock.cli.main import app
from penstock.cql import split
from penstock.errors import PenstockError
from penstock.spark.driver.session import Session
from penstock.workloads.files import StreamDirectory, write_slices
from penstock.workloads.nexmark import DDL, NexmarkWorkload, side_input

SCHEMAS = {**DDL, "side_input": "key BIGINT, value STRING"}


@cache
def generated() -> dict[str, pa.Table]:
    """Two minutes at 50 events per second: windows and sessions end within them."""
    slices = list(NexmarkWorkload(rate=50, events=2_000).slices(3))
    return {name: pa.concat_tables([s[name] for s in slices]) for name in DDL} | {"side_input": side_input()}


@cache
def elements() -> tuple[dict[str, list[Any]], int]:
    """The rows for ``evaluate``, and the last instant."""
    rows: dict[str, list[Any]] = {"side_input": generated()["side_input"].to_pylist()}
    for name in DDL:
        table = generated()[name]
        rows[name] = list(zip(table["dateTime"].cast("int64").to_pylist(), table.to_pylist(), strict=True))
    return rows, max(rows[name][-1][0] for name in DDL)


@pytest.mark.slow
@pytest.mark.parametrize("query", [q for q in QUERIES if q != BY_ARRIVAL])
def test_on_the_engine(query: str) -> None:
    rows, until = elements()
    partitions = 1 + int(query[1:]) % 3
    changes = penstock.evaluate(
        cql(query), rows, schemas=SCHEMAS, unit="microseconds", partitions=partitions, batches=3
    )
    wanted = answer(generated(), query, until)
    assert wanted, "a query that returns nothing shows nothing"
    assert net([(op, tuple(row.values())) for _, op, row in changes]) == wanted


@pytest.mark.spark
@pytest.mark.long
def test_as_one_pipeline_on_spark(spark: Any, tmp_path: Path) -> None:
    queries = [q for q in QUERIES if q != BY_ARRIVAL]
    session = Session(spark, 2)
    write_slices(tmp_path, NexmarkWorkload(rate=50, events=2_000).slices(3))
    StreamDirectory(tmp_path / "side_input").append(side_input())
    for text in split((EXAMPLES / "streams.cql").read_text().replace("'data/", f"'{tmp_path}/")):
        session.sql(text)
    session.sql("SET penstock.at_end = 'complete'")
    pipeline = session.pipeline("nexmark", checkpoint=str(tmp_path / "state"), streams=list(DDL))
    for query in queries:
        pipeline.register(query, cql(query))
    pipeline.start()
    pipeline.awaitTermination()
    _, until = elements()
    for query in queries:
        rows: list[Any] = []
        frame = pipeline[query]
        head = 2 if "op" in frame.columns[:2] else 1
        writer = frame.writeStream.foreachBatch(lambda batch, _, rows=rows: rows.extend(batch.collect()))
        where = writer.option("checkpointLocation", str(tmp_path / f"read-{query}"))
        where.trigger(availableNow=True).start().awaitTermination()
        found = net([(row[1] if head == 2 else "+", tuple(row)[head:]) for row in rows])
        assert found == answer(generated(), query, until), query
    session.close()


def test_every_query_has_a_text_and_an_answer() -> None:
    assert {p.stem for p in EXAMPLES.glob("q*.cql")} == set(QUERIES) == set(SQL)


def test_queries_are_explained_after_their_streams(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = [str(EXAMPLES / name) for name in ("streams.cql", "q5.cql", "q12.cql")]
    result = CliRunner().invoke(app, ["explain", *files])
    assert result.exit_code == 0, result.output
    assert "[HOP 10 SECONDS EVERY 2 SECONDS]" in result.output and "arriving_bid" in result.output
    wrong = tmp_path / "wrong.cql"
    wrong.write_text("-- a comment\nSELECT pric FROM bid")
    result = CliRunner().invoke(app, ["explain", files[0], str(wrong)])
    assert result.exit_code == 2
    assert f"{wrong}, line 2, column 8:" in " ".join(result.output.split())


def test_the_page_shows_the_queries_that_run() -> None:
    assert PAGE.read_text() == page(kept()), "run python -m bench.nexmark.document"


@pytest.mark.parametrize("query", sorted(SQL))
def test_spark_has_the_query_or_a_reason(query: str) -> None:
    assert (query in FRAMES) != (query in WITHOUT)


def test_cpu_and_memory_are_told_of_the_batches_that_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look may come late, and a fast query may be over before the second one."""
    looks = iter([10.0, 12.0, 18.0, 20.0])
    monkeypatch.setattr("bench.nexmark.__main__.cpu_seconds", lambda: next(looks))
    memory = iter([100, 200])
    spent = Spent(2, 3, lambda: next(memory))
    for ended in (1, 1, 3, 5, 5):
        spent.note(ended)
    assert spent.per_batch() == (20.0 - 18.0) / (5 - 3)
    assert spent.held() == 100, "what is held when the last batch that counts has ended"
    looks = iter([10.0, 40.0])
    spent = Spent(2, 5, lambda: 300)
    spent.note(6)
    assert spent.per_batch() == (40.0 - 10.0) / 6
    assert spent.held() == 300


def test_flink_runs_in_an_environment_of_its_own(tmp_path: Path) -> None:
    flink.write(tmp_path, NexmarkWorkload(rate=50, events=100), 2)
    assert len(list((tmp_path / "bid").iterdir())) == 2
    row = (tmp_path / "bid" / "000000.csv").read_text().splitlines()[0]
    assert '2023-11-14 22:13:20.080,"' in row, "milliseconds, without a zone"
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncat > "$2/queries.json"\necho starting\n' + FLINK_SAYS)
    python.chmod(0o755)
    found = dict(flink.run(python, tmp_path, ["q0", "q6", "q12", "q13"], 1000))
    assert found == {"q0": {"events_per_second": 2000, "cpu_per_million": 250.0}}
    assert set(json.loads((tmp_path / "queries.json").read_text())) == {"q0"}
    both = {"q0": {"penstock": {}, "flink": found["q0"]}, "q6": {"penstock": {}}}
    assert flink_markdown(both).splitlines()[2:] == ["| q0 | 2,000 | 250.0 |"]
    assert flink_markdown({"q6": {"penstock": {}}}) == ""


FLINK_SAYS = 'echo \'{"query": "q0", "seconds": 0.5, "cpu_s": 0.25}\'\n'


def test_a_python_without_flink_is_told(tmp_path: Path) -> None:
    for python, said in [(Path(sys.executable), "has no apache-flink"), (tmp_path / "no", "cannot be run")]:
        with pytest.raises(PenstockError, match=said):
            flink.check(python)
    failing = tmp_path / "python"
    failing.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"query": "q2", "error": "no such column"}\'\n')
    failing.chmod(0o755)
    with pytest.raises(PenstockError, match="q2 on Flink: no such column"):
        list(flink.run(failing, tmp_path, ["q2"], 100))
