"""Where a relation's rows are when the streams below it are spread, and whether that gives the right answer.

Streams are spread in one dimension: the rows of some go to the coordinate that their key hashes to, or that
the row itself hashes to; the others are everywhere. Right is what makes the bag of all coordinates' results
the result. From the leaves up a relation is then either *everywhere* (each coordinate has all of it) or
*split* (each row is at one coordinate), and of a split one it may be known which columns' values say where:
``held``, one set of interchangeable expressions for each column of the key.

A dimension that is right stays right inside a coordinate of another one, whatever rows there are: that is why
dimensions can be checked one by one and then multiplied to a cube.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.join_graph import join_graph
from penstock.plan.update_patterns import passes_on

Held = tuple[frozenset[Expression], ...]
Key = tuple[Expression, ...]


class Cannot(Exception):
    """A plan that a dimension does not fit, with the reason."""


@dataclass(frozen=True)
class Dimension:
    """How streams are spread in one dimension: by place number, the key, or None for the row itself.

    Streams that it does not name are everywhere. ``heavy``: streams with values of the key of which their
    rows are spread by row, and those of the others everywhere. ``by_source``: rows with equal keys come from
    one partition of the source, whose number says where they go.
    """

    keys: tuple[tuple[int, Key | None], ...]
    heavy: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    by_source: bool = False

    @staticmethod
    def of(keys: dict[int, Key | None]) -> Dimension:
        """In the order of the streams."""
        return Dimension(tuple(sorted(keys.items())))

    @property
    def streams(self) -> set[int]:
        """The streams that it splits."""
        return {number for number, _ in self.keys}


@dataclass(frozen=True)
class Spread:
    """Everywhere, or split; ``held`` is None where no column says by what."""

    everywhere: bool = False
    held: Held | None = None


EVERYWHERE = Spread(everywhere=True)
SOMEHOW = Spread()


def split_by(key: Key) -> Spread:
    """Split by the values of a key."""
    return Spread(held=tuple(frozenset([e]) for e in key))


@dataclass
class Distribution:
    """Finds where relations are under a dimension.

    ``places``: the streams under row windows of which each coordinate must know all rows' places, since the
    window is of the whole stream and the coordinate has only a part of it.
    """

    dimension: Dimension
    places: set[int] = field(default_factory=set)

    def whole(self, node: logical.Logical) -> Spread:
        """Where a query's body is: split, and right also for rows of heavy keys, which are spread by row."""
        spread = self.of(node)
        for number, _ in self.dimension.heavy:
            by_row = Distribution(Dimension.of({number: None}), self.places)
            spread = by_row.of(node)
        if spread.everywhere:
            raise Cannot("every partition would have the whole result")
        return spread

    def of(self, node: logical.Logical) -> Spread:
        """Where a node's relation is; raises ``Cannot``."""
        match node:
            case logical.StreamSource() | logical.RelationSource():
                return self._leaf(node.number)
            case logical.TableSource():
                return EVERYWHERE
            case logical.Join(parts, conjuncts):
                return _join([self.of(p) for p in parts], parts, conjuncts)
            case logical.OuterJoin():
                return _outer_join(self.of(node.left), self.of(node.right), node)
            case logical.SemiJoin():
                return _semi_join(self.of(node.left), self.of(node.right), node)
            case logical.SetOperation():
                return _set_operation(self.of(node.left), self.of(node.right), node)
        (below,) = logical.inputs(node)
        return self.above(node, self.of(below))

    def above(self, node: logical.Logical, below: Spread) -> Spread:
        """Where the relation of a node with one input is, from where its input is."""
        if below.everywhere:
            return EVERYWHERE
        match node:
            case logical.Window():
                self._window(node, below)
                return below
            case logical.Project(_, shown):
                return _renamed(below, shown)
            case logical.Aggregate(_, keys, _):
                grouped = _renamed(below, keys)
                if grouped.held is None:
                    raise Cannot("groups have rows in several partitions")
                return grouped
            case logical.Distinct() if below.held is None:
                raise Cannot("equal rows of DISTINCT are in several partitions")
            case logical.ToStream(_, kind) if below.held is None and not passes_on(node):
                raise Cannot(f"equal rows under {kind.upper()} may cancel and are in several partitions")
            case logical.Select() | logical.Distinct() | logical.ToStream():
                return below
            case logical.Single():
                raise Cannot("a scalar subquery's rows are counted in one place")
        raise Cannot(f"{type(node).__name__.lower()} is not spread")

    def _leaf(self, number: int) -> Spread:
        keys = dict(self.dimension.keys)
        if number not in keys:
            return EVERYWHERE
        key = keys[number]
        return SOMEHOW if key is None else split_by(key)

    def _window(self, window: logical.Window, below: Spread) -> None:
        """A row window whose partitions are in one place each needs nothing else."""
        if not window.spec.by_rows:
            return
        by = {Column(c, window.schema.field(c).type) for c in window.spec.partition_by}
        if below.held is not None and all(h & by for h in below.held):
            return
        source = logical.stream_of(window)
        if source is None:
            raise Cannot(f"{window.spec.text} of a derived stream needs the whole order of the stream")
        self.places.add(source.number)


