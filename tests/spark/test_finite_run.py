"""SET penstock.at_end: a run over finite input returns its last instants and closes its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stage_on_spark import Files
from waiting import until

from penstock.errors import PenstockError
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark


def test_the_last_windows_come_and_later_rows_are_refused(
    session: Session, files: Files, tmp_path: Path
) -> None:
    for stamps in ([1, 2, 9], [10, 11], [21]):
        files.add([(t % 2, t) for t in stamps])
    reader = session.spark.readStream.schema("k LONG, t LONG").option("maxFilesPerTrigger", 1)
    session.create_stream("S", reader.parquet(str(files.root)), timestamp="t", disorder=3)
    shown: list[tuple[Any, ...]] = []

    def start() -> Any:
        frame = session.sql(
            "SELECT ISTREAM(k, window_end, COUNT(*) AS n) FROM S [TUMBLE 10] GROUP BY k, window_end"
        )
        assert frame is not None
        writer = frame.writeStream.foreachBatch(lambda batch, _: shown.extend(map(tuple, batch.collect())))
        return writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()

    session.sql("SET penstock.at_end = '10 SECONDS'")
    query = start()
    assert query.awaitTermination(60) and not query.isActive
    assert sorted(shown) == [(10, 0, 10, 1), (10, 1, 10, 2), (20, 0, 20, 1), (20, 1, 20, 1), (30, 1, 30, 1)]
    start().awaitTermination()  # nothing new: nothing to refuse
    files.add([(0, 40)])
    with pytest.raises(PenstockError, match="a row of S came after the run was ended .* is closed"):
        start().awaitTermination()
    assert len(shown) == 5


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT ISTREAM(x.k) FROM S [NOW] AS x, S [NOW] AS y WHERE x.k = y.k", "1 result of it was held"),
        ("SELECT k, COUNT(*) AS n FROM S [TUMBLE 10] GROUP BY k", "SET penstock.at_end = '10 SECONDS' shows"),
        ("SELECT ISTREAM ALL(k) FROM S [NOW]", ""),
    ],
)  # fmt: skip
def test_a_run_that_ends_by_its_trigger_says_what_it_leaves_out(
    session: Session, files: Files, caplog: pytest.LogCaptureFixture, query: str, said: str
) -> None:
    for number, stamps in enumerate(([1, 2, 9], [10, 11], [21])):
        files.add([(number, t) for t in stamps])
    reader = session.spark.readStream.schema("k LONG, t LONG")
    session.create_stream("S", reader.parquet(str(files.root)), timestamp="t", disorder=1)
    frame = session.sql(query)
    assert frame is not None
    writer = frame.writeStream.foreachBatch(lambda batch, _: batch.collect()).queryName("left")
    assert writer.trigger(availableNow=True).start().awaitTermination(60)
    until(lambda: not said or "not complete" in caplog.text)
    assert said in caplog.text and ("left: " in caplog.text) == bool(said)
