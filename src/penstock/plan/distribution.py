"""Where a relation's rows are when the streams below it are spread, and whether the answer is still right.

Streams are spread in one dimension: the rows of some go to the coordinate that their key hashes to, or that
the row itself hashes to; the others are everywhere. A dimension is right if the results of all coordinates,
taken together as a bag, are the result of the query. From the leaves up a relation is then either
*everywhere* (each coordinate has all of it) or *split* (each row is at one coordinate). Of a split one it may
be known which columns determine the coordinate: ``keys``, one set of interchangeable expressions per column
of the key. Each operator derives where its relation is from where its inputs are (``Logical.spread``).

A dimension that is right stays right inside a coordinate of another one, whatever rows there are: that is why
dimensions can be checked one by one and then multiplied to a cube.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from penstock.expression import Column, Expression
from penstock.plan.facts import Named

if TYPE_CHECKING:
    from penstock.plan.logical.operator import Logical

SplitKeys = tuple[frozenset[Expression], ...]
"""Per column of a key, the expressions that have its value."""
Key = tuple[Expression, ...]


class SpreadError(Exception):
    """A dimension would change the result of a plan; the message is the reason."""


@dataclass(frozen=True)
class Dimension:
    """How streams are spread in one dimension: by place number, the key, or None for the row itself.

    Streams that it does not name are everywhere. ``heavy``: per stream, values of the key whose rows are
    spread by row in that stream and sent everywhere in the others. ``by_source``: rows with equal keys come
    from one partition of the source, whose number is their coordinate. ``slice``: of a dimension of time, the
    ticks of a slice; ``ages``: per stream that it slices, how much older rows may be that its rows join;
    ``at_once``: the slices that a batch has rows of.
    """

    keys: tuple[tuple[int, Key | None], ...]
    heavy: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    by_source: bool = False
    slice: int | None = None
    ages: tuple[tuple[int, int], ...] = ()
    at_once: float = inf

    @staticmethod
    def of(keys: dict[int, Key | None]) -> Dimension:
        """The dimension with its streams in order."""
        return Dimension(tuple(sorted(keys.items())))

    @cached_property
    def streams(self) -> frozenset[int]:
        return frozenset(number for number, _ in (*self.keys, *self.ages))


@dataclass(frozen=True)
class Spread:
    """Everywhere, or split; ``keys`` is None where no column determines the coordinate.

    ``sliced``: by time, so that a row is at several coordinates, of which one is that of its own timestamp.
    """

    everywhere: bool = False
    keys: SplitKeys | None = None
    sliced: bool = False

    def renamed(self, shown: Named) -> Spread:
        """In terms of a projection's columns; ``keys`` is None if it drops a column of the key."""
        if self.keys is None:
            return self
        keys = [frozenset(Column(name, e.type) for name, e in shown if e in h) for h in self.keys]
        return Spread(keys=tuple(keys) if all(keys) else None)


EVERYWHERE = Spread(everywhere=True)
SLICED = Spread(sliced=True)
UNKNOWN_KEY = Spread()


def split_by(key: Key) -> Spread:
    """Split by the values of a key."""
    return Spread(keys=tuple(frozenset([e]) for e in key))


@dataclass(frozen=True)
class TwoPhases:
    """How two stages share an operator: what each does over its input.

    ``meets``: columns of the first stage's rows; those that are equal in them must meet in the second.
    """

    first: Callable[[Logical], Logical]
    second: Callable[[Logical], Logical]
    meets: tuple[str, ...]


@dataclass
class Distribution:
    """Finds where relations are under a dimension.

    ``places``: the streams under row windows of which each coordinate must know all rows' places, since the
    window is of the whole stream and the coordinate has only a part of it; with the columns needed to place
    a row. ``exchanged``: where the rows of an earlier stage are.
    """

    dimension: Dimension = Dimension(())
    exchanged: Spread = UNKNOWN_KEY
    places: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def need_places(self, number: int, columns: Iterable[str] = ()) -> None:
        """A stream's rows must be known everywhere by these columns, and those that others need."""
        self.places[number] = tuple(sorted({*self.places.get(number, ()), *columns}))

    @cached_property
    def _keys(self) -> dict[int, Key | None]:
        return dict(self.dimension.keys)

    def whole(self, node: Logical) -> Spread:
        """Where a query's body is: split, and right also for rows of heavy keys, which are spread by row."""
        spread = self.of(node)
        for number, _ in self.dimension.heavy:
            by_row = Distribution(Dimension.of({number: None}), places=self.places)
            spread = by_row.of(node)
        if spread.everywhere:
            raise SpreadError("every partition would have the whole result")
        return spread

    def of(self, node: Logical) -> Spread:
        """Where a node's relation is; raises ``SpreadError``."""
        below = [self.of(i) for i in node.inputs]
        if below and all(s.everywhere for s in below):
            return EVERYWHERE
        if any(s.sliced for s in below) and not node.takes_slices:
            raise SpreadError("only a join with windows between its streams can be spread by time")
        return node.spread(below, self)

    def leaf(self, number: int) -> Spread:
        if number in dict(self.dimension.ages):
            return SLICED
        if number not in self._keys:
            return EVERYWHERE
        key = self._keys[number]
        return UNKNOWN_KEY if key is None else split_by(key)
