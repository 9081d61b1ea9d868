"""The queries of a pipeline, and what else a checkpoint must remember of it.

Queries come and go by commands, which the checkpoint has as numbered files: those are the one record of which
queries there are, and this module reads it. So a query and the command that registers it can never disagree,
whatever is killed between them. What is fixed when a pipeline first starts is in ``pipeline.json``: its
streams, its splits, its partitions and the number of its stages.
"""

from __future__ import annotations

import base64
import json
import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from penstock import __version__
from penstock.engine.command import DROP, REGISTER, Command
from penstock.errors import PipelineError
from penstock.plan.explain import routed
from penstock.routing import Route
from penstock.spark.driver.checkpoint import Directory, parsed

FILE = "pipeline.json"
FORMAT = 1
"""Raised when a file of the version before can no longer be read."""

Split = tuple[tuple[str, ...], ...]
"""The keys by which a stream is split, each a tuple of columns."""


@dataclass(frozen=True)
class Registration:
    """A query as registered. ``schema`` has the columns that a reader sees.

    ``id`` differs between two queries that had the same name. ``sequence`` is the number of the command, 0 as
    long as the pipeline was never started; ``dropped`` that of the command that dropped it. ``failed``: why,
    if it was dropped since it failed. ``sink``: the name of its sink, if that was made by CREATE SINK.
    ``history``: it was registered WITH HISTORY.
    """

    id: str
    name: str
    text: str
    kind: str
    schema: pa.Schema
    sink: str = ""
    history: bool = False
    sequence: int = 0
    dropped: int | None = None
    failed: str | None = None

    @staticmethod
    def new(name: str, text: str, kind: str, schema: pa.Schema, sink: str, history: bool) -> Registration:
        return Registration(f"{name}.{uuid.uuid4().hex[:8]}", name, text, kind, schema, sink, history)

    @property
    def stands(self) -> bool:
        """Whether it is neither dropped nor failed."""
        return self.dropped is None

    def state(self, applied: int) -> str:
        """What has become of it, if all commands up to ``applied`` have been applied."""
        if self.failed is not None:
            return "failed"
        if self.dropped is not None:
            return "dropped"
        return "running" if 0 < self.sequence <= applied else "registered"

    def payload(self, plan: str) -> dict[str, Any]:
        """The content of the command; engines read the name and the plan."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        own = {"id": self.id, "text": self.text, "kind": self.kind, "schema": schema, "sink": self.sink}
        return {"query": self.name, "plan": plan, "history": self.history, **own}

    @staticmethod
    def of(command: Command) -> Registration:
        """The inverse."""
        own = command.payload
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(own["schema"])))
        named = (own["id"], own["query"], own["text"], own["kind"], schema, own["sink"])
        return Registration(*named, bool(own.get("history")), command.sequence)


class Registrations:
    """All registrations of a pipeline, oldest first."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._all: list[Registration] = []
        for command in commands:
            self.apply(command)

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._all)

    def apply(self, command: Command) -> None:
        """Follow a command; others than these two are nothing to it."""
        if command.kind == REGISTER:
            self._all.append(Registration.of(command))
        elif command.kind == DROP:
            number = self._number(command.payload["query"])
            if number is not None:
                dropped, failed = command.sequence, command.payload.get("failed")
                self._all[number] = replace(self._all[number], dropped=dropped, failed=failed)

    def standing(self) -> list[Registration]:
        """Those that are neither dropped nor failed."""
        return [r for r in self._all if r.stands]

    def latest(self) -> list[Registration]:
        """The last of each name."""
        return list({r.name.casefold(): r for r in self._all}.values())

    def find(self, name: str) -> Registration | None:
        """The last of a name, which ignores case."""
        return next((r for r in reversed(self._all) if r.name.casefold() == name.casefold()), None)

    def as_of(self, applied: int) -> dict[str, Registration]:
        """By name, those that run when the commands up to a number are applied."""
        begun = [r for r in self._all if r.sequence <= applied]
        return {r.name: r for r in begun if r.dropped is None or r.dropped > applied}

    def dropped(self, after: int, up_to: int) -> list[Registration]:
        """Those that the commands after a number and up to another have dropped."""
        return [r for r in self._all if r.dropped is not None and after < r.dropped <= up_to]

    def _number(self, name: str) -> int | None:
        numbers = [n for n, r in enumerate(self._all) if r.name == name and r.stands]
        return numbers[-1] if numbers else None


