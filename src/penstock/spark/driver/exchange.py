"""The driver's side of a stage's input: what Catalyst computes, and where each partition's blobs go.

Catalyst computes the timestamp in ticks, the pushed columns, and which rows are kept, all in one select;
Python packs (:mod:`penstock.spark.map_side.packer`). A row that the filter drops still advances time,
so the filter is a column here and not a DataFrame filter. Every column costs a conversion to Arrow for every
row, so nothing is sent twice: a pushed column that is the timestamp is made from it in the engine, and rows
are sent to partitions by the hash of columns that are there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock import expression as ex
from penstock.engine.stage import SIGN, TS
from penstock.plan.physical import SourceInput
from penstock.plan.sharing import renamed
from penstock.routing import Axis
from penstock.spark.map_side import parquet_files
from penstock.spark.map_side.catalyst import quote, to_spark_sql
from penstock.spark.map_side.packer import KEEP, PART, Packer, Packers, Split
from penstock.spark.map_side.parquet_files import ParquetPacker, ParquetPackers
from penstock.spark.settings import FILE_TASKS_PER_CORE
from penstock.spark.wire.record import PRODUCER, PROGRESS

if TYPE_CHECKING:
    from penstock.spark.driver.sources import InputFrame

BLOBS = "partition INT, envelope STRING, blob BINARY"
"""The rows that move between map side and stages."""


def _own_rows(source: InputFrame) -> DataFrame:
    return source.df


def pack(
    sources: Sequence[SourceInput],
    keys: Sequence[int],
    read: Callable[[InputFrame], DataFrame] = _own_rows,
) -> DataFrame:
    """The rows of streams and relations as blobs for the partitions that have these keys.

    ``read`` returns the rows of an input that another query returns with that query's progress.
    """
    parts, files, packers = [], list[DataFrame](), list[ParquetPacker]()
    for own in _by_stream(sources):
        for source in own:
            filter = source.filter and renamed(source.filter, partial(_own_name, source.alias))
            source.stream.source.read_by(filter)
        scan, df = Scan.of(own, keys), read(own[0].stream.source)
        paths = parquet_files.paths(df) if scan.plain else None
        if paths is None:
            parts.append(df.select(*scan.columns).mapInArrow(scan.packers.run, BLOBS))
        else:
            files.append(paths.select(F.lit(len(files)), "*"))
            packers.append(ParquetPacker(scan.packers, scan.plain))
    if files:
        parts.append(_together(files).mapInArrow(ParquetPackers(tuple(packers)).run, BLOBS))
    return reduce(DataFrame.unionAll, parts)


def _own_name(alias: str, column: str) -> str:
    return column.removeprefix(f"{alias}.")


def _by_stream(sources: Sequence[SourceInput]) -> list[list[SourceInput]]:
    """The inputs that read the same DataFrame, so that it is scanned once."""
    found: dict[tuple[int, int], list[SourceInput]] = {}
    for source in sources:
        found.setdefault((id(source.stream.source.df), source.stream.producers), []).append(source)
    return list(found.values())


def _together(files: Sequence[DataFrame]) -> DataFrame:
    """The files of all streams in few tasks: a task costs some tens of milliseconds whatever it does."""
    cores = files[0].sparkSession.sparkContext.defaultParallelism
    return reduce(DataFrame.unionAll, files).coalesce(FILE_TASKS_PER_CORE * cores)


@dataclass(frozen=True)
class Scan:
    """One scan of a DataFrame for all inputs over it: the columns that Catalyst computes of every row, the
    packers with the columns of each, and, if the columns are the stream's own, their fields.
    """

    columns: list[Column]
    packers: Packers
    plain: tuple[pa.Field, ...]

    @staticmethod
    def of(sources: Sequence[SourceInput], keys: Sequence[int]) -> Scan:
        places: dict[Any, int] = {}
        columns: list[Column] = []
        fields: list[pa.Field] = []
        packers = []
        for source in sources:
            sent = Sent.of(source)
            same = [_same(source, name) for name in sent.columns]
            plain = sent.plain(source)
            for number, key in enumerate(same):
                if key not in places:
                    places[key] = len(columns)
                    columns.append(sent.columns[key[0]].alias(f"c{len(columns)}"))
                    fields += plain[number : number + 1]
            packers.append((sent.packer(source, keys), tuple(places[key] for key in same)))
        all_plain, reports = len(fields) == len(columns), None
        if sources[0].stream.producers:
            report, reports, all_plain = F.col(PROGRESS), len(columns), False
            columns = [F.when(report.isNull(), c).alias(f"c{n}") for n, c in enumerate(columns)]
            columns += [F.col(PRODUCER), report]
        return Scan(columns, Packers(tuple(packers), reports=reports), tuple(fields) if all_plain else ())


def _same(source: SourceInput, name: str) -> tuple[str, Any]:
    """What identifies a column that is sent: one that two inputs have is computed once."""
    return name, (source.alias, dict(source.columns).get(name), source.filter)


@dataclass
class Sent:
    """The columns of a row that are sent to Python, by name, in order; the timestamp is the first.

    ``copies`` are pushed columns that are the timestamp itself. ``split`` names, for each dimension that
    splits the stream, the columns whose hash is the coordinate.
    """

    columns: dict[str, Column]
    copies: pa.Schema
    split: list[Split] = field(default_factory=list)

    @staticmethod
    def of(source: SourceInput) -> Sent:
        origin: InputFrame = source.stream.source
        keep = _keep(source)
        # Copies are made for every row; rows that are only places would get them too.
        stamps = source.columns if source.route.places is None else ()
        copies = [(name, e.type) for name, e in stamps if _is_stamp(source, e)]
        sent = Sent({TS: origin.ticks}, pa.schema(copies))
        if keep is not None:
            sent.columns[KEEP] = keep
        for name, e in source.columns:
            if name not in sent.copies.names:
                sent.columns[name] = _pushed(source, e, keep)
        for tie in _ties(source):
            if tie.name not in sent.columns and tie.name not in sent.copies.names:
                sent.columns[tie.name] = _tie(source, tie, keep)
        for number, axis in enumerate(source.route.own):
            sent._add_keys(source, axis, number)
        if origin.sign is not None:
            sent.columns[SIGN] = origin.sign
        return sent

    def _add_keys(self, source: SourceInput, axis: Axis, number: int) -> None:
        row = _row_key(source) if axis.by_row or axis.spread else ()
        if axis.by_source:
            self.columns[f"{PART}{number}"] = F.spark_partition_id()
            self.split.append(Split(self._named(source, axis.keys)))
        else:
            self.split.append(Split(self._named(source, axis.keys), self._told_apart(source, row)))

    def _named(self, source: SourceInput, keys: Sequence[ex.Expression]) -> tuple[str, ...]:
        """The names under which keys are sent."""
        there = {e: TS if name in self.copies.names else name for name, e in source.columns}
        for e in keys:
            if e not in there:
                self.columns[f"__key {e}"] = F.expr(spark_sql(e, source.alias))
        return tuple(there.get(e, f"__key {e}") for e in keys)

    def _told_apart(self, source: SourceInput, row: Sequence[ex.Expression]) -> tuple[str, ...]:
        # A relation's row must leave where it entered, so its time is not part of its identity.
        return (*([] if source.stream.is_relation else [TS]), *self._named(source, row))

    def packer(self, source: SourceInput, keys: Sequence[int]) -> Packer:
        """The packer of the rows with these columns."""
        schema, split = self.schema(source), tuple(self.split)
        own = (source.name, source.stream.name, schema, self.copies)
        more = tuple(_ties(source).names), source.epochs
        return Packer(*own, split, source.route, tuple(keys), *more)

    def plain(self, source: SourceInput) -> tuple[pa.Field, ...]:
        """The stream's own columns that are sent, or none if Catalyst has something to compute."""
        keys = {f"__key {e}": e for axis in source.route.own for e in axis.keys}
        known, ties = {**dict(source.columns), **keys}, _ties(source)
        stamp = source.stream.options.timestamp
        names = [
            stamp if n == TS else n if n in ties.names else _own(known.get(n), source) for n in self.columns
        ]
        every = pa.schema([*source.stream.schema, *ties])
        if any(name is None or name not in every.names for name in names):
            return ()
        fields = tuple(every.field(name) for name in names)
        return fields if parquet_files.can_read(fields) else ()

    def schema(self, source: SourceInput) -> pa.Schema:
        """Names and types of the columns in Python; the engine gets the source's columns and the sign."""
        own = {TS: pa.int64(), KEEP: pa.bool_(), SIGN: pa.int8()}
        for number, axis in enumerate(source.route.own):
            own |= {f"{PART}{number}": pa.int32(), **{f"__key {e}": e.type for e in axis.keys}}
        types = own | {f.name: f.type for f in _ties(source)} | {name: e.type for name, e in source.columns}
        return pa.schema([(name, types[name]) for name in self.columns])


