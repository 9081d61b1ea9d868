"""The files of answers: one for each kind, rows in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

COLUMNS = {
    "tolls": ("time", "vid", "lav", "toll"),
    "accidents": ("time", "vid", "segment"),
    "balances": ("time", "qid", "result_time", "balance"),
    "expenditures": ("time", "qid", "amount"),
}
"""The columns of each query's answers; time is the timestamp of the result."""


class Answers:
    """Collects results of the queries and writes the files."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {kind: [] for kind in COLUMNS}

    def add(self, results: Mapping[str, Iterable[pa.RecordBatch]], time: str) -> None:
        """Results by query; ``time`` is the column of their timestamps."""
        for kind, batches in results.items():
            for batch in batches:
                if batch.num_rows:
                    names = [time, *COLUMNS[kind][1:]]
                    columns = [batch.column(name).cast(pa.int64()) for name in names]
                    self._parts[kind].append(pa.table(columns, names=list(COLUMNS[kind])))

    def table(self, kind: str) -> pa.Table:
        """All answers of a kind, in order of time and of the columns that follow."""
        schema = pa.schema([(name, pa.int64()) for name in COLUMNS[kind]])
        whole = pa.concat_tables([schema.empty_table(), *self._parts[kind]])
        return whole.sort_by([(name, "ascending") for name in COLUMNS[kind]])

    def write(self, directory: Path) -> dict[str, int]:
        """Write the files; the number of rows of each."""
        directory.mkdir(parents=True, exist_ok=True)
        found = {}
        for kind in COLUMNS:
            table = self.table(kind)
            found[kind] = table.num_rows
            text = ",".join(COLUMNS[kind]) + "\n"
            with open(directory / f"{kind}.csv", "wb") as file:
                file.write(text.encode())
                pc.write_csv(table, file, pc.WriteOptions(include_header=False))
        return found
