"""The benchmark's rows and files: fifteen whole numbers per row, separated by commas, without a header.

| type | row | columns that are used; the others are -1 |
| --- | --- | --- |
| 0 | position report | time, vid, speed, xway, lane, direction, segment, position |
| 2 | request for an account balance | time, vid, qid |
| 3 | request for a day's expenditure | time, vid, xway, qid, day |
| 4 | request for an estimate of a travel time | time, vid, xway, qid, s_init, s_end, dow, tod |

An expressway has 100 segments of a mile, in both directions; a position is in feet. Lane 0 is a ramp to enter
by, 4 one to exit by. Tolls of earlier days are in a second file: vid, day, xway, toll.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

COLUMNS = (
    "type", "time", "vid", "speed", "xway", "lane", "direction", "segment", "position", "qid", "s_init",
    "s_end", "dow", "tod", "day",
)  # fmt: skip
SCHEMA = pa.schema([(name, pa.int32()) for name in COLUMNS])
DDL = ", ".join(f"{name} INT" for name in COLUMNS)
HISTORY_SCHEMA = pa.schema([(name, pa.int32()) for name in ("vid", "day", "xway", "toll")])

REPORT, BALANCE, EXPENDITURE, TRAVEL_TIME = 0, 2, 3, 4

SEGMENTS = 100
FEET = 5280
"""Feet in a segment."""
PERIOD = 30
"""Seconds between two reports of a car."""
FEET_PER_REPORT = FEET * PERIOD // 3600
"""Feet that a car at one mile per hour drives between two reports."""
ENTRY_LANE, EXIT_LANE = 0, 4
UNUSED = -1


def write_rows(path: str | Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema = SCHEMA) -> int:
    """Write a file in the benchmark's format; the number of rows."""
    options, rows = pc.WriteOptions(include_header=False), 0
    with pc.CSVWriter(path, schema, write_options=options) as out:
        for batch in batches:
            out.write(batch)
            rows += batch.num_rows
    return rows


def read_rows(path: str | Path, schema: pa.Schema = SCHEMA) -> Iterable[pa.RecordBatch]:
    """The rows of a file in the benchmark's format, batch by batch."""
    return pc.open_csv(
        path,
        read_options=pc.ReadOptions(column_names=schema.names),
        convert_options=pc.ConvertOptions(column_types=schema),
    )
