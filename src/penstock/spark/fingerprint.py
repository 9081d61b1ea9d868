"""What a checkpoint must agree with: the stage's number, its partitions, its operators and inputs.

A query that differs only in what its state does not depend on goes on from the same checkpoint: the names of
its result's columns, and which algorithm orders filters and probes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from penstock.engine.operator import Node
from penstock.engine.operators.project import Project
from penstock.errors import CatalogError
from penstock.plan.physical import PlannedStage, SourceInput

_FREE = frozenset({"filters"})
"""Fields of operators that may be others after a restart."""


@dataclass(frozen=True)
class Fingerprint:
    """Of a stage. ``plan`` is a digest."""

    stage: int
    partitions: int
    plan: str

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
                "the checkpoint was written by another query or over streams declared differently (stage "
                f"{written.stage}, plan {written.plan}; this is stage {self.stage}, plan {self.plan}); start "
                "the query that wrote it, or use a new checkpoint"
            )


def fingerprint(planned: PlannedStage, number: int) -> Fingerprint:
    """That of a planned stage."""
    stage = planned.stage
    parts = [_unnamed(stage.root), stage.inputs, stage.waits, [_input(i) for i in planned.inputs]]
    digest = hashlib.sha256("\n".join(map(_text, parts)).encode()).hexdigest()[:16]
    return Fingerprint(number, planned.partitions, digest)


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
