"""i-stream: what enters a relation, ISTREAM(τ) = R(τ) − R(τ−1) as bags.

Over changes, equal tuples that enter and leave at one instant cancel, which is known once the instant is
complete. Tuples of known ends do not wait: a tuple's timestamp is fixed by its parts. It is emitted at once,
unless an equal one leaves at the same instant; a synopsis holds the ends of the emitted tuples. If the output
holds the timestamps of all its parts (``distinct_lives``), equal tuples have equal lives, this cannot happen,
and no synopsis is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engine.element import Chunk, Pattern
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Operator, StartContext, ToStream
from penstock.engine.synopses.leaving import Leaving


@dataclass(frozen=True)
class IStream(ToStream):
    """Insert stream."""

    distinct_lives: bool = False

    name = "i-stream"

    def describe(self) -> str:
        if self.input.pattern is Pattern.APPEND or self.distinct_lives:
            return "at once"
        return "at once, less what leaves at that instant" if self._known_ends() else "net per instant"

    def _known_ends(self) -> bool:
        return self.input.pattern is Pattern.EXPIRING

    @property
    def waits(self) -> bool:
        """Over changes an instant must be complete."""
        return self.input.pattern is Pattern.CHANGING

    @property
    def depends_on_past(self) -> bool:
        """Not if each insertion is a row that arrived at that instant."""
        return self.input.pattern is not Pattern.APPEND

    def start(self, context: StartContext) -> Operator:
        """The simplest operator for the input's pattern."""
        if self.input.pattern is Pattern.APPEND or self.distinct_lives:
            return _PassOn()
        return _KnownEnds() if self._known_ends() else _Net()


class _PassOn(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        # Without the corrections of ends.
        return replace(inputs[0].where(inputs[0].sign > 0), end=None)


class _Net(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        left = settled(inputs[0], clock)
        return left.where(left.sign > 0)


class _KnownEnds(Operator):
    saved = ("_leaving",)

    def __init__(self) -> None:
        self._leaving = Leaving()

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = inputs[0].in_order()
        if len(chunk):
            chunk = chunk.where(~self._leaving.cancel(chunk))
        self._leaving.forget(clock.now)
        return replace(chunk, end=None)

    def horizon(self) -> int:
        return self._leaving.oldest()

    def rows(self) -> int:
        return len(self._leaving)

    def bytes(self) -> int:
        return self._leaving.nbytes()
