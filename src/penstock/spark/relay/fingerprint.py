"""What a checkpoint must agree with: the stage's number, its partitions, its operators and inputs.

A query may continue from a checkpoint if it differs only in what the state does not depend on: the names of
its result's columns, and the algorithm that orders filters and probes. A digest decides; beside it are the
lines that ``explain`` would show, so that a refusal can say what differs. The driver computes
it (:mod:`penstock.spark.driver.checkpoint`); tasks only compare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import CatalogError
from penstock.spark.settings import SHOWN_PLAN_LINES


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of a stage. ``plan`` is a digest; the rest is for error messages.

    ``streams``: each stream that is read, with its name in the query and its declaration. ``types``: the
    columns that the stage reads. ``details``: other properties of operators and inputs.
    """

    stage: int
    partitions: int
    plan: str
    streams: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    lines: tuple[str, ...] = field(default=(), compare=False)
    types: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    details: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @staticmethod
    def from_json(found: dict[str, Any]) -> Fingerprint:
        """The inverse of ``asdict`` and JSON, which turns tuples into lists."""
        streams = tuple((alias, name, clauses) for alias, name, clauses in found.get("streams", ()))
        pairs = {name: tuple(map(tuple, found.get(name, ()))) for name in ("types", "details")}
        return Fingerprint(**{**found, **pairs, "streams": streams, "lines": tuple(found.get("lines", ()))})

    def brief(self) -> Fingerprint:
        """Without the details, for the state of every partition."""
        return replace(self, details=())

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
        declared = {name: clauses for _, name, clauses in written.streams}
        for _, name, clauses in self.streams:
            if declared.get(name, clauses) != clauses:
                return f" or over other streams: stream {name} had {declared[name]}, and now has {clauses}"
        now = self._called_as(written)
        if other := _changed(written.types, now.types):
            return f": column {other}"
        only_then, only_now = _without(written.lines, now.lines), _without(now.lines, written.lines)
        if only_then or only_now:
            return f": it has {_quoted(only_then)}, and this one {_quoted(only_now)}"
        for (old, name, _), (new, _, _) in zip(written.streams, self.streams, strict=False):
            if old != new:
                return f": it calls stream {name} {old!r} where this one calls it {new!r}"
        if other := _changed(written.details, now.details):
            return f": {other}"
        own = f"this is stage {self.stage + 1}, plan {self.plan}"
        return f" (stage {written.stage + 1}, plan {written.plan}; {own})"

    def _called_as(self, written: Fingerprint) -> Fingerprint:
        """With the other's names of streams, so that what differs beside them is seen."""
        if [s[1:] for s in written.streams] != [s[1:] for s in self.streams]:
            return self
        names = {new: old for (old, *_), (new, *_) in zip(written.streams, self.streams, strict=True)}
        used = set(re.findall(r"\w+", " ".join(self.lines)))
        if not names or used & set(names.values()).difference(names):
            return self  # that name stands for something else here, as in a self-join
        called = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")

        def rename(text: str) -> str:
            return called.sub(lambda found: names[found[1]], text)

        types, details = (tuple((rename(n), v) for n, v in own) for own in (self.types, self.details))
        return replace(self, lines=tuple(map(rename, self.lines)), types=types, details=details)


def _changed(then: tuple[tuple[str, str], ...], now: tuple[tuple[str, str], ...]) -> str:
    """The first property that has another value."""
    before = dict(then)
    names = (f"{n} was {before[n]}, and now is {v}" for n, v in now if before.get(n, v) != v)
    return next(names, "")


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
