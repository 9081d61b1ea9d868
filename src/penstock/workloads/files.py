"""Writes slices of generated streams as the parquet files that a streaming source reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MICROS = 1_000_000
"""Ticks of a TIMESTAMP in a second."""

EPOCH = 1_700_000_000 * MICROS
"""Stream time 0 of every generated stream: 2023-11-14 22:13:20 UTC."""


class StreamDirectory:
    """A directory of parquet files that together are one stream, in the order in which they were written.

    A file appears whole: it is written under a name that readers of the directory skip and then renamed.
    Spark takes files in the order of their modification time, so each gets a later one than the last.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._mtime_ns = 0

    def append(self, table: pa.Table, files: int = 1, mtime_ns: int | None = None) -> None:
        """Add a table's rows as ``files`` files of about the same size, rows in their order.

        ``mtime_ns`` is their earliest modification time; by default the current time.
        """
        bounds = [table.num_rows * i // files for i in range(files + 1)]
        for start, stop in zip(bounds, bounds[1:], strict=False):
            self._write(table.slice(start, stop - start), mtime_ns)

    def _write(self, table: pa.Table, mtime_ns: int | None) -> None:
        name = f"part-{self._count:06d}.parquet"
        hidden, visible = self.path / f".{name}.tmp", self.path / name
        pq.write_table(table, hidden, compression="lz4")
        earliest = mtime_ns if mtime_ns is not None else hidden.stat().st_mtime_ns
        self._mtime_ns = max(earliest, self._mtime_ns + 1_000_000)
        os.utime(hidden, ns=(self._mtime_ns, self._mtime_ns))
        hidden.rename(visible)
        self._count += 1


def write_slices(
    root: str | Path, slices: Iterable[dict[str, pa.Table]], files: int = 1
) -> dict[str, StreamDirectory]:
    """Write every slice of some streams below ``root``, a directory for each stream."""
    directories: dict[str, StreamDirectory] = {}
    for number, tables in enumerate(slices):
        for name, table in tables.items():
            directory = directories.setdefault(name, StreamDirectory(Path(root) / name))
            # In the past and a second apart, so that no clock or file system can change the order.
            directory.append(table, files, mtime_ns=EPOCH * 1000 + number * 1_000_000_000)
    return directories
