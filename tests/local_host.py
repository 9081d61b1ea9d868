"""A host in one process: runs a physical plan as Spark would, with every freedom Spark takes.

Rows come in any number of micro-batches, cut anywhere, also within an instant; a stream may be out of order
within its skew; a stage has any number of partitions; between two steps an engine may be rebuilt from its
log or from a snapshot. None of it may change the result.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from own_aggregates import own_definitions
from strategies import Case
from strategies.all_that_enter import STAMP
from strategies.data import LAST_INSTANT

from penstock.catalog import Input, InputOptions, TableDef
from penstock.cql.inputs import constraints_of
from penstock.cql.query import bind, define_view
from penstock.cql.statements import CreateView, parse
from penstock.engine.command import Command
from penstock.engine.engine import Engine
from penstock.engine.evaluate import evaluate, true_mask
from penstock.engine.operator import Node
from penstock.engine.stage import SIGN, TS, Arrival, Snapshot, Stage, StepOutput
from penstock.engine.tables import as_batch, difference, payload
from penstock.in_process import by_epoch, coordinates
from penstock.plan.compile import compile
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage, SourceInput, TableInput
from penstock.routing import deliver, partition_numbers, total_rows
from penstock.schema import TIMESTAMP_TIME, TimeDomain
from penstock.settings import Settings

TYPES = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
TIES = {
    "rows": pa.schema([("#row", pa.int64())]),
    "parts": pa.schema([("#time", pa.int64()), ("#file", pa.dictionary(pa.int32(), pa.string()))]),
}
"""Columns beside the rows of a stream that order those of one instant, as sources have them."""
Change = tuple[int, str, dict[str, Any]]


@dataclass(frozen=True)
class Manner:
    """How to run: ``cuts`` are where micro-batches end, in parts of a stream's length from 0 to 1.

    ``before`` says for each step what to do before it: ``"snapshot"``,
    ``"whole snapshot"``, ``"rebuild"``, several of them or ``""``.
    ``heavy``: the streams by name that declare the usual values of all their columns as heavy.
    ``scheduler`` and ``slice_rows``: how engines process a step; ``access_method``: how they probe windows;
    ``invalidation``: when they free rows that have expired.
    """

    partitions: int = 1
    cuts: tuple[float, ...] = ()
    before: tuple[str, ...] = ()
    skew: int = 0
    heavy: tuple[str, ...] = ()
    scheduler: str = "fifo"
    slice_rows: int | None = None
    access_method: str = "adaptive"
    invalidation: str = "adaptive"
    versions: tuple[tuple[int, tuple[dict[str, Any], ...]], ...] = ()
    """By step, the rows that the table D has from then on."""
    adaptive: bool = False
    """``skew`` is the most that the bound of disorder may be."""
    times: tuple[int, ...] = ()
    """Rows are stamped on arrival, and these are the times of the batches; a case has what comes of them."""
    batch_span: float | None = None
    """What the planner is told of the time that a batch spans, in seconds."""
    memory_limit: int | None = None
    """Bytes of state that stay in memory."""
    settings: tuple[tuple[int, str, Any], ...] = ()
    """By step, a setting that is changed before it (``engine.knobs``)."""
    constraints: str = "declared"
    """How joins exploit constraints."""

    ties: str = ""
    """Rows of one instant come in any order and any batch, and columns order them: those of ``TIES``, or the
    rows' own (``"values"``). The rows of a part of a file come in their order.
    """

    aligned: bool = False
    """Batches of all streams end at the same instants, ``cuts`` in parts of the time."""

    def edges(self, stamps: Sequence[int]) -> list[int]:
        """Where batches of a stream with these timestamps begin and end."""
        cuts = sorted(self.cuts)
        if self.aligned:
            inner = [sum(ts < cut * LAST_INSTANT for ts in stamps) for cut in cuts]
        else:
            inner = [round(cut * len(stamps)) for cut in cuts]
        return [0, *inner, len(stamps)]

    def batches(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """The rows of each batch."""
        edges = self.edges([element[0] for element in rows])
        return [rows[low:high] for low, high in zip(edges, edges[1:], strict=False)]


@dataclass
class Partition:
    """One partition's engine, with the log that it can be rebuilt from."""

    stage: Stage
    number: int = 0
    engine: Engine = field(init=False)
    log: list[tuple[list[Arrival], list[Command]]] = field(default_factory=list)
    header: bytes | None = None
    tables: bytes = b""
    tables_version: int | None = None
    needs_from: int = 0
    base: Snapshot | None = None

    def __post_init__(self) -> None:
        self.engine = self._new()

    def _new(self) -> Engine:
        return Engine(dataclasses.replace(self.stage, partition=self.number))

    def step(self, arrivals: list[Arrival], commands: Sequence[Command] = ()) -> StepOutput:
        self.log.append((arrivals, list(commands)))
        out = self.engine.step(arrivals, commands)
        self.needs_from, self.header = out.needs_from, self.engine.header()
        if self.engine.tables_version() != self.tables_version:
            self.tables_version, self.tables = self.engine.tables_version(), self.engine.tables()
        return out

    def snapshot(self, whole: bool) -> None:
        self.base = self.engine.snapshot(whole)
        self.needs_from = self.base.start

    def rebuild(self) -> None:
        """Start from the snapshot if it is still needed, else from the header, and replay."""
        if self.base is not None and self.needs_from <= self.base.version:
            start, self.engine = self.base.start, self._new()
            self.engine.restore(self.base.data)
        else:
            start, self.engine = self.needs_from, self._new()
            if self.header is not None:
                self.engine.restore_header(self.header, self.tables)
        for arrivals, commands in self.log[start:]:
            self.engine.step(arrivals, commands)


