"""``foreachBatch`` whose function has several actions, one, or none: Spark runs a stage for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.measurement import Property
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark

QUERY = "SELECT k, COUNT(*) AS n FROM S [RANGE 30] GROUP BY k"


def file_of(batch: int) -> list[tuple[int, int]]:
    return [(t % 4, t) for t in range(10 * batch, 10 * batch + 8)]


def test_what_a_function_does_not_read_runs_and_what_it_reads_twice_is_not_replayed(
    session: Session, files: Any, tmp_path: Path
) -> None:
    found: list[Any] = []

    def seen(batch: Any, number: int) -> None:
        """In turn: all after a look, nothing, one row, all after a count."""
        if number % 4 == 0 and not batch.isEmpty():
            found.extend(batch.collect())
        if number % 4 == 2:
            assert len(batch.limit(1).collect()) == 1
        if number % 4 == 3:
            rows = batch.count()
            found.extend(batch.collect())
            assert rows > 0

    def run() -> Any:
        reader = session.spark.readStream.schema("k BIGINT, t BIGINT").option("maxFilesPerTrigger", 1)
        session.create_stream("S", reader.parquet(str(files.root)), timestamp="t", replace=True)
        writer = session.sql(QUERY).writeStream.foreachBatch(seen)  # type: ignore[union-attr]
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        steps = session.metrics()
        query.stop()
        return steps

    for number in range(4):
        files.add(file_of(number))
    before = run()
    assert before.total(Property.REPLAYED_STEPS) == 0
    assert before.total(Property.STEPS_AGAIN) >= 3
    files.add(file_of(4))
    run()
    rows = [(t, {"k": k}) for number in range(5) for k, t in file_of(number)]
    shown = [range(10 * n - 3, 10 * n + 7) for n in (0, 3, 4)]
    expected = [c for c in penstock.evaluate(QUERY, {"S": rows}) if any(c[0] in at for at in shown)]
    changes = [(row.ts, row.op, {"k": row.k, "n": row.n}) for row in found]
    assert sorted(map(repr, changes)) == sorted(map(repr, expected))