def _renamed(below: Spread, shown: tuple[tuple[str, Expression], ...]) -> Spread:
    """Under the names that a projection gives; unknown where it hides a column of the key."""
    if below.held is None:
        return below
    held = [frozenset(Column(name, e.type) for name, e in shown if e in h) for h in below.held]
    return Spread(held=tuple(held) if all(held) else None)


Class = dict[int, Expression]
"""For inputs of a join by number: the expressions that the join makes equal."""


def _classes(parts: Sequence[logical.Logical], conjuncts: Sequence[Expression]) -> list[Class]:
    graph = join_graph([p.schema.names for p in parts], conjuncts)
    derived = [dict(d) for d in graph.derived]

    def expression(k: int, name: str) -> Expression:
        return derived[k].get(name) or Column(name, parts[k].schema.field(name).type)

    return [{k: expression(k, name) for k, name in members} for members in graph.classes]


def _aligned(spreads: Sequence[Spread], classes: Sequence[Class]) -> Held | None:
    """What rows that may join are all split by, where every split input is by equal keys; else None."""
    split = {k: s.held for k, s in enumerate(spreads) if not s.everywhere}
    if any(held is None for held in split.values()) or len({len(h or ()) for h in split.values()}) != 1:
        return None
    found: list[frozenset[Expression]] = []
    for place in range(len(next(iter(split.values())) or ())):
        alike = {k: held[place] for k, held in split.items() if held is not None}
        common = [c for c in classes if all(c.get(k) in h for k, h in alike.items())]
        if not common:
            return None
        found.append(frozenset().union(*alike.values(), *(c.values() for c in common)))
    return tuple(found)


def _join(
    spreads: Sequence[Spread], parts: Sequence[logical.Logical], conjuncts: Sequence[Expression]
) -> Spread:
    """One input split and the others everywhere, or all that are split by keys that the join makes equal."""
    split = [k for k, s in enumerate(spreads) if not s.everywhere]
    if not split:
        return EVERYWHERE
    classes = _classes(parts, conjuncts)
    if len(split) == 1:
        held, k = spreads[split[0]].held, split[0]
        return Spread(held=None if held is None else tuple(_equal_too(h, k, classes) for h in held))
    aligned = _aligned(spreads, classes)
    if aligned is None:
        raise Cannot("no key is common to all streams of the join")
    return Spread(held=aligned)


def _equal_too(held: frozenset[Expression], k: int, classes: Sequence[Class]) -> frozenset[Expression]:
    return held.union(*(c.values() for c in classes if c.get(k) in held))


def _outer_join(left: Spread, right: Spread, node: logical.OuterJoin) -> Spread:
    """Who has no match is told where all rows of the other side are that could be one."""
    if left.everywhere and right.everywhere:
        return EVERYWHERE
    if right.everywhere and node.kind == "left":
        return left
    if left.everywhere and node.kind == "right":
        return right
    if left.everywhere or right.everywhere:
        raise Cannot(f"rows of a {node.kind} outer join without a match are told by no single partition")
    if _aligned([left, right], _classes([node.left, node.right], node.conjuncts)) is None:
        raise Cannot("no key is common to both sides of the outer join")
    # The other side's key is NULL in rows without a match, so it does not say where they are.
    return {"left": left, "right": right, "full": SOMEHOW}[node.kind]


def _semi_join(left: Spread, right: Spread, node: logical.SemiJoin) -> Spread:
    if right.everywhere:
        return left
    if left.everywhere:
        raise Cannot("a match of a subquery's row is told by no single partition")
    if _aligned([left, right], _classes([node.left, node.right], node.conjuncts)) is None:
        raise Cannot("the subquery is not correlated by a key that both sides are spread by")
    return left


def _set_operation(left: Spread, right: Spread, node: logical.SetOperation) -> Spread:
    if left.everywhere and right.everywhere:
        return EVERYWHERE
    if not left.everywhere and not right.everywhere:
        held = _by_position(left, right, node)
        if held is None and not (node.kind == "union" and node.all):
            raise Cannot(f"equal rows of the sides of {node.kind.upper()} are in several partitions")
        return Spread(held=held)
    split = right if left.everywhere else left
    # Rows of the side that is everywhere count where the other side's rows that equal them are.
    if split.held is None or node.kind == "union" or (node.kind == "except" and left.everywhere):
        raise Cannot(f"one side of {node.kind.upper()} is in every partition")
    return left if right.everywhere else Spread(held=_positions_as_left(right.held or (), node))


def _by_position(left: Spread, right: Spread, node: logical.SetOperation) -> Held | None:
    """The columns of the left side that both sides' rows are split by, position by position."""
    if left.held is None or right.held is None or len(left.held) != len(right.held):
        return None
    there = _positions_as_left(right.held, node)
    held = [a & b for a, b in zip(left.held, there or (), strict=False)]
    return tuple(held) if len(held) == len(left.held) and all(held) else None


def _positions_as_left(held: Held, node: logical.SetOperation) -> Held | None:
    names = dict(zip(node.right.schema.names, node.left.schema, strict=True))
    own = {Column(n, node.right.schema.field(n).type): Column(f.name, f.type) for n, f in names.items()}
    found = [frozenset(own[e] for e in h if isinstance(e, Column) and e in own) for h in held]
    return tuple(found) if all(found) else None