def plan_of(case: Case, manner: Manner) -> PhysicalPlan:
    """The plan of a case's query."""
    catalog: dict[str, Any] = {n: definition(n, s, case, manner) for n, s in case.schemas.items()}
    catalog |= own_definitions()
    *views, query = parse(case.cql)
    for view in views:
        assert isinstance(view, CreateView)
        catalog[view.name] = define_view(view, catalog)
    return compile(bind(query, catalog), manner.partitions, settings_of(manner))


def settings_of(manner: Manner) -> Settings:
    """The settings of a manner."""
    names = (
        "scheduler",
        "slice_rows",
        "access_method",
        "invalidation",
        "memory_limit",
        "batch_span",
        "constraints",
    )
    files = {"overflow_directory": "/dev/shm"} if os.path.isdir("/dev/shm") else {}  # faster than a disk
    return Settings(**{name: getattr(manner, name) for name in names}, **files)


def run(case: Case, manner: Manner = Manner()) -> list[Change]:  # noqa: B008
    """All changes of a case's query, in timestamp order."""
    return run_versions(case, manner)[0]


def run_versions(case: Case, manner: Manner) -> tuple[list[Change], list[int]]:
    """All changes, and the instants at which the table D gets the rows of ``manner.versions``."""
    plan = plan_of(case, manner)
    stages = [
        [Partition(_with_tables(planned, case)) for _ in range(planned.partitions)] for planned in plan.stages
    ]
    changes: list[Change] = []
    versions, held, instants = dict(manner.versions), case.inputs.get("D", []), []
    steps, sequence = steps_of(plan.stages[0], case, manner), 0
    for number, step in enumerate(steps):
        how = manner.before[number] if number < len(manner.before) else ""
        for partition in (p for stage in stages for p in stage):
            if "snapshot" in how:
                partition.snapshot("whole" in how)
            if "rebuild" in how:
                partition.rebuild()
        commands, changed = [], number in versions
        if changed:
            commands.append(_refresh(plan.stages[0], sequence + 1, held, versions[number]))
            held = versions[number]
        for name, value in ((n, v) for at, n, v in manner.settings if at == number):
            commands.append(Command(sequence + len(commands) + 1, "setting", {"name": name, "value": value}))
        if number + 1 == len(steps):
            commands.append(_end(plan.stages[0], case, sequence + len(commands) + 1))
        sequence += len(commands)
        outputs = [p.step(arrivals, commands) for p, arrivals in zip(stages[0], step, strict=True)]
        if changed:
            (instant,) = {next(iter(p.engine.groups.values())).inputs.progress.changed for p in stages[0]}
            instants.append(instant)
        for planned, partitions in zip(plan.stages[1:], stages[1:], strict=True):
            outputs = [p.step(_exchanged(planned, outputs, k), commands) for k, p in enumerate(partitions)]
        changes += [c for out in outputs for c in changes_of_batch(out.only.batch, plan.schema.names)]
    if manner.times:  # time may have run on, by batches without rows
        end = _last_instant(plan.stages[0], case)
        changes = [c for c in changes if end is not None and c[0] <= end]
    return sorted(changes, key=lambda c: c[0]), instants


def _refresh(planned: PlannedStage, sequence: int, old: Sequence[Any], new: Sequence[Any]) -> Command:
    """The command that changes the table from one version to the next."""
    changes = {}
    for source in (i for i in planned.inputs if isinstance(i, TableInput)):
        schema = next(i.schema for i in planned.stage.inputs if i.name == source.name)
        batches = [as_batch(table_rows(source, rows), schema) for rows in (old, new)]
        changes[source.name] = difference(*batches)
    return Command(sequence, "tables", payload(changes))


