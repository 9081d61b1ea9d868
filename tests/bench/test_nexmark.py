"""Every query of NEXMark, in the text of the examples, returns what DuckDB returns over the whole input."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from bench.nexmark.answers import BY_ARRIVAL, EXAMPLES, QUERIES, SQL, answer, cql, net
from penstock.cli.main import app
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
