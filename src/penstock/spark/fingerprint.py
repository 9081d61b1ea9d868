"""What a checkpoint must agree with: the stage's number, its partitions, its operators and inputs.

A query that differs only in what its state does not depend on goes on from the same checkpoint: the names of
its result's columns, and which algorithm orders filters and probes. A digest decides; beside it are the
lines that ``explain`` would show, so that a refusal can say what is another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from penstock.catalog import RelationDef, StreamDef
from penstock.engine.operator import Node
from penstock.engine.operators.project import Project
from penstock.errors import CatalogError
from penstock.plan.explain import explain_stage
from penstock.plan.physical import PlannedStage, SourceInput

_FREE = frozenset({"filters"})
"""Fields of operators that may be others after a restart."""
_SHOWN = 2
"""Lines that a refusal shows of each plan: one change in a query changes few."""


@dataclass(frozen=True)
class Fingerprint:
    """Of a stage. ``plan`` is a digest; the rest, for people, is what it was made of.

    ``streams`` has each stream that is read with its name in the query and its declaration.
    """

    stage: int
    partitions: int
    plan: str
    streams: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    lines: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def from_json(found: dict[str, Any]) -> Fingerprint:
        """As it was before JSON made lists of tuples."""
        streams = tuple((alias, name, told) for alias, name, told in found.get("streams", ()))
        return Fingerprint(**{**found, "streams": streams, "lines": tuple(found.get("lines", ()))})

    def check(self, written: Fingerprint) -> None:
        """Refuse a checkpoint that another stage has written."""
        if written.partitions != self.partitions:
            raise CatalogError(
                f"the checkpoint was written with {written.partitions} partitions and this query has "
                f"{self.partitions}; connect with penstock.connect(partitions={written.partitions}), or use "
                "a new checkpoint"
            )
        if written != self:
            raise CatalogError(
                f"the checkpoint was written by another query{self._change(written)}; start the query that "
                "wrote it, or use a new checkpoint"
            )

    def _change(self, written: Fingerprint) -> str:
        """What is another, as far as it can be told."""
        then, now = written.streams, self.streams
        if [s[1:] for s in then] == [s[1:] for s in now] and then != now:
            old, new = next((t, n) for t, n in zip(then, now, strict=True) if t != n)
            return f": it calls stream {old[1]} {old[0]!r} where this one calls it {new[0]!r}"
        declared = {name: told for _, name, told in then}
        for _, name, told in now:
            if declared.get(name, told) != told:
                return f" or over other streams: stream {name} had {declared[name]}, and now has {told}"
        only_then, only_now = _without(written.lines, self.lines), _without(self.lines, written.lines)
        if not only_then and not only_now:
            own = f"this is stage {self.stage}, plan {self.plan}"
            return f" (stage {written.stage}, plan {written.plan}; {own})"
        return f": it has {_quoted(only_then)}, and this one {_quoted(only_now)}"


def check_all(query: Sequence[Fingerprint], written: Sequence[Fingerprint]) -> None:
    """Refuse a checkpoint of other stages than the query's."""
    for own, other in zip(query, written, strict=False):
        own.check(other)
    if len(query) != len(written):
        raise CatalogError(
            f"the checkpoint was written by another query: it has {len(written)} stages, and this one "
            f"{len(query)}; start the query that wrote it, or use a new checkpoint"
        )


def _without(lines: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
    return [line for line in lines if line not in others]


def _quoted(lines: list[str]) -> str:
    return " and ".join(f"'{line}'" for line in lines[:_SHOWN]) if lines else "none of that"


def fingerprint(planned: PlannedStage, number: int) -> Fingerprint:
    """That of a planned stage."""
    stage = planned.stage
    parts = [_unnamed(stage.root), stage.inputs, stage.waits, [_input(i) for i in planned.inputs]]
    digest = hashlib.sha256("\n".join(map(_text, parts)).encode()).hexdigest()[:16]
    read = [i for i in planned.inputs if isinstance(i, SourceInput)]
    streams = tuple((i.alias, i.stream.name, _declared(i.stream)) for i in read)
    return Fingerprint(number, planned.partitions, digest, streams, tuple(explain_stage(planned)))


def _declared(stream: StreamDef | RelationDef) -> str:
    """What of a stream's declaration its rows' order and time depend on, in DDL's words."""
    time = f"TIMESTAMP BY {stream.timestamp}"
    if stream.time.kind == "integer":
        time += f" IN {stream.time.unit.upper()}"
    ticks = {"SKEW": stream.skew, "IDLE AFTER": stream.idle_after}
    rest = [f"{what} {value} {stream.time.unit.upper()}" for what, value in ticks.items() if value]
    return " ".join([time, *rest])


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
    stream = source.stream
    return own, stream.name, stream.time, stream.timestamp, stream.heartbeat


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