def _end(planned: PlannedStage, case: Case, sequence: int) -> Command:
    """The command that ends the input: time runs on to the case's last instant."""
    sources = [s for s in planned.inputs if isinstance(s, SourceInput)]
    last = max((element[0] for s in sources for element in case.inputs[s.stream.name]), default=0)
    return Command(sequence, "end", {"ticks": max((case.until or 0) - last, 0)})


def nodes(plan: PhysicalPlan) -> Iterator[Node]:
    """The operators of a plan."""
    waiting = [planned.stage.root for planned in plan.stages]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        yield node


HEAVY = {"INT": (0, 1, 3), "BIGINT": (0, 1, 3), "DOUBLE": (0.0, 1.0), "STRING": ("a", ""), "BOOLEAN": (True,)}


def definition(name: str, schema: str, case: Case, manner: Manner) -> Input | TableDef:
    rows = case.inputs[name]
    fields = pa.schema([(c.split()[0], TYPES[c.split()[1]]) for c in schema.split(", ")])
    if rows and isinstance(rows[0], dict):
        return TableDef(name, fields)
    kind = "relation" if rows and len(rows[0]) == 3 else "stream"
    columns = [c.split() for c in schema.split(", ")] if name in manner.heavy else []
    heavy = [(c, HEAVY[kind]) for c, kind in columns if kind in HEAVY]
    time = TIMESTAMP_TIME if case.unit == "timestamps" else TimeDomain("integer", case.unit)
    stamp = STAMP if STAMP in fields.names and not manner.times else None
    order = {"skew": manner.skew, "adaptive": manner.adaptive, "arrival": bool(manner.times)}
    obeyed = constraints_of(case.constraints.get(name, ""), name, fields, time, kind)
    options = InputOptions(time, stamp, heavy=tuple(heavy), constraints=obeyed, **order)
    ties = fields if manner.ties == "values" else TIES.get(manner.ties)
    return Input(name, fields, options, kind, ties=ties if kind == "stream" else None)


def came(rows: Sequence[Any], ties: str) -> list[tuple[Any, int]]:
    """The elements of a stream in the order in which they come, with their numbers in the stream."""
    instants: dict[int, list[int]] = {}
    for number, element in enumerate(rows):
        instants.setdefault(element[0], []).append(number)
    order = list(range(len(rows)))
    for ts, tied in instants.items() if ties and rows and len(rows[0]) == 2 else ():
        labels = [_part(number) if ties == "parts" else number for number in tied]
        rest = {
            label: iter([n for n, of in zip(tied, labels, strict=True) if of == label]) for label in labels
        }
        mixed = Random(ts + len(rows)).sample(labels, len(labels))
        for place, label in zip(tied, mixed, strict=True):
            order[place] = next(rest[label])
    return [(rows[number], number) for number in order]


def _part(number: int) -> int:
    """The part of a file that a row of a stream is in."""
    return number // 3


