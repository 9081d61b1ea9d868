"""A physical plan, or a pipeline, run in this process: the host of ``evaluate`` unless Spark is requested.

It does the same as the Spark side: filters and columns before the first stage, rows to partitions by the
hash of their keys, one engine per partition, elements and progress from stage to stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import routing
from penstock.engine.command import END, REGISTER, Command
from penstock.engine.element import batch_of
from penstock.engine.engine import Engine
from penstock.engine.evaluate import evaluate, true_mask
from penstock.engine.registry import QueryPlan, exchange_of
from penstock.engine.stage import SIGN, TS, Arrival, Stage, StepOutput
from penstock.errors import EngineError
from penstock.plan.admission import Admitted
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage, SourceInput, TableInput
from penstock.plan.pipeline import PipelinePlan
from penstock.routing import deliver, disorder_of, partition_numbers, total_rows, totals_by_epoch


class InProcessRun:
    """The engines of a plan. ``tables`` are the static tables by name."""

    def __init__(self, plan: PhysicalPlan, tables: Mapping[str, pa.Table]) -> None:
        self._plan = plan
        self.engines = [
            [Engine(_with_tables(planned, tables)) for _ in range(planned.partitions)]
            for planned in plan.stages
        ]

    def step(
        self, streams: Mapping[str, pa.RecordBatch], commands: Sequence[Command] = ()
    ) -> list[pa.RecordBatch]:
        """Feed rows by their stream's name (``TS``, a relation's ``SIGN``, its columns); the new elements."""
        return self._run(_by_partition(self._plan.stages[0], streams), commands)

    def end(self, instant: int) -> list[pa.RecordBatch]:
        """Advance time until this instant is complete."""
        first = self._plan.stages[0]
        beats = [Arrival(s.name, 0, None, None, instant + 1 + s.stream.options.skew) for s in _sources(first)]
        return self._run([beats] * first.partitions)

    def _run(
        self, arrivals: Sequence[list[Arrival]], commands: Sequence[Command] = ()
    ) -> list[pa.RecordBatch]:
        outputs = [e.step(a, commands) for e, a in zip(self.engines[0], arrivals, strict=True)]
        for planned, engines in zip(self._plan.stages[1:], self.engines[1:], strict=True):
            outputs = [
                e.step(_exchanged(planned, outputs, number), commands) for number, e in enumerate(engines)
            ]
        return [output.only.batch for output in outputs]


class InProcessPipeline:
    """The engines of a pipeline with these queries. ``tables`` are the static tables by name."""

    def __init__(
        self, plan: PipelinePlan, queries: Mapping[str, Admitted], tables: Mapping[str, pa.Table]
    ) -> None:
        self._plan = plan
        partitions = range(plan.partitions)
        stages = [[Engine(replace(s.stage, partition=n)) for n in partitions] for s in plan.stages]
        self.engines, self._second = stages[0], stages[1] if len(stages) > 1 else []
        self._commands = [
            Command(number, REGISTER, {"query": name, "plan": _ready(query, tables).encoded()})
            for number, (name, query) in enumerate(queries.items(), 1)
        ]
        self._sequence = len(queries)

    def step(self, streams: Mapping[str, pa.RecordBatch]) -> dict[str, list[pa.RecordBatch]]:
        """Feed rows by their stream's name (``TS``, a relation's ``SIGN``, its columns); results by query."""
        return self._run(_by_partition(self._plan.stage, streams))

    def end(self) -> dict[str, list[pa.RecordBatch]]:
        """Complete the last instant: no more rows come."""
        self._sequence += 1
        self._commands.append(Command(self._sequence, END, {"ticks": 0}))
        return self._run([[] for _ in self.engines])

    def _run(self, arrivals: Sequence[list[Arrival]]) -> dict[str, list[pa.RecordBatch]]:
        commands, self._commands = self._commands, []
        outputs = [e.step(its, commands) for e, its in zip(self.engines, arrivals, strict=True)]
        for number, engine in enumerate(self._second):
            outputs.append(engine.step(onward(outputs[: len(self.engines)], number), commands))
        found: dict[str, list[pa.RecordBatch]] = {}
        for output in outputs:
            if output.failed:
                name, reason = next(iter(output.failed.items()))
                raise EngineError(f"the query {name} failed: {reason}")
            for name, root in output.roots.items():
                if root.by is None:
                    found.setdefault(name, []).append(root.batch)
        return found


def onward(outputs: Sequence[StepOutput], number: int) -> list[Arrival]:
    """The arrivals of a partition of a pipeline's second stage from all partitions of the first."""
    arrivals = []
    for producer, output in enumerate(outputs):
        for name, root in output.roots.items():
            if root.by is None or (number and not root.by):
                continue
            keys = [root.batch.column(column) for column in root.by]
            where = partition_numbers(keys, len(outputs) if root.by else 1, root.batch.num_rows)
            mine, total = root.batch.filter(pa.array(where == number)), root.batch.num_rows
            own = (exchange_of(name), producer, mine, root.first)
            arrivals.append(Arrival(*own, progress=root.progress, total=total))
    return arrivals


def _ready(query: Admitted, tables: Mapping[str, pa.Table]) -> QueryPlan:
    rows = {t.name: _table(t, tables[t.table.name]) for t in query.tables}
    return replace(query.plan, tables={**query.plan.tables, **rows})


