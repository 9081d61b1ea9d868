"""The query that a checkpoint belongs to: a file beside Spark's own holds the fingerprints of its stages.

A checkpoint of another query is rejected when a query starts, before Spark changes anything. If there is no
such file the first step rejects it, in the tasks, before it changes their state
(:mod:`penstock.spark.relay.state_log`). Both compare the query's fingerprint, computed here from its plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock import __version__
from penstock.catalog import Input
from penstock.engine.operator import Node, nodes
from penstock.errors import CatalogError, PenstockError
from penstock.plan.explain import explain_stage
from penstock.plan.physical import PlannedStage, SourceInput, TableInput
from penstock.schema import sql_name
from penstock.spark.driver.jvm import Refused, told
from penstock.spark.relay.fingerprint import Fingerprint, check_all
from penstock.spark.relay.state_log import FORMAT, Damaged, check_format

Parsed = TypeVar("Parsed")

FILE = "penstock.json"
_UNCHECKED = "penstock-unchecked.json"
"""In place of that file if it is lost: the query that was started last, until its tasks have compared it."""
_FREE = frozenset({"filters"})
"""Fields of operators that may differ after a restart."""


@dataclass(frozen=True)
class Written:
    """The query that a checkpoint belongs to; ``text`` is empty if an earlier version wrote it."""

    stages: tuple[Fingerprint, ...]
    text: str = ""


def written(place: Directory) -> Written | None:
    """The query that wrote a checkpoint; None before the first batch, or if that is not known."""
    committed = _committed(place)
    return None if committed is None else _written(place, committed)


def _committed(place: Directory) -> int | None:
    """The number of the last batch that was committed."""
    return max((int(name) for name in place.names("commits") if name.isdigit()), default=None)


def check_or_create(place: Directory, query: Sequence[Fingerprint], text: str = "") -> bool:
    """Reject a checkpoint that another query has written; write the fingerprints into a new one.

    As long as no batch has been committed there is no state, and any query may start: then it returns True.
    """
    committed = _committed(place)
    if committed is None:
        place.write(FILE, _encode(Written(tuple(query), text)))
        return True
    before = _written(place, committed)
    if before is not None:
        check_all(query, before.stages)
    else:
        place.write(_UNCHECKED, _encode(Written(tuple(query), text), after=committed))
    return False


def _written(place: Directory, committed: int) -> Written | None:
    """The query that has written a checkpoint; None if that is not known.

    If the file was lost, the tasks of the next start compare the query with their state. Once a batch of it
    is committed, it is known again.
    """
    found = _decode(_known(place, FILE))
    later = _known(place, _UNCHECKED) if found is None else None
    if later is not None and (unchecked := _decode(later)) and json.loads(later)["after"] < committed:
        place.write(FILE, _encode(unchecked))
        place.delete(_UNCHECKED)
        return unchecked
    return found


def _known(place: Directory, name: str) -> str | None:
    try:
        return place.read(name)
    except Damaged:
        return None


def check_part(place: Directory, query: Sequence[Fingerprint], new: bool) -> None:
    """The same for the part of a checkpoint that an inner query has; ``new``: no batch was committed."""
    if new:
        place.write(FILE, _encode(Written(tuple(query))))
    elif (before := _decode(_known(place, FILE))) is not None:
        check_all(query, before.stages)


def check_unused(place: Directory, running: Iterable[StreamingQuery]) -> None:
    """Reject the checkpoint of a running query, which Spark would stop without a word."""
    owner = query_id(place)
    for query in running:
        if str(query.id) == owner:
            raise CatalogError(
                f"the checkpoint is in use by the running query {query.name or owner!r}; stop it first, or "
                "use another checkpoint"
            )


def query_id(place: Directory) -> str | None:
    """Spark's id of the query that a checkpoint is of; None if none was started with it."""
    try:
        found: dict[str, str] = json.loads(place.read("metadata") or "{}")
    except ValueError:
        return None
    return found.get("id")


def _encode(query: Written, **more: int) -> str:
    header = {"format": FORMAT, "penstock": __version__, "query": query.text, **more}
    return json.dumps({**header, "stages": [asdict(f) for f in query.stages]}, indent=1)


def _decode(text: str | None) -> Written | None:
    """The query in a file; None if it cannot be read."""
    try:
        found = json.loads(text or "")
        stages = found["stages"]
        check_format(found)
        return Written(tuple(map(Fingerprint.from_json, stages)), str(found.get("query", "")))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def damaged(what: str) -> Damaged:
    """The error for a checkpoint of which a file is not what was written."""
    return Damaged(f"the checkpoint is damaged: {what}; restore the checkpoint from a copy, or use a new one")


