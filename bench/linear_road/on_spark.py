"""The queries of ``examples/linear_road.cql`` as one pipeline on Spark, over files of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.linear_road.on_engine import SCRIPT, STREAM
from penstock import cql
from penstock.workloads.linear_road import DDL


class OnSpark:
    """The pipeline. Its input is what appears as Parquet files in ``root/Road``."""

    def __init__(
        self, root: Path, history: pa.Table, partitions: int, ps: Any, files: int | None = None
    ) -> None:
        self.ps, self.input = ps, root / STREAM
        self.input.mkdir(parents=True, exist_ok=True)
        (root / "History").mkdir()
        pq.write_table(history, root / "History" / "tolls.parquet")
        limit = f" OPTIONS (maxFilesPerTrigger '{files}')" if files else ""
        ps.sql(
            f"CREATE STREAM {STREAM} ({DDL}) TIMESTAMP BY time IN SECONDS FROM PARQUET '{self.input}'{limit}"
        )
        columns = "vid INT, day INT, xway INT, toll INT"
        ps.sql(f"CREATE TABLE History ({columns}) FROM PARQUET '{root / 'History'}'")
        self.pipeline = ps.pipeline("linear_road", checkpoint=str(root / "state"), streams=[STREAM])
        for part in cql.split(SCRIPT.read_text()):
            for statement in cql.parse(part):
                if isinstance(statement, cql.CreateView | cql.RegisterQuery):
                    ps.sql(part)
        self._read = 0

    def results(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The query and the elements of what was published since the last call."""
        folder = self.pipeline.results
        ids = {q.name: q.id for q in self.pipeline.queries()}
        published = folder.published()
        for batch in range(max(self._read, published.first), published.next):
            for name, id in ids.items():
                for piece in folder.pieces(batch, id):
                    for elements in folder.read(piece):
                        yield name, elements
        self._read = published.next


def connected(partitions: int) -> Any:
    """A session with as many partitions."""
    import penstock

    return penstock.connect(partitions=partitions)
