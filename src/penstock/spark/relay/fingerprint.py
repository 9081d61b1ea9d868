"""What a checkpoint must agree with: the stage's number, its partitions, its operators and inputs.

A query may continue from a checkpoint if it differs only in what the state does not depend on: the names of
its result's columns, and the algorithm that orders filters and probes. A digest decides; beside it are the
lines that ``explain`` would show, so that a refusal can say what differs. The driver computes
it (:mod:`penstock.spark.driver.checkpoint`); tasks only compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import CatalogError
from penstock.spark.settings import SHOWN_PLAN_LINES


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of a stage. ``plan`` is a digest; the rest is for error messages.

    ``streams``: each stream that is read, with its name in the query and its declaration.
    """

    stage: int
    partitions: int
    plan: str
    streams: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    lines: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def from_json(found: dict[str, Any]) -> Fingerprint:
        """The inverse of ``asdict`` and JSON, which turns tuples into lists."""
        streams = tuple((alias, name, clauses) for alias, name, clauses in found.get("streams", ()))
        return Fingerprint(**{**found, "streams": streams, "lines": tuple(found.get("lines", ()))})

    def check(self, written: Fingerprint) -> None:
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
        """What differs, as far as it is known."""
        then, now = written.streams, self.streams
        if [s[1:] for s in then] == [s[1:] for s in now] and then != now:
            old, new = next((t, n) for t, n in zip(then, now, strict=True) if t != n)
            return f": it calls stream {old[1]} {old[0]!r} where this one calls it {new[0]!r}"
        declared = {name: clauses for _, name, clauses in then}
        for _, name, clauses in now:
            if declared.get(name, clauses) != clauses:
                return f" or over other streams: stream {name} had {declared[name]}, and now has {clauses}"
        only_then, only_now = _without(written.lines, self.lines), _without(self.lines, written.lines)
        if not only_then and not only_now:
            own = f"this is stage {self.stage + 1}, plan {self.plan}"
            return f" (stage {written.stage + 1}, plan {written.plan}; {own})"
        return f": it has {_quoted(only_then)}, and this one {_quoted(only_now)}"


def check_all(query: Sequence[Fingerprint], written: Sequence[Fingerprint]) -> None:
    """Reject a checkpoint of other stages than the query's."""
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
    return " and ".join(f"'{line}'" for line in lines[:SHOWN_PLAN_LINES]) if lines else "none of that"
