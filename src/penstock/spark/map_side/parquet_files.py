"""Parquet files that go to the packer as Arrow, without a detour through the JVM's rows.

For Spark a row of a Parquet file is decoded into columns, made a row, and made Arrow again before Python
sees it, which costs more than all that Penstock then does with it. Where a stream's DataFrame is nothing but
Parquet files that every machine can open by their path, and a query takes columns as they are, Spark only
says which files a batch has (so offsets, limits and progress are Spark's own, rows counted), and the map
task reads them with Arrow. In every other case Spark reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import DataError
from penstock.schema import sql_name
from penstock.spark.map_side.packer import Packers
from penstock.spark.process import generator_without_traceback
from penstock.spark.settings import PARQUET_BATCH_ROWS

MODIFIED, FILE, START = "#modified", "#file", "#start"
"""Columns beside a row's: the time of its file, the name of it, and where the part of it begins that is read
at once. They order rows of equal timestamps.
"""

_OPTIONS = frozenset(
    "path maxfilespertrigger maxbytespertrigger maxcachedfiles latestfirst maxfileage filenameonly "
    "cleansource sourcearchivedir pathglobfilter recursivefilelookup modifiedbefore modifiedafter".split()
)
"""Options that select files, and do not change how they are read."""

_HOW = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles", "spark.sql.caseSensitive")
"""Settings under which only Spark's own reader is used."""

_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def paths(df: DataFrame) -> DataFrame | None:
    """A row with the path and time of every file, if the DataFrame only reads Parquet files; else None."""
    if not _is_plain_parquet(df):
        return None
    # Selecting the row number lets Spark count rows without decoding any column.
    known = ("file_path", "file_modification_time", "row_index")
    first = df.select(*(f"_metadata.{name}" for name in known)).where("row_index = 0")
    return first.select("file_path", F.unix_micros("file_modification_time"))


def _is_plain_parquet(df: DataFrame) -> bool:
    relation: Any = df._jdf.queryExecution().analyzed()
    if relation.getClass().getSimpleName() != "StreamingRelation":
        return False
    source = relation.dataSource()
    if source.className() != "parquet" or not source.partitionColumns().isEmpty():
        return False
    options = {pair._1().lower(): pair._2() for pair in _each(source.options())}
    places = [options.get("path"), *_each(source.paths())]
    spark = df.sparkSession
    return (
        options.keys() <= _OPTIONS
        and all(_is_a_file(place, spark) for place in places if place)
        and not any(spark.conf.get(name) == "true" for name in _HOW)
    )


def _each(scala: Any) -> Iterator[Any]:
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _is_a_file(path: str, spark: SparkSession) -> bool:
    scheme = urlparse(path).scheme
    if not scheme:
        jvm: Any = spark._jsc
        scheme = urlparse(jvm.hadoopConfiguration().get("fs.defaultFS", "file:///")).scheme
    return scheme == "file"


