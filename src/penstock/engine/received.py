"""What one engine has received: rows of each input, and which keys most of them have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.engine.stage import Arrival, StageInput
from penstock.measurement import Kind, Property, Reading, curve, under
from penstock.routing import mine
from penstock.streamon.heavy_hitters import HeavyHitters


class Received:
    """Counts rows, and heavy keys of the inputs that are split by one column."""

    def __init__(self, inputs: Sequence[StageInput]) -> None:
        self._rows = {i.name: 0 for i in inputs if i.kind in ("source", "exchange")}
        self._keys = {i.name: i.key for i in inputs if i.key is not None}
        self._described = {i.name: _described(i.key, i.schema) for i in inputs if i.key is not None}
        self._heavy = {name: HeavyHitters() for name in self._keys}

    def note(self, arrivals: Sequence[Arrival]) -> None:
        """Count a step's rows; of a stream that sends places, the partition's own."""
        for arrival in arrivals:
            if arrival.batch is not None and arrival.batch.num_rows:
                self._note(arrival.input, arrival.batch)

    def _note(self, name: str, batch: pa.RecordBatch) -> None:
        if mine(name) in batch.schema.names:
            batch = batch.filter(batch.column(mine(name)))
        self._rows[name] += batch.num_rows
        if name in self._keys:
            key = batch.column(self._keys[name])
            self._heavy[name].see(key.cast(pa.string()) if pa.types.is_decimal(key.type) else key)

    def measure(self) -> Iterator[Reading]:
        """Rows by input; by input its key, and the heavy values of it with their part of the rows."""
        for name, rows in self._rows.items():
            own = [Reading(Property.RECEIVED, rows)]
            if name in self._keys:
                parts = self._heavy[name].parts()
                own += [self._described[name], *curve(Property.HEAVY_SHARE, parts.values(), parts)]
            yield from under(f"input/{name}", Kind.INPUT, own)


def _described(key: str, schema: pa.Schema) -> Reading:
    """The column as its stream calls it, and whether DDL writes its values in quotes."""
    kind = schema.field(key).type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    quoted = not plain and not pa.types.is_boolean(kind)
    return Reading(Property.KEY, float(quoted), key.partition(".")[2])
