"""Counts, checks and stamps of arrivals, apart from their order.

Stamps gives rows that have no timestamp that of their batch.

Received counts the rows of each input and its most frequent keys.

SourcePartitions checks that sources are partitioned as declared: all rows of a key are in one partition of
the source. Each task sends each of its keys once to the engine that the key's hash selects, which remembers
the source partition it came from. A key from two partitions fails the query, since rows that join may be in
different engines. Joined streams are also compared with each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME
from penstock.engine.settings import CHECKED_KEYS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.stage import SOURCE, TS, Arrival, StageInput
from penstock.engine.synopses.directory import Directory
from penstock.errors import DataError
from penstock.measurement import Kind, Property, Reading, curve, under
from penstock.routing import own_column
from penstock.streamon.heavy_hitters import HeavyHitters


class Stamps:
    """Stamps the rows of streams without timestamps (thesis 2.2.5): a batch is one instant.

    The host sends such rows with the time of their batch, the same to all partitions. Clocks may be set back
    and batches may follow each other within a tick, so a batch gets at least the tick after the last one:
    no row is late, and the instant of a batch is complete with the batch.
    """

    def __init__(self, inputs: Sequence[StageInput]) -> None:
        self._names = [i.name for i in inputs if i.stamped]
        self.last = int(BEFORE_TIME)
        """The stamp of the last batch that had one; part of the log's header."""

    def stamp(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """The arrivals with their rows stamped; a stream that sent nothing gets the time as well."""
        times = [a.max_ts for a in arrivals if a.input in self._names and a.max_ts is not None]
        if not times:
            return list(arrivals)
        self.last = max(max(times), self.last + 1)
        beats = [Arrival(name, -1, max_ts=self.last) for name in self._names]
        return [*beats, *(self._stamped(a) if a.input in self._names else a for a in arrivals)]

    def _stamped(self, arrival: Arrival) -> Arrival:
        batch = arrival.batch
        if batch is not None:
            stamps = pa.array(np.full(batch.num_rows, self.last))
            batch = batch.set_column(batch.schema.get_field_index(TS), TS, stamps)
        least = None if arrival.min_ts is None else self.last
        most = None if arrival.max_ts is None else self.last
        return replace(arrival, batch=batch, min_ts=least, max_ts=most, epochs=None)


class Received:
    """Counts rows, and heavy keys of the inputs that are split by one column."""

    def __init__(self, inputs: Sequence[StageInput]) -> None:
        self._rows = {i.name: 0 for i in inputs if i.kind in ("source", "exchange")}
        self._keys = {i.name: i.key for i in inputs if i.key is not None}
        self._described = {i.name: _described(i.key, i.schema) for i in inputs if i.key is not None}
        self._heavy = {name: HeavyHitters() for name in self._keys}
        self._before = dict(self._rows)
        self._noted = self._seconds = 0.0

    def note(self, arrivals: Sequence[Arrival]) -> None:
        """Count a step's rows; of a stream that sends places, only the partition's own rows."""
        now = time.perf_counter()
        self._seconds, self._noted = now - self._noted if self._noted else 0.0, now
        self._before = dict(self._rows)
        for arrival in arrivals:
            if arrival.batch is not None and arrival.batch.num_rows:
                self._note(arrival.input, arrival.batch)

    def _note(self, name: str, batch: pa.RecordBatch) -> None:
        if own_column(name) in batch.schema.names:
            batch = batch.filter(batch.column(own_column(name)))
        self._rows[name] = self._rows.get(name, 0) + batch.num_rows
        if name in self._keys:
            key = batch.column(self._keys[name])
            self._heavy[name].see(key.cast(pa.string()) if pa.types.is_decimal(key.type) else key)

    def measure(self) -> Iterator[Reading]:
        """Rows per input, and per input its key and the frequent values with their share of the rows."""
        for name, rows in self._rows.items():
            own = [Reading(Property.RECEIVED, rows)]
            if self._seconds:
                own.append(Reading(Property.THROUGHPUT, (rows - self._before.get(name, 0)) / self._seconds))
            if name in self._keys:
                parts = self._heavy[name].parts()
                own += [self._described[name], *curve(Property.HEAVY_SHARE, parts.values(), parts)]
            yield from under(f"input/{name}", Kind.INPUT, own)


def _described(key: str, schema: pa.Schema) -> Reading:
    """The column's name in its stream, and whether DDL quotes its values."""
    kind = schema.field(key).type
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    quoted = not plain and not pa.types.is_boolean(kind)
    return Reading(Property.KEY, float(quoted), key.partition(".")[2])


class SourcePartitions(Stateful):
    """The source partition of each key that this engine checks. ``inputs`` are those of kind ``"keys"``."""

    def __init__(self, inputs: Sequence[StageInput]) -> None:
        self._inputs = {i.name: i for i in inputs}
        # Streams that are partitioned alike share a directory.
        schemas = {i.axis: i.schema for i in inputs}
        self._keys = {axis: Directory([f.type for f in _key(schema)]) for axis, schema in schemas.items()}
        self._from = {axis: np.empty(0, np.int64) for axis in schemas}

    def state(self) -> dict[str, State]:
        return {str(axis): [self._keys[axis], self._from[axis]] for axis in self._keys}

    def _load(self, state: dict[str, State]) -> None:
        for axis, known in self._keys.items():
            keys, self._from[axis] = state[str(axis)]
            known.restore(keys)

    def check(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Check the keys that tasks report; returns the other arrivals."""
        for arrival in arrivals:
            if arrival.input in self._inputs and arrival.batch is not None:
                self._check(self._inputs[arrival.input], arrival.batch)
        return [a for a in arrivals if a.input not in self._inputs]

    def _check(self, incoming: StageInput, batch: pa.RecordBatch) -> None:
        known = self._keys[incoming.axis]
        if len(known) > CHECKED_KEYS:
            return
        numbers = known.assign([batch.column(f.name) for f in _key(incoming.schema)], batch.num_rows)
        before = self._from[incoming.axis]
        homes = np.concatenate([before, np.full(len(known) - len(before), -1, np.int64)])
        source = np.asarray(batch.column(SOURCE)).astype(np.int64)
        wrong = np.flatnonzero((homes[numbers] >= 0) & (homes[numbers] != source))
        if len(wrong):
            raise _two_partitions(incoming, batch, int(wrong[0]), int(homes[numbers[wrong[0]]]))
        homes[numbers] = source
        self._from[incoming.axis] = homes

    def keys(self) -> int:
        return sum(len(d) for d in self._keys.values())


def _key(schema: pa.Schema) -> list[pa.Field]:
    return [f for f in schema if f.name != SOURCE]


def _two_partitions(incoming: StageInput, batch: pa.RecordBatch, row: int, other: int) -> DataError:
    names = [f.name for f in _key(incoming.schema)]
    values = ", ".join(f"{n} = {batch.column(n)[row].as_py()!r}" for n in names)
    here = batch.column(SOURCE)[row].as_py()
    return DataError(
        f"a stream is declared PARTITIONED BY ({', '.join(names)}), but rows with {values} came from "
        f"partition {here} of the source and before from partition {other}; leave PARTITIONED BY out"
    )
