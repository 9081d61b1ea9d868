"""i-stream: what enters a relation, ISTREAM(τ) = R(τ) − R(τ−1) as bags.

Equal tuples that enter and leave at one instant cancel, which is known once the instant is complete. Where
ends are known on arrival, the operator keeps the ends of the tuples that it has returned, by fingerprints,
and holds new tuples until their instants are complete: what is below it need not wait. Tuples of one stream
that arrive in order are not held: what leaves at their instant is known when they come.

Nothing is held or kept if no two tuples can cancel (``distinct``): equal tuples have equal lives, as when the
output has the timestamps of all parts, or the query asks for all that enter (ISTREAM ALL).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.engine.element import FOREVER, Chunk, Int64s, Pattern
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Node, Operator, StartContext, ToStream, nodes
from penstock.engine.synopses import pieces
from penstock.engine.synopses.leaving import Leaving
from penstock.measurement import Property, Reading


@dataclass(frozen=True)
class IStream(ToStream):
    """Insert stream.

    ``distinct``: no two of its tuples can cancel. ``in_order``: they arrive in the order of time. ``hint``:
    what to write for them to be shown at once.
    """

    distinct: bool = False
    in_order: bool = False
    hint: str = field(default="", compare=False, repr=False)

    name = "i-stream"

    def describe(self) -> str:
        if self.at_once:
            return "at once" if self._passes else "at once, less what leaves at that instant"
        return "net per instant"

    def details(self) -> Iterator[str]:
        if self.hint and not self.at_once:
            yield f"equal results may cancel, so they wait; to be shown at once, {self.hint}"

    @property
    def _passes(self) -> bool:
        return self.input.pattern is Pattern.APPEND or self.distinct

    @property
    def at_once(self) -> bool:
        """Whether tuples are returned in the step in which they are found."""
        return self._passes or (self.in_order and self.input.pattern is Pattern.EXPIRING)

    @property
    def waits(self) -> bool:
        """Over changes it needs them in timestamp order."""
        return self.input.pattern is Pattern.CHANGING and not self.distinct

    @property
    def depends_on_past(self) -> bool:
        """Not if each insertion is a row that arrived at that instant."""
        return self.input.pattern is not Pattern.APPEND

    def start(self, context: StartContext) -> Operator:
        """The simplest operator for the input's pattern."""
        if self._passes:
            return _PassOn()
        return _Net() if self.input.pattern is Pattern.CHANGING else _KnownEnds(self)


def holds_results(root: Node) -> bool:
    """Whether an i-stream in a plan holds results until their instants are complete."""
    return any(isinstance(node, IStream) and not node.at_once for node in nodes(root))


class _PassOn(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        # Without the corrections of ends.
        return replace(inputs[0].where(inputs[0].sign > 0), end=None, rid=None)


class _Net(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        left = settled(inputs[0], clock)
        return left.where(left.sign > 0)


class _KnownEnds(Operator):
    """Tuples wait in pieces for their instants; of those returned, ``_leaving`` has the ends."""

    saved = ("_leaving", "_waiting")
    format = 2

    def __init__(self, node: IStream) -> None:
        self._schema, self._in_order = node.schema, node.in_order
        self._leaving = Leaving()
        self._waiting: list[Chunk] = []

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = replace(inputs[0], rid=None, rows=None)
        if not self._in_order:
            chunk = self._complete(chunk, clock.now)
        chunk = chunk.in_order()
        if len(chunk):
            chunk = chunk.where(~self._leaving.cancel(chunk))
        self._leaving.forget(clock.now)
        return replace(chunk, end=None)

    def _complete(self, new: Chunk, now: int) -> Chunk:
        """Of the new tuples and those that wait, those of complete instants; the others go on waiting."""
        due = [c for c in self._waiting if c.ts.min() < now]
        self._waiting = [c for c in self._waiting if c.ts.min() >= now]
        every = Chunk.concat([*due, new], self._schema)
        pieces.put(self._waiting, every.where(every.ts >= now), self._schema)
        return every.where(every.ts < now)

    def pending(self) -> Sequence[Int64s]:
        return [c.ts for c in self._waiting]

    def measure(self) -> Iterator[Reading]:
        """The results that wait."""
        if not self._in_order:
            yield Reading(Property.HELD_RESULTS, sum(map(len, self._waiting)))

    def horizon(self) -> int:
        return min(self._leaving.oldest(), *(int(c.ts.min()) for c in self._waiting), int(FOREVER))

    def rows(self) -> int:
        return len(self._leaving) + sum(map(len, self._waiting))

    def bytes(self) -> int:
        return self._leaving.nbytes() + pieces.nbytes(self._waiting)
