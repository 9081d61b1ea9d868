"""Whether sources are partitioned as they are declared: every key comes from one partition of its source.

Each task sends the keys it has, once each, to the engine that their hash chooses, which remembers from which
partition of the source they came. A key that comes from two ends the query: rows that should have met did
not. Streams that are joined are held against each other too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.settings import CHECKED_KEYS
from penstock.engine.snapshot import State, Stateful
from penstock.engine.stage import SOURCE, Arrival, StageInput
from penstock.engine.synopses.directory import Directory
from penstock.errors import DataError


class SourcePartitions(Stateful):
    """What one engine knows of where keys come from. ``inputs`` are those of kind ``"keys"``."""

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
        """Take in what tasks say of their keys; the other arrivals."""
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
        """How many keys are known."""
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
