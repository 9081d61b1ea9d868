"""The results of a pipeline: files that its tasks write, published batch by batch, for any number of readers.

A Spark query has one sink, and a pipeline many queries. So each task writes the results of all queries of its
partition to one file and returns its name and contents to the driver, which publishes the files of a batch
when all tasks have succeeded. In a folder of the pipeline's checkpoint::

    published.json             the batches that readers see, and the last command that was applied
    00000012.json              a batch: by query, which bytes of which files
    00000012/<random>.arrow    a task's file: Arrow IPC streams, one after another

``published.json`` is replaced last, in one step: a batch is seen whole or not at all. A batch that Spark
repeats is published once. An attempt that failed leaves a file that no batch names; it is deleted with the
folder of its batch. Batches are deleted when they are older than the pipeline keeps results.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs

from penstock.engine.element import operation
from penstock.engine.stage import SIGN, TS
from penstock.errors import DataError

_PUBLISHED = "published.json"
Bytes = bytes | memoryview


class Piece(NamedTuple):
    """The elements of a query in a file: an Arrow IPC stream of ``size`` bytes from ``start`` on."""

    file: str
    start: int
    size: int
    rows: int


@dataclass(frozen=True)
class Published:
    """What readers see: the batches from ``first`` to before ``next``.

    ``commands``: the sequence number of the last command that those batches applied. ``ended``: by query
    that was dropped, the batch from which on it has no results; readers go no further, so that another
    reader can go on from there.
    """

    first: int = 0
    next: int = 0
    commands: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The folder of a pipeline's results, as a path or an address that Arrow knows. Can be pickled."""

    location: str

    @cached_property
    def _opened(self) -> tuple[pyarrow.fs.FileSystem, str]:
        address = self.location if "://" in self.location else os.path.abspath(self.location)
        filesystem, path = pyarrow.fs.FileSystem.from_uri(address)
        return filesystem, path

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location}

    def write(self, batch: int, parts: Sequence[Bytes]) -> str:
        """Write a task's file of a batch; returns its name. Nobody sees it until it is published."""
        name = f"{batch:08}/{uuid.uuid4().hex}.arrow"
        filesystem, root = self._opened
        with _told(self.location, "written"):
            filesystem.create_dir(f"{root}/{batch:08}", recursive=True)
            with filesystem.open_output_stream(f"{root}/{name}", compression=None) as out:
                for part in parts:
                    out.write(part)
        return name

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The elements of a piece."""
        filesystem, root = self._opened
        with filesystem.open_input_file(f"{root}/{piece.file}") as file:
            data = file.read_at(piece.size, piece.start)
        try:
            with pa.ipc.open_stream(data) as reader:
                batches = list(reader)
        except (pa.ArrowException, OSError):
            raise self.damaged(piece.file) from None
        yield from batches

    def published(self) -> Published:
        """What readers see now."""
        text = self._text(_PUBLISHED)
        if text is None:
            return Published()
        try:
            return Published(**json.loads(text))
        except (ValueError, TypeError):
            raise self.damaged(_PUBLISHED) from None

    def damaged(self, name: str) -> DataError:
        """The error for a file that is not what was written."""
        return DataError(
            f"the results are damaged: {self.location}/{name} cannot be read; restore the checkpoint from a "
            "copy, or use a new one"
        )

    def pieces(self, batch: int, query: str) -> list[Piece]:
        """Where the elements of a query in a published batch are."""
        text = self._text(_manifest(batch))
        if text is None:
            raise FileNotFoundError(_manifest(batch))
        try:
            return [Piece(*piece) for piece in json.loads(text)["queries"].get(query, ())]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self.damaged(_manifest(batch)) from None

    def publish(
        self,
        batch: int,
        queries: Mapping[str, Sequence[Piece]],
        commands: int,
        ended: Collection[str] = (),
    ) -> Published:
        """Show a batch to readers; one that they see already is left as it is.

        ``ended``: the queries that it has dropped.
        """
        before = self.published()
        if batch < before.next:
            return before
        content = {"time": time.time(), "queries": queries}
        with _told(self.location, "written"):
            self._replace(_manifest(batch), json.dumps(content))
            # A pipeline's first batch may have any number: its checkpoint may be older than its results.
            first = batch if before.next == before.first else before.first
            last = {**before.ended, **dict.fromkeys(ended, batch)}
            after = Published(first, batch + 1, max(commands, before.commands), last)
            self._replace(_PUBLISHED, json.dumps(asdict(after)))
        return after

    def retire(self, older_than: float) -> None:
        """Delete the batches that were published before a time, but for the last; readers go first."""
        before = self.published()
        first = before.first
        while first < before.next - 1 and self._time(first) < older_than:
            first += 1
        if first > before.first:
            self._replace(_PUBLISHED, json.dumps(asdict(replace(before, first=first))))
        for batch in range(before.first, first):
            self._delete(batch)

    def _time(self, batch: int) -> float:
        try:
            return float(json.loads(self._text(_manifest(batch)) or "")["time"])
        except (ValueError, TypeError, KeyError):
            raise self.damaged(_manifest(batch)) from None

    def _delete(self, batch: int) -> None:
        filesystem, root = self._opened
        deletions: list[tuple[Callable[[str], None], str]] = [
            (filesystem.delete_file, _manifest(batch)),
            (filesystem.delete_dir, f"{batch:08}"),
        ]
        for delete, name in deletions:
            with suppress(FileNotFoundError):
                delete(f"{root}/{name}")

    def _text(self, name: str) -> str | None:
        filesystem, root = self._opened
        try:
            with filesystem.open_input_stream(f"{root}/{name}", compression=None) as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None

    def _replace(self, name: str, text: str) -> None:
        filesystem, root = self._opened
        filesystem.create_dir(root, recursive=True)
        with filesystem.open_output_stream(f"{root}/.{name}", compression=None) as out:
            out.write(text.encode())
        filesystem.move(f"{root}/.{name}", f"{root}/{name}")


def _manifest(batch: int) -> str:
    return f"{batch:08}.json"


@contextmanager
def _told(location: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"results cannot be {what} in {location}: {error}; make room there, or keep results for less time"
        ) from None


def placed(file: str, contents: Iterable[tuple[str, int, int]]) -> dict[str, list[Piece]]:
    """The pieces of a file by query, from its contents in order: query, rows and bytes.

    >>> placed("f", [("q", 3, 100), ("r", 1, 50)])["r"]
    [Piece(file='f', start=100, size=50, rows=1)]
    """
    found: dict[str, list[Piece]] = {}
    start = 0
    for query, rows, size in contents:
        found.setdefault(query, []).append(Piece(file, start, size, rows))
        start += size
    return found


def shown(batch: pa.RecordBatch, schema: pa.Schema, kind: str) -> dict[str, pa.Array]:
    """Elements as a user sees them: ``ts``, for a relation ``op``, then the payload."""
    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
    ts, sign = by_name.pop(TS), by_name.pop(SIGN)
    first = [ts] if kind == "stream" else [ts, operation(sign)]
    columns = zip(schema, [*first, *by_name.values()], strict=True)
    return {f.name: c if c.type == f.type else c.cast(f.type) for f, c in columns}