def parsed(place: Directory, name: str, parse: Callable[[str], Parsed]) -> Parsed | None:
    """The content of a file; None if it does not exist."""
    text = place.read(name)
    if text is None:
        return None
    try:
        return parse(text)
    except PenstockError:
        raise
    except Exception:  # noqa: BLE001
        # Of damaged JSON, Arrow data or pickled objects, whatever they raise.
        raise damaged(f"{name} cannot be read") from None


class Directory:
    """A directory on any file system that Spark knows."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm, self._spark = jvm, spark
        self._told = f"the checkpoint {location} cannot be used"
        with told(self._told):
            self._path = jvm.org.apache.hadoop.fs.Path(location)
            self._files = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
            if self._files.exists(self._path) and not self._files.getFileStatus(self._path).isDirectory():
                raise Refused(self._told, "it is a file; name a directory")

    def below(self, name: str) -> Directory:
        """A directory in it, which need not exist."""
        return Directory(self._spark, f"{self._path}/{name}")

    def _below(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def names(self, name: str) -> list[str]:
        """The names of the files in a subdirectory, which need not exist."""
        below = self._below(name)
        if not self._files.exists(below):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(below)]

    def delete(self, name: str) -> None:
        """Delete a file, which need not exist."""
        self._files.delete(self._below(name), False)

    def read(self, name: str) -> str | None:
        """The text of a file; None if it does not exist."""
        if not self._files.exists(self._below(name)):
            return None
        try:
            stream = self._files.open(self._below(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage() or error.java_exception).splitlines()[0]
            raise damaged(f"{name} cannot be read: {reason}") from None

    def write(self, name: str, text: str) -> None:
        """Write a file atomically."""
        path = self._below(name)
        fresh = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.new")
        with told(self._told):
            stream = self._files.create(fresh, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._files.delete(path, False)
        self._files.rename(fresh, path)


def fingerprint(planned: PlannedStage, number: int) -> Fingerprint:
    """The fingerprint of a planned stage."""
    stage = planned.stage
    parts = [
        *(root.unnamed() for root in stage.roots.values()),
        stage.inputs,
        stage.waits,
        [_input(i) for i in planned.inputs],
    ]
    digest = hashlib.sha256("\n".join(map(_text, parts)).encode()).hexdigest()[:16]
    read = [i for i in planned.inputs if isinstance(i, SourceInput)]
    streams = tuple((i.alias, i.stream.name, _declared(i.stream)) for i in read)
    types = tuple((f.name, sql_name(f.type)) for i in stage.inputs for f in i.schema)
    shown = tuple(explain_stage(planned))
    return Fingerprint(number, planned.partitions, digest, streams, shown, types, tuple(_details(planned)))


def _details(planned: PlannedStage) -> Iterator[tuple[str, str]]:
    """What may differ where ``explain`` shows nothing: the fields of each operator and input by name."""
    for number, node in enumerate(n for root in planned.stage.roots.values() for n in nodes(root)):
        for f in fields(node):
            if f.compare and f.name not in _FREE and not isinstance(getattr(node, f.name), Node | tuple):
                yield f"{f.name} of {node.name} {number}", _text(getattr(node, f.name))
    for i in planned.stage.inputs:
        own = ((f.name, getattr(i, f.name)) for f in fields(i) if f.compare and f.name != "schema")
        yield from ((f"{name} of input {i.name}", _text(value)) for name, value in own)


def _declared(stream: Input) -> str:
    """The clauses of a stream's declaration on which the order and time of its rows depend."""
    options, unit = stream.options, stream.options.time.unit.upper()
    time = f"TIMESTAMP BY {'ARRIVAL' if options.arrival else options.timestamp}"
    if options.time.kind == "integer":
        time += f" IN {unit}"
    disorder = "DISORDER AUTO UP TO" if options.adaptive else "DISORDER"
    ticks = {disorder: options.skew, "IDLE AFTER": options.idle_after}
    return " ".join([time, *(f"{what} {value} {unit}" for what, value in ticks.items() if value)])


def _input(source: Any) -> Any:
    """An input with the declaration of its stream, without its source."""
    if isinstance(source, TableInput):
        return type(source).__name__, source.name, source.table.name, source.columns, source.filter
    if not isinstance(source, SourceInput):
        return type(source).__name__, source.name, getattr(source, "partition_by", ())
    own = {f.name: getattr(source, f.name) for f in fields(source) if f.compare and f.name != "stream"}
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
