"""SysStream: the measurements of running queries as a stream that any query can read (thesis 2.4).

A row is a measurement: at ``ts``, in a query, stage and partition, an entity had a property with a value or
text. All rows of one publication have one ``ts``, so a query sees them at one instant. The host publishes
them to files that it reads back as a source with offsets, never directly to engines: measured times differ
from run to run, and a query over them is rebuilt from the files like any other.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.catalog import Input, InputOptions
from penstock.measurement import Kind, Measurement, Measurements, Property
from penstock.schema import TIMESTAMP, TIMESTAMP_TIME

NAME = "SysStream"
SCHEMA = pa.schema(
    [
        ("ts", TIMESTAMP),
        ("query", pa.string()),
        ("stage", pa.int32()),
        ("partition", pa.int32()),
        ("entity", pa.string()),
        ("kind", pa.string()),
        ("property", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
    ]
)


def definition(source: object = None) -> Input:
    """The catalog's entry; ``source`` is what the host reads it from."""
    return Input(NAME, SCHEMA, InputOptions(TIMESTAMP_TIME, "ts"), source=source)


def rows(found: Iterable[Measurement], query: str, ts: int) -> pa.Table:
    """The rows of one publication at ``ts``, under the name of their query."""
    columns = zip(*((ts, query, *row[2:]) for row in Measurements(found).rows()), strict=True)
    return pa.table([list(c) for c in columns] or [[]] * len(SCHEMA), schema=SCHEMA)


def of_batch(found: Measurements, seconds: float, publishing: float) -> list[Measurement]:
    """What the driver knows of a query after a batch that took some seconds.

    Its throughput is what its first stage received. A result waits in every stage, so its latency is the sum
    over the stages, of the slowest partition each, and the part of the batch in which no engine worked.
    ``publishing``: what the last publication took.
    """
    stages = {stage: [m for m in found if m.stage == stage] for stage in sorted({m.stage for m in found})}
    in_engines = sum(_most(own, Property.STEP_SECONDS) for own in stages.values())
    received = sum(
        m.value for m in stages.get(1, ()) if m.kind is Kind.INPUT and m.property is Property.THROUGHPUT
    )
    readings = [
        (Property.BATCH_SECONDS, seconds, ""),
        (Property.PUBLISH_SECONDS, publishing, ""),
        (Property.THROUGHPUT, received, ""),
    ]
    for text in sorted({m.text for m in found if m.property is Property.LATENCY}):
        waited = sum(_most(own, Property.LATENCY, text) for own in stages.values())
        readings.append((Property.LATENCY, waited + max(seconds - in_engines, 0.0), text))
    run = found[0].query if found else ""
    return [Measurement(0, run, 0, 0, "query", Kind.QUERY, p, value, text) for p, value, text in readings]


def of_end(run: str) -> list[Measurement]:
    """What is published when a query has ended: a later instant, which completes that of its last batch."""
    return [Measurement(0, run, 0, 0, "query", Kind.QUERY, Property.ENDED, 0.0, "")]


def _most(found: Iterable[Measurement], prop: Property, text: str = "") -> float:
    return max((m.value for m in found if m.property is prop and m.text == text), default=0.0)
