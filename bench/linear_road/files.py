"""The input of a run: a file of rows and one of tolls of earlier days, in the benchmark's format.

A file has no header; rows are in order of time, and in any order within a second. What is wrong with a file
is told with the line.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.workloads.linear_road import HISTORY_SCHEMA, SCHEMA
from penstock.workloads.linear_road.layout import BALANCE, EXPENDITURE, REPORT, TRAVEL_TIME, read_rows

STEP_SECONDS = 60
"""Traffic of so many seconds is a batch."""
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True)
class Files:
    """The two files. ``ignored``: the rows that were read and that no query answers, by what they are."""

    traffic: Path
    history: Path | None
    ignored: Counter[str] = field(default_factory=Counter)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches that end with a minute."""
        kept: list[pa.RecordBatch] = []
        last = None
        for batch in read(self.traffic, SCHEMA):
            self._note(batch)
            times = batch.column("time").to_numpy()
            before = times[0] if last is None else last
            if times[0] < before or (times[1:] < times[:-1]).any():
                raise PenstockError(_out_of_order(self.traffic))
            cuts = [
                int(i) for i in (times[1:] // STEP_SECONDS != times[:-1] // STEP_SECONDS).nonzero()[0] + 1
            ]
            if times[0] // STEP_SECONDS != before // STEP_SECONDS:
                yield _joined(kept)
                kept = []
            for start, stop in zip([0, *cuts], [*cuts, len(times)], strict=True):
                if start:
                    yield _joined(kept)
                    kept = []
                kept.append(batch.slice(start, stop - start))
            last = times[-1]
        if not kept:
            raise PenstockError(f"{self.traffic} has no rows")
        yield _joined(kept)

    def tolls(self) -> pa.Table:
        """The history; empty if there is none."""
        if self.history is None:
            return HISTORY_SCHEMA.empty_table()
        return pa.Table.from_batches(read(self.history, HISTORY_SCHEMA), HISTORY_SCHEMA)

    def _note(self, batch: pa.RecordBatch) -> None:
        for kind, rows in zip(*pc.value_counts(batch.column("type")).flatten(), strict=True):
            if kind.as_py() == TRAVEL_TIME:
                self.ignored[f"of type {kind} (travel times)"] += rows.as_py()
            elif kind.as_py() not in (REPORT, BALANCE, EXPENDITURE):
                self.ignored[f"of the unknown type {kind}"] += rows.as_py()


def read(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, batch by batch."""
    try:
        if not path.stat().st_size:
            return
        for batch in read_rows(path, schema):
            if any(column.null_count for column in batch.columns):
                raise PenstockError(_bad_row(path, schema))
            if batch.num_rows:
                yield batch
    except pa.ArrowInvalid as error:
        raise PenstockError(_bad_row(path, schema) or f"{path} cannot be read: {error}") from None
    except OSError as error:
        raise PenstockError(f"{path} cannot be read: {error.strerror}") from None


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches, SCHEMA).combine_chunks().to_batches()[0]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of every line that is not empty, with its number."""
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.reader(file)
        yield from ((rows.line_num, row) for row in rows if row)


def _bad_row(path: Path, schema: pa.Schema) -> str:
    """What is wrong with the first row that is not one of the benchmark's."""
    for line, row in _lines(path):
        if len(row) != len(schema):
            hint = "; columns are separated by commas, without a header" if line == 1 else ""
            return f"{path}, line {line}: {len(row)} columns, where there must be {len(schema)}{hint}"
        for name, value in zip(schema.names, row, strict=True):
            if not _is_whole(value):
                hint = "the file must have no header" if line == 1 else "columns without a value are -1"
                return f"{path}, line {line}: column {name!r} is {value!r}, not a whole number; {hint}"
    return ""


def _is_whole(value: str) -> bool:
    try:
        return _LEAST <= int(value) <= _MOST
    except ValueError:
        return False


def _out_of_order(path: Path) -> str:
    last = _LEAST
    for line, (_, time, *_) in _lines(path):
        if int(time) < last:
            sort = f"sort -s -t, -k2,2n {path}"
            return f"{path}, line {line}: time {time} comes after {last}; put rows in order of time: {sort}"
        last = int(time)
    return f"{path} is not in order of time"
