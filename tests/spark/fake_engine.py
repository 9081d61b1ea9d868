"""An engine that echoes its rows and counts them: what the relay and the log can be tested with."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.engine.command import Command
from penstock.engine.stage import RESULT, SIGN, TS, Arrival, RootOutput, Snapshot, Stage, StepOutput
from penstock.errors import DataError
from penstock.measurement import Kind, Property, Reading, under

ROW = pa.schema([("k", pa.int64()), ("total", pa.int64())])


class CountingEngine:
    """For every row (k) a row (k, how many of all rows so far): wrong as soon as a row is lost or doubled.

    It keeps the rows of the last ``reach`` steps, or needs everything if ``reach`` is None.
    """

    def __init__(self, stage: Stage, reach: int | None = 2) -> None:
        self.reach = reach
        self.steps = 0
        self.total = 0
        self.recent: list[int] = []

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        keys = [k for a in arrivals if a.batch is not None for k in a.batch.column("k").to_pylist()]
        ts = [t for a in arrivals if a.batch is not None for t in a.batch.column(TS).to_pylist()]
        if -1 in keys:
            raise DataError("stream 'S': the key -1 is cursed")
        totals = list(range(self.total + 1, self.total + len(keys) + 1))
        self.total += len(keys)
        self.steps += 1
        self.recent.append(len(keys))
        if self.reach is not None:
            self.recent = self.recent[len(self.recent) - min(self.reach, len(self.recent)) :]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(ts, pa.int64()),
                pa.array(np.ones(len(ts), np.int8)),
                pa.array(keys, pa.int64()),
                totals,
            ],
            schema=pa.schema([(TS, pa.int64()), (SIGN, pa.int8()), *ROW]),
        )
        progress = max((a.max_ts for a in arrivals if a.max_ts is not None), default=0)
        return StepOutput({RESULT: RootOutput(batch, progress)}, self._needs_from(), self.steps)

    def _needs_from(self) -> int:
        return self.steps - len(self.recent)

    def measure(self) -> Iterator[Reading]:
        return under("engine", Kind.ENGINE, [Reading(Property.ROWS, sum(self.recent))])

    def tables(self) -> bytes:
        return b""

    def tables_version(self) -> int | None:
        return None

    def snapshot(self, whole: bool, most: int | None = None) -> Snapshot:
        data = pickle.dumps({**vars(self), "recent": []})
        if most is not None and len(data) > most:
            return Snapshot(self.steps, self.steps, b"", len(data))
        self.recent = []
        return Snapshot(self.steps, self.steps, data, len(data))

    def restore(self, snapshot: bytes) -> None:
        vars(self).update(pickle.loads(snapshot))

    def header(self) -> bytes:
        return pickle.dumps((self._needs_from(), self.total - sum(self.recent)))

    def restore_header(self, header: bytes, tables: bytes = b"") -> None:
        self.steps, self.total = pickle.loads(header)


def forgetful(stage: Stage) -> CountingEngine:
    return CountingEngine(stage, reach=2)


def stateless(stage: Stage) -> CountingEngine:
    return CountingEngine(stage, reach=0)


def hoarding(stage: Stage) -> CountingEngine:
    return CountingEngine(stage, reach=None)


class Mortal:
    """Builds engines that die in a step with a certain key, once."""

    def __init__(self, key: int, marker: str) -> None:
        self.key, self.marker = key, marker

    def __call__(self, stage: Stage) -> CountingEngine:
        return MortalEngine(stage, self.key, self.marker)


class MortalEngine(CountingEngine):
    def __init__(self, stage: Stage, key: int, marker: str) -> None:
        super().__init__(stage)
        self.key, self.marker = key, Path(marker)

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        keys = [k for a in arrivals if a.batch is not None for k in a.batch.column("k").to_pylist()]
        if self.key in keys and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(arrivals)


class Greedy:
    """Builds engines that want two gigabytes for a certain key."""

    def __init__(self, key: int) -> None:
        self.key = key

    def __call__(self, stage: Stage) -> CountingEngine:
        return GreedyEngine(stage, self.key)


class GreedyEngine(CountingEngine):
    def __init__(self, stage: Stage, key: int) -> None:
        super().__init__(stage)
        self.key = key

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        output = super().step(arrivals)
        if self.key in output.only.batch.column("k").to_pylist():
            self.hoard = np.ones(1 << 28)
        return output


class Busy:
    """Builds engines that write their process id to a file at a certain key and do not come back."""

    def __init__(self, key: int, started: str) -> None:
        self.key, self.started = key, started

    def __call__(self, stage: Stage) -> CountingEngine:
        return BusyEngine(stage, self.key, self.started)


class BusyEngine(CountingEngine):
    def __init__(self, stage: Stage, key: int, started: str) -> None:
        super().__init__(stage)
        self.key, self.started = key, Path(started)

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        output = super().step(arrivals)
        if self.key in output.only.batch.column("k").to_pylist():
            with self.started.open("a") as file:
                file.write(f"{os.getpid()}\n")
            time.sleep(600)
        return output


class ListeningEngine(CountingEngine):
    """Shows for every row what its commands added up to: wrong if one is lost, doubled or out of order."""

    heard = 0

    def step(self, arrivals: Sequence[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        for command in commands:
            self.heard = 10 * self.heard + command.payload["bytes"]
        out = super().step(arrivals, commands)
        column = pa.array([self.heard] * out.only.batch.num_rows, pa.int64())
        shown = replace(out.only, batch=out.only.batch.set_column(3, "total", column))
        return replace(out, roots={RESULT: shown})


def listening(stage: Stage) -> ListeningEngine:
    return ListeningEngine(stage, reach=None)
