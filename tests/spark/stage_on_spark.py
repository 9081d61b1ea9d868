"""What tests of a stage on Spark share: a stream of files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[tuple[int, int | None]]


class Files:
    """A stream of files, one a micro-batch."""

    def __init__(self, root: Path) -> None:
        self.root, self.count = root, 0
        root.mkdir()

    def add(self, rows: Rows) -> None:
        """Rows of (k, t)."""
        table = pa.table(
            {"k": pa.array([k for k, _ in rows], pa.int64()), "t": pa.array([t for _, t in rows], pa.int64())}
        )
        path = self.root / f"{self.count:04}.parquet"
        pq.write_table(table, self.root / ".new")
        os.utime(self.root / ".new", (self.count, self.count))
        (self.root / ".new").rename(path)
        self.count += 1