def project(
    columns: Sequence[tuple[str, ex.Expression]], condition: ex.Expression | None, alias: str, df: DataFrame
) -> DataFrame:
    """A constant, then the expressions over a static table, of the rows for which the condition is true."""
    kept = df if condition is None else df.where(spark_sql(condition, alias))
    shown = (F.expr(spark_sql(e, alias)).alias(f"c{n}") for n, (_, e) in enumerate(columns))
    return kept.select(F.lit(True), *shown)


def spark_sql(expression: ex.Expression, alias: str) -> str:
    """An expression over a stream's or table's own column names."""
    return to_spark_sql(expression, lambda name: name.removeprefix(f"{alias}."))


def _row_key(source: SourceInput) -> tuple[ex.Expression, ...]:
    """The columns that identify a row besides its time: those that hash fast, or all if there are none.

    The values of a row and not its position in a task: a task that is run again may see another order.
    """
    shipped = tuple(e for _, e in source.columns)
    return tuple(e for e in shipped if _hashes_fast(e.type)) or shipped


def _own(e: ex.Expression | None, source: SourceInput) -> str | None:
    """The name of the stream's column, if an expression is just a column."""
    return e.name.removeprefix(f"{source.alias}.") if isinstance(e, ex.Column) else None


def _is_stamp(source: SourceInput, e: ex.Expression) -> bool:
    """Whether a pushed column is the stream's timestamp, so that its ticks suffice."""
    stamp = source.stream.options.timestamp
    exact = pa.types.is_timestamp(e.type) or e.type == pa.int64()
    return exact and isinstance(e, ex.Column) and stamp is not None and e.name == f"{source.alias}.{stamp}"