def _tie_columns(
    source: SourceInput, numbers: Sequence[int], columns: dict[str, pa.Array]
) -> dict[str, pa.Array]:
    """The columns that order ties, of rows with these numbers in their stream."""
    parts = [_part(n) for n in numbers]
    made = {
        "#row": numbers,
        "#time": [p // 2 for p in parts],
        "#file": [f"{p:09}" for p in parts],
    }
    fields = source.ties or ()
    return {f.name: pa.array(made[f.name], f.type) if f.name in made else columns[f.name] for f in fields}


def _prepared(source: SourceInput | TableInput, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Any:
    """What the host's side of an input does to rows: the filter's mask, and the columns."""
    columns = {f"{source.alias}.{f.name}": pa.array([r[f.name] for r in rows], f.type) for f in schema}
    kept = np.ones(len(rows), np.bool_)
    if source.filter is not None:
        kept = true_mask(source.filter, columns, len(rows))
    shown = {name: evaluate(e, columns, len(rows)) for name, e in source.columns}
    return kept, shown, columns


def _with_tables(planned: PlannedStage, case: Case) -> Stage:
    tables = dict(planned.stage.tables)
    for source in planned.inputs:
        if isinstance(source, TableInput):
            tables[source.name] = table_rows(source, case.inputs[source.table.name])
    return dataclasses.replace(planned.stage, tables=tables)


def table_rows(source: TableInput, rows: Sequence[Any]) -> pa.Table:
    kept, shown, _ = _prepared(source, rows, source.table.schema)
    # A column that is dropped again keeps the number of rows where no other is needed.
    table = pa.table({"": pa.array(range(len(rows)), pa.int64()), **shown}).filter(pa.array(kept))
    return table.drop_columns([""])


def steps_of(planned: PlannedStage, case: Case, manner: Manner) -> list[list[list[Arrival]]]:
    """For each step, for each partition, its arrivals; the last step has none."""
    sources = [s for s in planned.inputs if isinstance(s, SourceInput)]
    bounds = [0.0, *sorted(manner.cuts), 1.0]
    steps: list[list[list[Arrival]]] = [[[] for _ in range(planned.partitions)] for _ in bounds]
    for source in sources:
        elements = came(case.inputs[source.stream.name], manner.ties)
        for number, some in enumerate(_numbered_batches(elements, manner)):
            rows, numbers = [e for e, _ in some], [n for _, n in some]
            if manner.times:
                rows = [(manner.times[number], *element[1:]) for element in rows]
            for k, arrival in enumerate(_arrivals(source, rows, numbers, planned.partitions)):
                steps[number][k].append(arrival)
        for number, time in enumerate(manner.times if source is sources[0] else ()):
            for arrivals in steps[number]:
                arrivals.append(Arrival(source.name, 1, None, None, time))
    return steps


def _numbered_batches(elements: Sequence[tuple[Any, int]], manner: Manner) -> Iterator[Sequence[Any]]:
    edges = manner.edges([element[0] for element, _ in elements])
    return (elements[low:high] for low, high in pairwise(edges))


def _last_instant(planned: PlannedStage, case: Case) -> int | None:
    """The last instant: ``until``, or that of the last row of the streams that are read."""
    sources = [s for s in planned.inputs if isinstance(s, SourceInput)]
    stamps = [element[0] for s in sources for element in case.inputs[s.stream.name]]
    return max([*stamps, case.until if case.until is not None else 0]) if stamps else None


def _arrivals(
    source: SourceInput, rows: Sequence[Any], numbers: Sequence[int], partitions: int
) -> list[Arrival]:
    kept, shown, columns = _prepared(source, [element[-1] for element in rows], source.stream.schema)
    ts = np.array([element[0] for element in rows], np.int64)
    if source.stream.is_relation:
        shown = {SIGN: pa.array([1 if e[1] == "+" else -1 for e in rows], pa.int8()), **shown}
    first, last = (int(ts.min()), int(ts.max())) if len(ts) else (None, None)
    ties = _tie_columns(source, numbers, columns)
    whole = pa.RecordBatch.from_pydict({TS: pa.array(ts), **ties, **shown})
    where = [w[kept] for w in coordinates(source, columns, ts, len(rows))]
    disorder = int(max((max(ts[: n + 1]) - t for n, t in enumerate(ts)), default=0))
    arrivals: list[Arrival] = [Arrival(source.name, 0, None, first, last, disorder=disorder)] * partitions
    parts = list(deliver(source.route, source.name, whole.filter(pa.array(kept)), where, (TS, SIGN, *ties)))
    total = total_rows(source.name, parts)
    for targets, part in parts:
        for k in targets:
            arrivals[k] = Arrival(
                source.name,
                0,
                part,
                first,
                last,
                total=total,
                disorder=disorder,
                epochs=by_epoch(source, parts),
            )
    return arrivals


def _exchanged(planned: PlannedStage, outputs: list[StepOutput], number: int) -> list[Arrival]:
    (exchange,) = planned.inputs
    assert isinstance(exchange, ExchangeInput)
    arrivals = []
    for producer, out in enumerate(o.only for o in outputs):
        keys = [out.batch.column(name) for name in exchange.partition_by]
        goes_to = partition_numbers(keys, planned.partitions, out.batch.num_rows)
        batch = out.batch.filter(pa.array(goes_to == number))
        arrivals.append(Arrival(exchange.name, producer, batch, out.first, progress=out.progress))
    return arrivals


def changes_of_batch(batch: pa.RecordBatch, names: list[str]) -> list[Change]:
    stamps, signs = batch.column(TS).to_pylist(), batch.column(SIGN).to_pylist()
    order = list(zip(stamps, signs, strict=True))
    assert -1 not in signs or order == sorted(order), f"- does not come before + in an instant: {order}"
    rows = batch.select(names).to_pylist() if names else [{}] * batch.num_rows
    return [(ts, "+" if s > 0 else "-", row) for ts, s, row in zip(stamps, signs, rows, strict=True)]
