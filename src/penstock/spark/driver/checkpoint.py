"""A checkpoint of another query is refused when a query starts, before Spark has touched anything.

Spark has no hook for that, so the result of ``Session.sql`` is a DataFrame whose writer looks first: a file
beside Spark's own in the checkpoint says which stages it is of. A DataFrame derived from it
(``df.filter(...)``) has Spark's writer, and a checkpoint may have no such file; then the first step refuses,
in the tasks, before it changes their state (:mod:`penstock.spark.relay.state_log`).
A query's fingerprint, made here of its plan, is what both compare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock import __version__
from penstock.catalog import Input
from penstock.engine.operator import Node
from penstock.engine.operators.project import Project
from penstock.plan.explain import explain_stage
from penstock.plan.physical import PlannedStage, SourceInput
from penstock.spark.relay.fingerprint import Fingerprint, check_all
from penstock.spark.relay.state_log import FORMAT, check_format

FILE = "penstock.json"
_LOCATION = "checkpointlocation"
_FREE = frozenset({"filters"})
"""Fields of operators that may differ after a restart."""


class QueryFrame(ClassicDataFrame):
    """The streaming DataFrame of a query, which knows what a checkpoint of it must agree with."""

    def __init__(self, df: DataFrame, fingerprints: Sequence[Fingerprint]) -> None:
        super().__init__(df._jdf, df.sparkSession)
        self._fingerprints = tuple(fingerprints)

    @property
    def writeStream(self) -> DataStreamWriter:
        """As any DataFrame's, but ``start`` refuses a checkpoint of another query."""
        return _Writer(self, self._fingerprints)


class _Writer(DataStreamWriter):
    """Spark's writer, which remembers where the checkpoint is to be."""

    def __init__(self, df: DataFrame, fingerprints: tuple[Fingerprint, ...]) -> None:
        super().__init__(df)
        self._fingerprints = fingerprints
        self._location: str | None = None
        self._name: str | None = None

    def option(self, key: str, value: Any) -> DataStreamWriter:
        if key.lower() == _LOCATION and value is not None:
            self._location = str(value)
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def queryName(self, queryName: str) -> DataStreamWriter:
        self._name = queryName
        return super().queryName(queryName)

    def start(self, path: str | None = None, *args: Any, **given: Any) -> StreamingQuery:
        self._check(_named(args, given), given)
        return super().start(path, *args, **given)

    def toTable(self, tableName: str, *args: Any, **given: Any) -> StreamingQuery:
        self._check(_named(args, given), given)
        return super().toTable(tableName, *args, **given)

    def _check(self, name: str | None, given: dict[str, Any]) -> None:
        """As Spark finds the place; one that is made up for this start has nothing in it."""
        told = [str(v) for k, v in given.items() if k.lower() == _LOCATION and v is not None]
        location = told[0] if told else self._location
        base = self._spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        called = name or self._name
        if location is None and base is not None and called is not None:
            location = f"{base}/{called}"
        if location is not None:
            agree(self._spark, location, self._fingerprints)


def _named(args: tuple[Any, ...], given: dict[str, Any]) -> str | None:
    """The query's name among the arguments: the fourth after the first, for those who count."""
    name = args[3] if len(args) > 3 else given.get("queryName")
    return None if name is None else str(name)


def agree(spark: SparkSession, location: str, query: Sequence[Fingerprint]) -> None:
    """Refuse a checkpoint that another query has written; say in a new one whose it is.

    As long as no batch has been committed there is no state, and any query may begin.
    """
    place = _Directory(spark, location)
    if any(name.isdigit() for name in place.names("commits")):
        written = _decode(place.read(FILE))
        if written is not None:
            check_all(query, written)
    else:
        place.write(FILE, _encode(query))


def _encode(query: Sequence[Fingerprint]) -> str:
    told = {"format": FORMAT, "penstock": __version__}
    return json.dumps({**told, "stages": [asdict(f) for f in query]}, indent=1)


def _decode(text: str | None) -> list[Fingerprint] | None:
    """None if there is nothing that can be read: a start may have been cut short while it wrote."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    check_format(found)
    return [Fingerprint.from_json(stage) for stage in found["stages"]]


class _Directory:
    """A directory on any file system that Spark knows."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path(location)
        self._files = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def _below(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def names(self, name: str) -> list[str]:
        """The files of a directory in it, which need not exist."""
        below = self._below(name)
        if not self._files.exists(below):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(below)]

    def read(self, name: str) -> str | None:
        """A file's text, if there is one."""
        if not self._files.exists(self._below(name)):
            return None
        stream = self._files.open(self._below(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Make or replace a file."""
        stream = self._files.create(self._below(name), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()


def fingerprint(planned: PlannedStage, number: int) -> Fingerprint:
    """That of a planned stage."""
    stage = planned.stage
    parts = [_unnamed(stage.root), stage.inputs, stage.waits, [_input(i) for i in planned.inputs]]
    digest = hashlib.sha256("\n".join(map(_text, parts)).encode()).hexdigest()[:16]
    read = [i for i in planned.inputs if isinstance(i, SourceInput)]
    streams = tuple((i.alias, i.stream.name, _declared(i.stream)) for i in read)
    return Fingerprint(number, planned.partitions, digest, streams, tuple(explain_stage(planned)))


def _declared(stream: Input) -> str:
    """What of a stream's declaration its rows' order and time depend on, in DDL's words."""
    options, unit = stream.options, stream.options.time.unit.upper()
    time = f"TIMESTAMP BY {options.timestamp}"
    if options.time.kind == "integer":
        time += f" IN {unit}"
    ticks = {"SKEW": options.skew, "IDLE AFTER": options.idle_after}
    return " ".join([time, *(f"{what} {value} {unit}" for what, value in ticks.items() if value)])


def _unnamed(root: Any) -> Any:
    """The root with its result's columns numbered instead of named."""
    if isinstance(root, Project):
        return replace(root, columns=tuple((str(n), e) for n, (_, e) in enumerate(root.columns)))
    below = getattr(root, "input", None)
    if isinstance(below, Node) and type(root).__name__ in _PASS:
        return replace(root, input=_unnamed(below))
    return root


_PASS = frozenset({"IStream", "DStream", "RStream", "Changelog"})
"""Operators that show the rows of the one below as they are."""


def _input(source: Any) -> Any:
    """An input with the declaration of its stream, and without what it is read from."""
    if not isinstance(source, SourceInput):
        return type(source).__name__, source.name, getattr(source, "partition_by", ())
    own = {f.name: getattr(source, f.name) for f in fields(source) if f.name != "stream"}
    options = source.stream.options
    return own, source.stream.name, options.time, options.timestamp, options.heartbeat


def _text(value: Any) -> str:
    """As ``repr``, but the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = [f.name for f in fields(value) if f.name not in _FREE and f.compare]
        return f"{type(value).__name__}({', '.join(f'{n}={_text(getattr(value, n))}' for n in shown)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_text, value)) + ")"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(_text, value))) + "}"
    return getattr(value, "__qualname__", None) or repr(value)