def splits(given: Mapping[str, str | Sequence[str] | Sequence[Sequence[str]]] | None) -> dict[str, Split]:
    """``split=`` as keys of columns: a column, a list of columns, or a list of such lists.

    >>> splits({"C": "pid", "B": ["a", "b"], "O": [["a"], ["b"]]})
    {'C': (('pid',),), 'B': (('a', 'b'),), 'O': (('a',), ('b',))}
    """
    return {name: tuple(_keys(keys)) for name, keys in (given or {}).items()}


def _keys(keys: str | Sequence[str] | Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    if isinstance(keys, str) or all(isinstance(k, str) for k in keys):
        yield (keys,) if isinstance(keys, str) else tuple(map(str, keys))
        return
    for key in keys:
        yield (key,) if isinstance(key, str) else tuple(key)


@dataclass(frozen=True)
class Layout:
    """What is fixed when a pipeline first starts: the ways in which each stream is sent, to how many
    partitions, the number of stages, and by stream the columns that are sent if those are not all.
    """

    partitions: int
    routes: Mapping[str, Sequence[Route]]
    one_clock: bool = False
    stages: int = 1
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def write(self, directory: Directory) -> None:
        """Remember it in the checkpoint."""
        shown = {name: [routed(r) for r in routes] for name, routes in self.routes.items()}
        packed = base64.b64encode(cloudpickle.dumps(dict(self.routes))).decode()
        header = {"format": FORMAT, "penstock": __version__, "partitions": self.partitions}
        header |= {"one_clock": self.one_clock, "stages": self.stages}
        header |= {"columns": {name: list(own) for name, own in self.columns.items()}}
        directory.write(FILE, json.dumps({**header, "streams": shown, "routes": packed}, indent=1))

    @staticmethod
    def read(directory: Directory) -> Layout | None:
        """That of a checkpoint, or None if no pipeline was started with it."""
        return parsed(directory, FILE, Layout._of)

    @staticmethod
    def _of(text: str) -> Layout:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise PipelineError(
                f"the checkpoint's pipeline was started by Penstock {found['penstock']} (format "
                f"{found['format']}), and this is Penstock {__version__} (format {FORMAT}); resume it with "
                "that version, or use a new checkpoint"
            )
        routes = pickle.loads(base64.b64decode(found["routes"]))
        later = (found.get("stages", 1), found.get("columns", {}))
        return Layout(found["partitions"], routes, found["one_clock"], *later)

    def check(
        self,
        streams: Sequence[str],
        partitions: int,
        split: Mapping[str, Split],
        one_clock: bool,
        stages: int | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Reject other streams, partitions, splits, clocks or stages than those that the checkpoint has."""
        if stages not in (None, self.stages) and partitions > 1:
            raise _another("setting stages =", str(self.stages), str(stages))
        for name, own in (columns or {}).items():
            if set(own) != set(self.columns.get(name, ())):
                sent = ", ".join(self.columns[name]) if name in self.columns else "all"
                raise _another(f"columns of {name}", sent, ", ".join(own))
        if one_clock != self.one_clock:
            raise _another("setting one_clock =", str(self.one_clock), str(one_clock))
        if set(streams) != set(self.routes):
            raise _another("streams", ", ".join(self.routes), ", ".join(streams))
        if partitions != self.partitions:
            raise PipelineError(
                f"the checkpoint's pipeline has {self.partitions} partitions, and this session {partitions}; "
                f"connect with penstock.connect(partitions={self.partitions}), or use a new checkpoint"
            )
        for name, wanted in split.items():
            there = tuple(tuple(map(str, a.keys)) for r in self.routes[name] for a in r.axes)
            if partitions > 1 and not set(wanted) <= set(there):
                raise _another(f"splits of {name}", _shown(there), _shown(wanted))


def _another(what: str, then: str, now: str) -> PipelineError:
    return PipelineError(
        f"the checkpoint's pipeline has the {what} {then}, not {now}; they are fixed when a pipeline first "
        "starts: leave them as they were, or use a new checkpoint"
    )


def _shown(split: Split) -> str:
    return " and ".join(f"({', '.join(keys)})" for keys in split) or "none"
