"""The input manager: orders arrivals, computes the query's time, and counts late rows.

A source's future rows are no older than its largest timestamp so far minus its skew; the upstream partitions
of an exchange, and those of a query whose rows a source has, report their progress themselves. The query's
time is the least of its inputs' progress. An input declared ``IDLE AFTER x`` that falls more than x behind
the furthest one is taken to be silent and follows at that distance; everything is in stream time, so a replay
sees the same.

Rows older than the query's time are late: they are counted and returned separately.

Disorder within an input and between inputs is observed (:mod:`penstock.engine.disorder`), from what producers
report of all their rows, so that all partitions observe the same. A bound that adapts to it is part of the
progress, and a replay has the same one.

Where an operator depends on it, rows of one instant are released in the order that their source gives them
(:mod:`penstock.engine.ties`): they may have come in several batches.

Changes of static tables come by commands and hold no time back. They happen at the first instant that is not
complete; where results do not wait for that, at the first that is later than every row so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.disorder import Disorder, disorder
from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk, Int64s, batch_of
from penstock.engine.operator import Clock
from penstock.engine.settings import SHARES_MEMORY_ROWS
from penstock.engine.shares import Counts, Epochs, note, passed
from penstock.engine.snapshot import State, Stateful
from penstock.engine.stage import END, SIGN, TS, Arrival, StageInput
from penstock.engine.ties import in_tie_order
from penstock.errors import DataError
from penstock.measurement import Kind, Property, Reading, under
from penstock.routing import own_column, own_rows, own_times
from penstock.schema import MOST_TICKS


@dataclass
class Progress:
    """The state of the input manager; it is small and stored with every step of the log."""

    now: int = int(BEFORE_TIME)
    first: int | None = None
    highest: dict[str, int] = field(default_factory=dict)
    upstream: dict[str, dict[int, int]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    own: float = 0.0
    total: float = 0.0
    changed: int = int(BEFORE_TIME)
    """The instant of the last change of a table."""
    disorder: dict[str, Disorder] = field(default_factory=dict)
    late_before: dict[str, dict[str, int]] = field(default_factory=dict)
    """By root, the late rows per input before it was started."""
    past: Counts = field(default_factory=Counts)
    coming: dict[int, list[int]] = field(default_factory=dict)
    """The rows of past epochs; own rows and all rows of the others, by epoch."""

    def copy(self) -> Progress:
        up = {k: dict(v) for k, v in self.upstream.items()}
        before = {k: dict(v) for k, v in self.late_before.items()}
        highest, late, disorder = dict(self.highest), dict(self.late), dict(self.disorder)
        coming, past = {k: list(v) for k, v in self.coming.items()}, replace(self.past)
        return replace(
            self, highest=highest, upstream=up, late=late, disorder=disorder, late_before=before,
            coming=coming, past=past,
        )  # fmt: skip

    def late_for(self, root: str) -> dict[str, int]:
        """The late rows per input since a root was started."""
        before = self.late_before.get(root, {})
        return {name: rows - before.get(name, 0) for name, rows in self.late.items()}

    def state(self) -> dict[str, Any]:
        """The form stored in headers and snapshots; keys are strings there."""
        upstream = {name: [list(reported) for reported in by.items()] for name, by in self.upstream.items()}
        disorder = {name: list(seen) for name, seen in self.disorder.items()}
        coming = [[number, *rows] for number, rows in self.coming.items()]
        counted = {"past": [self.past.own, self.past.total], "coming": coming}
        return {**self.__dict__, "upstream": upstream, "disorder": disorder, **counted}

    @staticmethod
    def of(state: dict[str, Any]) -> Progress:
        """The inverse of ``state``."""
        upstream = {name: dict(map(tuple, reported)) for name, reported in state["upstream"].items()}
        disorder = {name: Disorder(*seen) for name, seen in state.get("disorder", {}).items()}
        coming = {number: list(rows) for number, *rows in state.get("coming", ())}
        counted: dict[str, Any] = {"coming": coming, "past": Counts(*state.get("past", ()))}
        return Progress(**{**state, "upstream": upstream, "disorder": disorder, **counted})

    @property
    def share(self) -> float:
        """The share of all rows that came to this partition; recent rows count more."""
        return self.own / self.total if self.total else 1.0

    def count(self, arrivals: Sequence[Arrival]) -> None:
        """Count a step's rows. Old counts decay alike in all partitions, so that their shares sum to 1."""
        own = [own_rows(a.input, a.batch) if a.batch is not None else 0 for a in arrivals]
        total = sum(o if a.total is None else a.total for a, o in zip(arrivals, own, strict=True))
        kept = exp(-total / SHARES_MEMORY_ROWS)
        self.own, self.total = self.own * kept + sum(own), self.total * kept + total

    def count_epochs(self, arrivals: Sequence[Arrival], epochs: Epochs) -> None:
        """Count a step's rows by epoch, without those of epochs that are over: they are late."""
        for a in arrivals:
            ts = np.empty(0, np.int64) if a.batch is None else own_times(a.input, a.batch, TS)
            own = epochs.counts(ts)
            if a.epochs is not None or a.total is None or a.max_ts is None:
                total = tuple(own.items()) if a.epochs is None else a.epochs
            else:  # rows that were stamped on arrival
                total = ((a.max_ts // epochs.ticks, a.total),)
            note(self.coming, own, total, self.now // epochs.ticks)


class InputManager(Stateful):
    """Buffers the rows of a stage's inputs and releases them in order."""

    def __init__(self, streams: Sequence[StageInput], waits: bool) -> None:
        self._inputs = {i.name: i for i in streams}
        self._waits = waits
        self._epochs = next((i.epochs for i in streams if i.epochs is not None), None)
        self.collects_instants = False
        """Whether clocks have the instants with input."""
        self._schemas = {name: i.schema for name, i in self._inputs.items()}
        self._held = {name: _with_ties(i) for name, i in self._inputs.items()}
        """The columns of the rows that wait: also those that order ties."""
        self._waiting: dict[str, list[Chunk]] = {name: [] for name in self._schemas}
        self.progress = Progress()
        self.late: dict[str, list[Chunk]] = {}

    def add_tables(self, tables: Sequence[StageInput]) -> None:
        """Take in changes of these tables, too."""
        for table in tables:
            self._schemas[table.name] = self._held[table.name] = table.schema
            self._waiting[table.name] = []

    def begin(self, highest: Mapping[str, int]) -> None:
        """Begin after the latest timestamps that inputs have shown by now."""
        self.progress.highest = {name: highest[name] for name in self._inputs if name in highest}
        if self.progress.highest:
            self.progress.first = max(self.progress.highest.values()) + 1
        self.progress.now = self._now(None)

    def accept(self, arrivals: Sequence[Arrival], ended: int | None = None) -> tuple[Clock, dict[str, Chunk]]:
        """Process a step's arrivals; returns the new time and the released rows per input.

        ``ended``: these are the last, and time runs on for so many ticks after the last row.
        """
        before = self.progress.now
        self.progress.count(arrivals)
        if self._epochs is not None:
            self.progress.count_epochs(arrivals, self._epochs)
        self.late = {}
        ordered = sorted(arrivals, key=lambda a: (a.input, a.producer))
        self._observe(ordered)
        for arrival in ordered:
            self._note(arrival)
            if arrival.batch is not None and arrival.batch.num_rows:
                self._waiting[arrival.input].append(self._in_time(arrival, arrival.batch))
        now = max(before, self._now(ended))
        self.progress.now = now
        released = {name: self._release(name, now) for name in self._schemas}
        clock = self.clock(before)
        if not self.collects_instants:
            return clock, released
        clock = replace(clock, instants=self._instants_of(released))
        return clock, {name: chunk.where(chunk.sign != 0) for name, chunk in released.items()}

    def clock(self, before: int) -> Clock:
        """The clock of a step that began at an instant, with the shares up to now."""
        p, epochs = self.progress, self._epochs
        shares = None if epochs is None else passed(p.past, p.coming, p.now, epochs)
        return Clock(before, p.now, p.first, share=p.share, shares=shares)

    def waiting(self, name: str) -> Chunk:
        """The rows of an input that wait for complete time."""
        return self._in_schema(Chunk.concat(self._waiting[name], self._held[name]), name)

    def change(self, changes: Mapping[str, pa.RecordBatch]) -> None:
        """Take in changes of tables (``SIGN``, then the rows), before the arrivals of the step."""
        p = self.progress
        seen = [] if self._waits else [h + 1 for h in p.highest.values()]
        p.changed = max(p.now, *seen) if seen else p.now
        for name, batch in changes.items():
            if name in self._schemas:
                columns = [batch.column(f.name) for f in self._schemas[name]]
                payload = batch_of(columns, self._schemas[name], batch.num_rows)
                ts, sign = np.full(batch.num_rows, p.changed), np.asarray(batch.column(SIGN))
                self._waiting[name].append(Chunk(ts, sign, payload))

    def _observe(self, arrivals: Sequence[Arrival]) -> None:
        """Observe the disorder of a step's arrivals, before they are noted."""
        p = self.progress
        sources = {name: i for name, i in self._inputs.items() if i.kind == "source"}
        highest = dict(p.highest)
        for name in sources:
            tops = [a.max_ts for a in arrivals if a.input == name and a.max_ts is not None]
            if tops:
                highest[name] = max([*tops, *([highest[name]] if name in highest else [])])
        furthest = max(highest.values(), default=0)
        for name in sources.keys() & highest.keys():
            own, before = [a for a in arrivals if a.input == name], p.highest.get(name)
            seen = p.disorder.get(name, Disorder())
            moved = 0 if before is None else highest[name] - before
            found, behind = disorder(own, before), furthest - highest[name]
            p.disorder[name] = seen.after(found, moved, behind, sources[name])

    def _instants_of(self, released: dict[str, Chunk]) -> Int64s:
        """The instants with input; an earlier stage sends those of its input as elements of sign 0."""
        exchanged = {name for name, i in self._inputs.items() if i.kind == "exchange"}
        found = [c.ts[c.sign == 0] if name in exchanged else c.ts for name, c in released.items()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _note(self, arrival: Arrival) -> None:
        p = self.progress
        for ts in (arrival.min_ts, arrival.max_ts):
            if ts is not None and abs(ts) > MOST_TICKS:
                where = f"timestamp {ts} of {arrival.input}"
                raise DataError(f"{where} is out of range; it must be below 2^61 ticks")
        if arrival.min_ts is not None:
            first = max(arrival.min_ts, p.now)  # what is older is late
            p.first = first if p.first is None else min(p.first, first)
        if arrival.max_ts is not None:
            p.highest[arrival.input] = max(p.highest.get(arrival.input, arrival.max_ts), arrival.max_ts)
        if arrival.progress is not None:
            p.upstream.setdefault(arrival.input, {})[arrival.producer] = arrival.progress

    def _in_time(self, arrival: Arrival, batch: pa.RecordBatch) -> Chunk:
        """The rows that are not late. Each late row is counted by one engine."""
        name = arrival.input
        chunk = _chunk(batch, self._inputs[name].schema, self._held[name])
        late = chunk.ts < self.progress.now
        if late.any():
            mark = own_column(name)
            own = np.asarray(batch.column(mark)) if mark in batch.schema.names else True
            counted = np.zeros_like(late) if arrival.copy else late & own
            self.progress.late[name] = self.progress.late.get(name, 0) + int(counted.sum())
            self.late.setdefault(name, []).append(self._in_schema(chunk.where(counted), name))
            chunk = chunk.where(~late)
        return chunk

    def _now(self, ended: int | None) -> int:
        progress = {name: self._progress_of(i) for name, i in self._inputs.items()}
        last = max(self.progress.highest.values(), default=None)
        if ended is not None and last is not None:
            progress |= {name: last + 1 + ended for name, i in self._inputs.items() if i.kind == "source"}
        furthest = max(progress.values(), default=int(FOREVER))
        for name, i in self._inputs.items():
            if i.idle_after is not None and furthest > BEFORE_TIME:
                progress[name] = max(progress[name], furthest - i.idle_after)
        return min(progress.values(), default=int(FOREVER))

    def _progress_of(self, i: StageInput) -> int:
        reporting = i.upstream if i.kind == "exchange" else i.producers
        if reporting:
            reports = self.progress.upstream.get(i.name, {})
            return min(reports.values()) if len(reports) == reporting else int(BEFORE_TIME)
        highest = self.progress.highest.get(i.name)
        return int(BEFORE_TIME) if highest is None else highest - self._bound(i)

    def _bound(self, i: StageInput) -> int:
        """The disorder that later rows may have."""
        return ceil(self.progress.disorder.get(i.name, Disorder()).bound) if i.adaptive else i.skew

    def _release(self, name: str, now: int) -> Chunk:
        chunk = Chunk.concat(self._waiting[name], self._held[name])
        if not self._waits:
            self._waiting[name] = []
            return self._in_schema(chunk, name)
        chunk = chunk.in_order()
        safe = int(np.searchsorted(chunk.ts, now))
        # Rows that wait are few, and what they are cut from is not to stay with them.
        self._waiting[name] = [chunk.take(np.arange(safe, len(chunk)))] if safe < len(chunk) else []
        return self._in_schema(self._in_tie_order(chunk.slice(0, safe), name), name)

    def _in_tie_order(self, chunk: Chunk, name: str) -> Chunk:
        """Rows of complete instants, in the order that their source gives those of equal timestamps."""
        ties = self._inputs[name].ties if name in self._inputs else None
        return chunk if ties is None else in_tie_order(chunk, ties.names)

    def _in_schema(self, chunk: Chunk, name: str) -> Chunk:
        """Rows without the columns that only order them."""
        schema = self._schemas[name]
        if len(schema) == chunk.columns.num_columns:
            return chunk
        return chunk.with_columns(batch_of(chunk.columns.columns[: len(schema)], schema, len(chunk)))

    def state(self) -> dict[str, State]:
        return {"progress": self.progress.state(), "waiting": self._waiting}

    def _load(self, state: dict[str, State]) -> None:
        self.progress = Progress.of(state["progress"])
        self._waiting = {
            name: [_held(chunk, self._held[name]) for chunk in state["waiting"][name]]
            for name in self._waiting
        }

    def late_rows(self) -> dict[str, Chunk]:
        return {name: Chunk.concat(found, self._inputs[name].schema) for name, found in self.late.items()}

    def pending(self) -> list[Int64s]:
        """The instants of the rows that wait."""
        return [c.ts for chunks in self._waiting.values() for c in chunks]

    def horizon(self) -> int:
        """The smallest timestamp in the buffer; that of a table's change while rows before it may come."""
        waiting = [int(c.ts.min()) for chunks in self._waiting.values() for c in chunks if len(c)]
        if self.progress.changed >= self.progress.now > BEFORE_TIME:
            waiting.append(self.progress.changed)
        return min(waiting, default=int(FOREVER))

    def rows(self) -> int:
        return sum(len(c) for chunks in self._waiting.values() for c in chunks)

    def nbytes(self) -> int:
        return sum(c.columns.nbytes + 9 * len(c) for chunks in self._waiting.values() for c in chunks)

    def measure(self, name: str) -> Iterator[Reading]:
        """The late rows of an input, and its disorder beside the bound of it."""
        i, p = self._inputs[name], self.progress
        readings = [Reading(Property.LATE, p.late[name])] if name in p.late else []
        if name in p.disorder:
            how = "arrival" if i.stamped else "auto" if i.adaptive else "declared"
            bound = Reading(Property.DISORDER_BOUND, max(self._bound(i), 0), how)
            readings += [bound, *p.disorder[name].measure(len(self._inputs) > 1)]
        return under(f"input/{name}", Kind.INPUT, readings)

    def held_back_by(self) -> str | None:
        """The input with the least progress, if there are several."""
        progress = {name: self._progress_of(i) for name, i in self._inputs.items()}
        return min(progress, key=progress.__getitem__) if len(progress) > 1 else None


def _with_ties(i: StageInput) -> pa.Schema:
    """The schema of an input, then the columns beside it that order ties."""
    more = [f for f in i.ties or () if f.name not in i.schema.names]
    return pa.schema([*i.schema, *more]) if more else i.schema


def _held(chunk: Chunk, schema: pa.Schema) -> Chunk:
    """Waiting rows of a snapshot; those from before ties had an order are in that of their arrival."""
    columns = chunk.columns.columns
    new = [pa.nulls(len(chunk), f.type) for f in list(schema)[len(columns) :]]
    return chunk.with_columns(batch_of([*columns, *new], schema, len(chunk))) if new else chunk


def _chunk(batch: pa.RecordBatch, schema: pa.Schema, held: pa.Schema) -> Chunk:
    ts: Int64s = batch.column(TS).to_numpy(zero_copy_only=False)
    # Logs from before ties had an order have no columns for it.
    sent = {*batch.schema.names, *schema.names}
    arrays = [batch.column(f.name) if f.name in sent else pa.nulls(batch.num_rows, f.type) for f in held]
    columns = batch_of(arrays, held, batch.num_rows)
    if SIGN not in batch.schema.names:
        return Chunk.of(ts, columns)
    end = batch.column(END).to_numpy(zero_copy_only=False) if END in batch.schema.names else None
    return Chunk(ts, batch.column(SIGN).to_numpy(zero_copy_only=False), columns, end)
