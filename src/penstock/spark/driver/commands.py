"""A query's command stream: numbered commands beside its checkpoint, and the source that delivers them.

A checkpoint fixes a query's sources, so every query has this one from its first start. The source is
Spark's own memory stream, whose offset n stands for the first n + 1 commands. Spark's offsets alone decide
which commands a batch has. A command is written to a file ``commands/<number>.json`` of the checkpoint before
the source has it, and a restart gives the source the same commands at the same offsets, so each is delivered
exactly once. A table that is refreshed every five minutes has thousands of commands in a month: those that
committed batches had are folded into one file, ``commands/folded-<number of the last>.json``, with fewer
commands of the same effect. They are not delivered again; empty offsets take their place.

Every partition of a stage gets the commands with the batch's rows; they are part of the step's record
(:mod:`penstock.spark.wire.record`) and applied in sequence (:mod:`penstock.engine.command`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.command import REGISTER, SETTING, TABLES, Command, CommandState
from penstock.engine.tables import changes_of, payload
from penstock.errors import CatalogError
from penstock.spark.driver.checkpoint import Directory, damaged, parsed
from penstock.spark.settings import FOLDED_FROM
from penstock.spark.wire.record import command_from_json, command_to_json

FOLDER = "commands"
"""The folder of a checkpoint that holds its commands."""
_FOLDED = "folded-"


class CommandStream:
    """The commands of one query, as a source of its DataFrame; ``kinds`` are those that it has.

    Without a directory (Spark uses a temporary checkpoint and removes it with the query) they are not stored.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        strings = jvm.org.apache.spark.sql.Encoders.STRING()
        runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
        self._source = runtime.MemoryStream.apply(strings, spark._jsparkSession)
        self._to_seq = jvm.PythonUtils.toSeq
        self._df = DataFrame(self._source.toDF(), spark)
        self._directory: Directory | None = None
        self._last = self._folded = 0
        self.kinds: set[str] = set()
        self.settings: dict[str, Any] = {}
        """The settings that were changed, by name."""
        self._query: StreamingQuery | None = None
        self._writers = 0
        self._lock = threading.Lock()

    def rows(self, keys: Sequence[int]) -> DataFrame:
        """A row for each command and partition, in the columns of ``exchange.BLOBS``."""
        each = F.explode(F.array(*(F.lit(key) for key in keys)))
        return self._df.select(each, F.col("value"), F.lit(b""))

    def open(self, directory: Directory | None, new: bool = False) -> None:
        """Before a start: deliver the stored commands at their offsets.

        ``new``: no batch was committed, so the query begins with the tables as they are now, and changes
        of tables that were sent before have no meaning.
        """
        if self._query is not None and self._query.isActive:
            self._writers += 1  # a second start of one writer: which query a command is for is unknown
            return
        self._directory, self._writers, self._last, self.kinds = directory, 1, 0, set()
        self.settings = {}
        self._source.reset()
        self._folded = 0 if directory is None else _last_folded(directory)
        for _ in range(self._folded):
            self._source.addData(self._to_seq([]))
        for command in stored(directory) if directory is not None else []:
            void = new and command.kind == TABLES
            self._deliver(replace(command, payload=payload({})) if void else command)
        self._last = max(self._last, self._folded)

    def started(self, query: StreamingQuery, named: bool = True) -> None:
        """After a start: commands for this query are accepted from now on.

        ``named``: those that name the query are for this stream, and not for that of a query which reads it.
        """
        self._query = query
        if not named:
            return
        for run_id in [r for r, stream in _streams.items() if not stream.runs]:
            del _streams[run_id]
        _streams[str(query.runId)] = self

    @property
    def runs(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def run_id(self) -> str:
        return str(self._query.runId) if self._query is not None else ""

    def append(self, kind: str, content: dict[str, Any]) -> Command:
        """Write the next command to the checkpoint, then hand it to the source."""
        if self._writers > 1:
            raise CatalogError(
                "two queries were started from one writer and share a command stream; start each from its "
                "own df.writeStream"
            )
        with self._lock:
            command = Command(self._last + 1, kind, content)
            CommandState().apply([command])  # what an engine would reject must not get into the stream
            if self._directory is not None:
                _write(self._directory, command)
            self._deliver(command)
            if self._directory is not None and self._last - self._folded >= FOLDED_FROM:
                self._fold(self._directory)
        return command

    def _fold(self, directory: Directory) -> None:
        """Fold the commands that committed batches had, if they are many."""
        delivered = self._delivered()
        if delivered - self._folded >= FOLDED_FROM:
            fold(directory, delivered)
            self._folded = delivered

    def _delivered(self) -> int:
        """The last command that a batch had which was committed before the latest one began."""
        progress = self._query.lastProgress if self._query is not None else None
        sources = [] if progress is None else progress["sources"]
        found = [s["startOffset"] for s in sources if s["description"].startswith("MemoryStream")]
        return int(found[0]) + 1 if len(found) == 1 and found[0] is not None else 0

    def _deliver(self, command: Command) -> None:
        if command.sequence > self._folded:
            self._source.addData(self._to_seq([command_to_json(command)]))
        self._last = command.sequence
        self.kinds.add(command.kind)
        if command.kind == SETTING:
            self.settings[command.payload["name"]] = command.payload["value"]


_streams: dict[str, CommandStream] = {}
"""The command streams of this process's queries by run."""


def append(query: StreamingQuery, kind: str, payload: dict[str, Any]) -> Command:
    """Send a command to every engine of a running query; each applies it once, in sequence."""
    return of(query).append(kind, payload)


def of(query: StreamingQuery) -> CommandStream:
    """The command stream of a running query."""
    stream = _streams.get(str(query.runId))
    if stream is None or not stream.runs:
        raise CatalogError(
            f"query {query.name or query.id} takes no commands; it must be running, and started from the "
            "DataFrame that Session.sql returned"
        )
    return stream


def settings_of(query: StreamingQuery | None) -> dict[str, str]:
    """The settings that were changed in a query since it first started; none of one that does not run."""
    stream = None if query is None else _streams.get(str(query.runId))
    return {} if stream is None else {name: str(value) for name, value in stream.settings.items()}


def store(directory: Directory, kind: str, content: dict[str, Any]) -> Command:
    """Write the next command of a query that does not run; its next start delivers it."""
    command = Command(last_stored(directory) + 1, kind, content)
    CommandState().apply([command])
    _write(directory, command)
    return command


def last_stored(directory: Directory) -> int:
    """The number of the last command of a checkpoint."""
    return max([_last_folded(directory), *_numbers(directory)])


def _write(directory: Directory, command: Command) -> None:
    directory.write(_file(command.sequence), command_to_json(command))


def stored(directory: Directory) -> list[Command]:
    """The commands of a checkpoint, in sequence; those that were folded are fewer."""
    last = _last_folded(directory)
    folded = (parsed(directory, _folded_file(last), _folded_from) or []) if last else []
    numbers = [n for n in _numbers(directory) if n > last]
    if numbers != list(range(last + 1, last + len(numbers) + 1)):
        raise damaged(f"its commands are numbered {numbers}, not {last + 1} to {last + len(numbers)}")
    if last + len(numbers) < (had := _had(directory)):
        raise damaged(f"it has {last + len(numbers)} commands, and its batches had {had}")
    later = [parsed(directory, _file(n), command_from_json) for n in numbers]
    for number, command in zip(numbers, later, strict=True):
        if command is None or command.sequence != number:
            raise damaged(f"{_file(number)} is not the command of that number")
    return [*folded, *(command for command in later if command is not None)]


def _folded_from(text: str) -> list[Command]:
    return [Command(**command) for command in json.loads(text)]


def _had(directory: Directory) -> int:
    """How many commands the batches had, by the offsets of the newest: the last source is the commands'."""
    newest = max((int(name) for name in directory.names("offsets") if name.isdigit()), default=None)
    lines = [] if newest is None else (directory.read(f"offsets/{newest}") or "").splitlines()[2:]
    return int(lines[-1]) + 1 if lines and lines[-1].strip().isdigit() else 0


def fold(directory: Directory, last: int) -> None:
    """Replace the files of the commands up to ``last`` by one file with fewer commands of the same effect.

    If it is interrupted, the files that are left are of commands that the last such file has.
    """
    commands = [c for c in stored(directory) if c.sequence <= last]
    text = json.dumps([asdict(c) for c in folded(commands)])
    directory.write(_folded_file(last), text)
    for number in _numbers(directory):
        if number <= last:
            directory.delete(_file(number))
    for name in directory.names(FOLDER):
        if name.startswith(_FOLDED) and _number(name) < last:
            directory.delete(f"{FOLDER}/{name}")


def folded(commands: Sequence[Command]) -> list[Command]:
    """Fewer commands with the same effect: of each setting the last, of tables what changes in all."""
    alike: dict[tuple[Any, ...], list[Command]] = {}
    registered = 0
    for command in commands:
        registered += command.kind == REGISTER  # a query is registered with the rows of its tables then
        own = {TABLES: registered, SETTING: command.payload.get("name"), "memory": None}
        alike.setdefault((command.kind, own.get(command.kind, command.sequence)), []).append(command)
    found = [
        replace(same[-1], payload=payload(changes_of(same))) if kind == TABLES else same[-1]
        for (kind, _), same in alike.items()
    ]
    return sorted(found, key=lambda c: c.sequence)


def _numbers(directory: Directory) -> list[int]:
    """The numbers of the commands that have a file."""
    return sorted(_number(name) for name in directory.names(FOLDER) if name[0].isdigit())


def _number(name: str) -> int:
    return int(name.removeprefix(_FOLDED).partition(".")[0])


def _last_folded(directory: Directory) -> int:
    """The last command that is folded; 0 if none is."""
    return max((_number(name) for name in directory.names(FOLDER) if name.startswith(_FOLDED)), default=0)


def _folded_file(last: int) -> str:
    return f"{FOLDER}/{_FOLDED}{last:08}.json"


def _file(sequence: int) -> str:
    return f"{FOLDER}/{sequence:08}.json"