def _by_partition(planned: PlannedStage, streams: Mapping[str, pa.RecordBatch]) -> list[list[Arrival]]:
    """The arrivals of each partition."""
    arrivals: list[list[Arrival]] = [[] for _ in range(planned.partitions)]
    for source in _sources(planned):
        batch = streams.get(source.stream.name)
        if batch is not None:
            for number, arrival in enumerate(_arrivals(source, batch, planned.partitions)):
                arrivals[number].append(arrival)
    return arrivals


def _sources(planned: PlannedStage) -> list[SourceInput]:
    return [i for i in planned.inputs if isinstance(i, SourceInput)]


def _with_tables(planned: PlannedStage, tables: Mapping[str, pa.Table]) -> Stage:
    mine = {i.name: _table(i, tables[i.table.name]) for i in planned.inputs if isinstance(i, TableInput)}
    return replace(planned.stage, tables={**planned.stage.tables, **mine})


def _table(source: TableInput, rows: pa.Table) -> pa.Table:
    named = _named(source.alias, rows.combine_chunks().to_batches() or [_empty(rows.schema)])
    shown, kept = _prepare(source, named, rows.num_rows)
    # A temporary column keeps the number of rows if no other column is needed.
    columns = dict(zip(shown.schema.names, shown.columns, strict=True))
    return pa.table({"": pa.array(kept), **columns}).filter(pa.array(kept)).drop_columns([""])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _named(alias: str, batches: list[pa.RecordBatch]) -> dict[str, pa.Array]:
    (batch,) = batches
    return {f"{alias}.{n}": c for n, c in zip(batch.schema.names, batch.columns, strict=True)}


def _prepare(
    source: SourceInput | TableInput, columns: Mapping[str, Any], rows: int
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The pushed columns, and which rows pass the pushed filter."""
    kept = np.ones(rows, np.bool_) if source.filter is None else true_mask(source.filter, columns, rows)
    schema = pa.schema([(name, e.type) for name, e in source.columns])
    return batch_of([evaluate(e, columns, rows) for _, e in source.columns], schema, rows), kept


def _arrivals(source: SourceInput, batch: pa.RecordBatch, partitions: int) -> list[Arrival]:
    rows = batch.num_rows
    columns = _named(source.alias, [batch])
    ts = np.asarray(columns.pop(f"{source.alias}.{TS}"))
    sign = columns.pop(f"{source.alias}.{SIGN}", None)
    shown, kept = _prepare(source, columns, rows)
    beside = {TS: pa.array(ts), **({} if sign is None else {SIGN: sign})}
    schema = pa.schema([*((name, column.type) for name, column in beside.items()), *shown.schema])
    whole = pa.RecordBatch.from_arrays([*beside.values(), *shown.columns], schema=schema)
    first, last = (int(ts.min()), int(ts.max())) if rows else (None, None)
    where = [w[kept] for w in coordinates(source, columns, ts, rows)]
    disorder = disorder_of(ts)
    found = [Arrival(source.name, 0, None, first, last, disorder=disorder)] * partitions
    parts = list(deliver(source.route, source.name, whole.filter(pa.array(kept)), where, (TS, SIGN)))
    counted = Arrival(
        source.name, 0, None, first, last, total=total_rows(source.name, parts), disorder=disorder,
        epochs=by_epoch(source, parts),
    )  # fmt: skip
    for targets, part in parts:
        for number in targets:
            found[number] = replace(counted, batch=part, copy=number != targets[0])
    return found


def by_epoch(
    source: SourceInput, parts: Sequence[tuple[tuple[int, ...], pa.RecordBatch]]
) -> tuple[tuple[int, int], ...] | None:
    """The rows that all partitions get by epoch, if they are counted so."""
    if source.epochs is None:
        return None
    return tuple((n, rows) for n, rows in totals_by_epoch(source.name, parts, source.epochs, TS))


def coordinates(source: SourceInput, columns: Mapping[str, Any], ts: Any, rows: int) -> list[np.ndarray]:
    """Each row's coordinates in the dimensions that split its stream."""
    # A relation's row must leave where it entered, so its time is not part of its identity.
    stamp = [] if source.stream.is_relation else [pa.array(ts)]
    row = [*stamp, *(columns[name] for name, _ in source.columns)]
    found = []
    for axis in source.route.own:
        if axis.by_source:
            found.append(np.zeros(rows, np.int64))  # one source, of one partition
        else:
            keys = [evaluate(e, columns, rows) for e in axis.keys]
            found.append(routing.coordinates(axis, keys, row, rows))
    return found


def _exchanged(planned: PlannedStage, outputs: Sequence[StepOutput], number: int) -> list[Arrival]:
    """The arrivals of one partition from the stage before."""
    (exchange,) = (i for i in planned.inputs if isinstance(i, ExchangeInput))
    arrivals = []
    for producer, output in enumerate(o.only for o in outputs):
        batch = output.batch
        keys = [batch.column(name) for name in exchange.partition_by]
        where = partition_numbers(keys, planned.partitions, batch.num_rows)
        mine = batch.filter(pa.array(where == number))
        time, total = output.progress, batch.num_rows
        arrivals.append(Arrival(exchange.name, producer, mine, output.first, progress=time, total=total))
    return arrivals