@dataclass(frozen=True)
class ParquetPacker:
    """Packs the rows of a stream's files.

    ``columns`` are the files' columns with the types that the stream declares, in the order of the packers'.
    """

    packer: Packers
    columns: tuple[pa.Field, ...]

    def run(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
        """The blobs of all files, given by their URIs and times."""
        return self.packer.run(self._rows(files))

    @generator_without_traceback
    def _rows(self, files: Iterable[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
        own = tuple(f for f in self.columns if f.name not in (MODIFIED, FILE, START))
        for file, modified in files:
            row, path = 0, unquote(urlparse(file).path)
            places = {MODIFIED: modified, FILE: file, START: 0}
            for batch in read(path, own):
                self._check_time(batch.column(0), path, row)
                row += batch.num_rows
                yield self._with_places(batch, places) if len(own) < len(self.columns) else batch

    def _with_places(self, batch: pa.RecordBatch, places: dict[str, Any]) -> pa.RecordBatch:
        """The rows with what says where they are from, among their columns."""
        own, rows = iter(batch.columns), batch.num_rows
        arrays = [
            _constant(places[f.name], f.type, rows) if f.name in places else next(own) for f in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{n}" for n in range(len(arrays))])

    def _check_time(self, time: pa.Array, path: str, before: int) -> None:
        """Reject a row without a time; the timestamp is the first column."""
        if time.null_count:
            row = before + time.is_null().index(True).as_py() + 1
            raise DataError(
                f"stream {self.packer.stream!r}: {path}, row {row}: column {self.columns[0].name!r} is NULL; "
                "correct it, or declare the stream ON BAD ROWS COUNT to leave such rows out"
            )


@dataclass(frozen=True)
class ParquetPackers:
    """Packs the files of a map task, of several streams; pickled into it."""

    packers: tuple[ParquetPacker, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blobs of all; the batches have the number of a stream, the name of a file and its time."""
        files: list[list[tuple[str, int]]] = [[] for _ in self.packers]
        for batch in batches:
            for stream, *file in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                files[stream].append(tuple(file))
        for packer, mine in zip(self.packers, files, strict=True):
            yield from packer.run(mine)


def can_read(columns: Iterable[pa.Field]) -> bool:
    """Whether columns of these types are read here as Spark reads them."""
    return all(_is_simple(f.type) or f.name == FILE for f in columns)


def _is_simple(kind: pa.DataType) -> bool:
    exact = pa.types.is_signed_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return exact or pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or pa.types.is_string(kind)


def read(path: str, columns: tuple[pa.Field, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a file; a missing column is NULL, or the value in its path (``name=value``)."""
    with pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
        if any(key in (file.metadata.metadata or {}) for key in _OLD_CALENDAR):
            raise DataError(
                f"{path} was written with the calendar of Spark 2: let Spark read it, by a stream over "
                "spark.readStream...parquet(...).select('*')"
            )
        there = file.schema_arrow
        found = {f.name: _found(path, there, f.name) for f in columns}
        names = [name for name in found.values() if name is not None]
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=names, use_threads=False):
            arrays = [_column(path, batch, found[f.name], f) for f in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=[f"c{n}" for n in range(len(arrays))])


def _constant(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """A column of one value."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, np.int32)), pa.array([value], kind.value_type)
        )
    return pa.array(np.full(rows, value), kind)


def _found(path: str, there: pa.Schema, name: str) -> str | None:
    """The name of a column in the file; as in Spark, case does not matter."""
    if name in there.names:
        return name
    alike = [n for n in there.names if n.casefold() == name.casefold()]
    if len(alike) > 1:
        raise DataError(
            f"{path} has the columns {', '.join(alike)}, which all match {name!r}; keep one of them"
        )
    return alike[0] if alike else None


def _column(path: str, batch: pa.RecordBatch, found: str | None, wanted: pa.Field) -> pa.Array:
    if found is None:
        return _from_path(path, wanted, batch.num_rows)
    column = batch.column(found)
    if column.type == wanted.type:
        return column
    if _holds(wanted.type, column.type):
        try:
            return column.cast(wanted.type)
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: column {found!r} as {sql_name(wanted.type)}: {error}") from None
    raise DataError(
        f"{path}: column {found!r} is {sql_name(column.type)}, and the stream declares "
        f"{sql_name(wanted.type)}; put a file with that type in its place, under the same name, or declare "
        "the stream anew"
    )


def _from_path(path: str, wanted: pa.Field, rows: int) -> pa.Array:
    prefix = f"{wanted.name}="
    values = [part.removeprefix(prefix) for part in path.split("/")[:-1] if part.startswith(prefix)]
    if not values or values[-1] == "__HIVE_DEFAULT_PARTITION__":
        return pa.nulls(rows, wanted.type)
    try:
        value = pa.array([unquote(values[-1])]).cast(wanted.type)[0]
    except pa.ArrowInvalid:
        raise DataError(
            f"{path}: the value {values[-1]!r} of column {wanted.name!r}, in the path, is not of type "
            f"{sql_name(wanted.type)}"
        ) from None
    return pa.repeat(value, rows)


def _holds(wide: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Spark's reader accepts every value of a type as one of the other."""
    if pa.types.is_integer(kind):
        integer = pa.types.is_integer(wide) and wide.bit_width > kind.bit_width
        return integer or (pa.types.is_float64(wide) and kind.bit_width <= 32)
    if pa.types.is_floating(kind):
        return pa.types.is_float64(wide)
    if pa.types.is_timestamp(kind):
        # Without a zone it is UTC, as Spark reads INT96; an instant is not a time without a zone.
        return pa.types.is_timestamp(wide) and (wide.tz is not None or kind.tz is None)
    if pa.types.is_dictionary(kind):
        return kind.value_type == wide or _holds(wide, kind.value_type)
    return pa.types.is_string(wide) and (pa.types.is_binary(kind) or pa.types.is_large_string(kind))