def _hashes_fast(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)


def _pushed(source: SourceInput, e: ex.Expression, keep: Column | None) -> Column:
    """A pushed column; strings of dropped rows are not sent to Python."""
    column = F.expr(spark_sql(e, source.alias))
    return column if keep is None or pa.types.is_primitive(e.type) else F.when(keep, column)


def _ties(source: SourceInput) -> pa.Schema:
    """The columns that order rows of equal timestamps."""
    return pa.schema([]) if source.ties is None else source.ties


def _tie(source: SourceInput, tie: pa.Field, keep: Column | None) -> Column:
    """A column that orders ties: one beside the stream's, or one of its own."""
    beside = source.stream.source.ties.get(tie.name)
    if beside is None:
        return _pushed(source, ex.Column(tie.name, tie.type), keep)
    return beside if keep is None or pa.types.is_primitive(tie.type) else F.when(keep, beside)


def _keep(source: SourceInput) -> Column | None:
    """Rows that go to the engine: those that pass the filter and are not mere heartbeats."""
    parts = []
    if source.filter is not None:
        parts.append(F.coalesce(F.expr(spark_sql(source.filter, source.alias)), F.lit(False)))
    if source.stream.options.heartbeat is not None:
        parts.append(~F.coalesce(F.expr(quote(source.stream.options.heartbeat)), F.lit(False)))
    return None if not parts else parts[0] if len(parts) == 1 else parts[0] & parts[1]


_BITS = 0xFFFFFFFF
_SEED = 42


def partition_keys(partitions: int) -> tuple[int, ...]:
    """The grouping keys that stand for the partitions, so that Spark puts partitions into different tasks.

    Spark sends a key to the task ``pmod(hash(key), tasks)``; ``hash`` of an INT is Murmur3 with seed 42.
    That is a bijection of 32-bit integers, so there is one key whose hash is p: partition p goes to task p
    modulo the number of tasks. The keys name the partitions' logs in the checkpoint, and do not depend on a
    setting that may differ after a restart.

    >>> partition_keys(2)
    (-1693959553, -1910889132)
    """
    return tuple(_key(p) for p in range(partitions))


def _key(hashed: int) -> int:
    """The INT with a given hash: the inverse of Murmur3."""
    h = _unshift(hashed, 16)
    h = h * pow(0xC2B2AE35, -1, 1 << 32) & _BITS
    h = _unshift(h, 13)
    h = h * pow(0x85EBCA6B, -1, 1 << 32) & _BITS
    h = _unshift(h, 16) ^ 4
    h = (h - 0xE6546B64) * pow(5, -1, 1 << 32) & _BITS
    k = _rotate(h, 32 - 13) ^ _SEED
    k = k * pow(0x1B873593, -1, 1 << 32) & _BITS
    k = _rotate(k, 32 - 15)
    k = k * pow(0xCC9E2D51, -1, 1 << 32) & _BITS
    return k - (1 << 32) if k >> 31 else k


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _BITS


def _unshift(value: int, bits: int) -> int:
    """The x for which ``x ^ (x >> bits)`` is the value."""
    found = value
    for _ in range(32 // bits):
        found = value ^ found >> bits
    return found
