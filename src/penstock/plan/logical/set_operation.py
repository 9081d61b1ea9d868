"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import duplicate_eliminate, except_, intersect, union
from penstock.expression import Call, Column, Literal
from penstock.plan.distribution import Distribution, SplitKeys, Spread, SpreadError
from penstock.plan.estimates import CERTAIN, CLUSTER, WEIGHT, Estimated, SampleError, Sampling
from penstock.plan.facts import Origin, Origins
from penstock.plan.logical.operator import Binary, Logical, Needed, grows_if
from penstock.plan.logical.project import Project, renamed

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder


@dataclass(frozen=True)
class SetOperation(Binary):
    """``union``, ``except`` or ``intersect`` of two relations, column by column; as bags if ``all``.

    Both inputs have the same column types; the names are the left one's.
    """

    kind: str
    all: bool

    def describe(self) -> str:
        return self.kind.capitalize() + (" all" if self.all else "")

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, left=renamed(self.left, names))

    @property
    def pattern(self) -> Pattern:
        """A row in the result of EXCEPT leaves when an equal one arrives on the right."""
        if self.kind == "union" and self.all and self.left.pattern is self.right.pattern:
            return self.left.pattern
        right = self.right.is_static if self.kind == "except" else self.right.only_grows
        return grows_if(self.left.only_grows and right)

    @property
    def is_momentary(self) -> bool:
        left, right = self.left.is_momentary, self.right.is_momentary
        return {"union": left and right, "except": left, "intersect": left or right}[self.kind]

    @property
    def longest_life(self) -> int | None:
        lives = [side.longest_life for side in self.inputs]
        every = [n for n in lives if n is not None]
        return max(every) if self.kind == "union" and self.all and len(every) == len(lives) else None

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """UNION ALL: each row keeps its weight; rows of a side that is not sampled are certain."""
        if self.kind != "union" or not self.all:
            hint = "write UNION ALL, or use MAXIMIZE RESULTS"
            raise SampleError(self.kind.upper() + (" ALL" if self.all else ""), hint)
        if any(side.estimates for side in below):
            raise SampleError("UNION ALL of estimates", "select them in queries of their own")
        left, right = (_weighted(side, number) for number, side in enumerate(below))
        confidence = min(side.confidence for side in below if side.weighted)
        node, joins = replace(self, left=left, right=right), tuple(j for side in below for j in side.joins)
        return Estimated(node, below[0].names, True, {}, (WEIGHT, CLUSTER), confidence, joins)

    @property
    def origins(self) -> Origins:
        return self.left.origins

    def compared(self) -> Iterator[tuple[Origin | None, Origin | None]]:
        left, right = self.left.origins, self.right.origins
        for a, b in zip(self.left.schema.names, self.right.schema.names, strict=True):
            yield left.get(a), right.get(b)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        left, right = below
        if not left.everywhere and not right.everywhere:
            keys = self._by_position(left, right)
            if keys is None and not (self.kind == "union" and self.all):
                raise SpreadError(f"equal rows of the sides of {self.kind.upper()} are in several partitions")
            return Spread(keys=keys)
        split = right if left.everywhere else left
        # Rows of the side that is everywhere count where the equal rows of the other side are.
        if split.keys is None or self.kind == "union" or (self.kind == "except" and left.everywhere):
            raise SpreadError(f"one side of {self.kind.upper()} is in every partition")
        return left if right.everywhere else Spread(keys=self._as_left(split.keys))

    def _by_position(self, left: Spread, right: Spread) -> SplitKeys | None:
        """The columns of the left side that both sides' rows are split by, position by position."""
        if left.keys is None or right.keys is None or len(left.keys) != len(right.keys):
            return None
        keys = [a & b for a, b in zip(left.keys, self._as_left(right.keys) or (), strict=False)]
        return tuple(keys) if len(keys) == len(left.keys) and all(keys) else None

    def _as_left(self, keys: SplitKeys) -> SplitKeys | None:
        """What the right side is split by, in terms of the left side's columns."""
        pairs = zip(self.right.schema, self.left.schema, strict=True)
        own = {Column(theirs.name, theirs.type): Column(f.name, f.type) for theirs, f in pairs}
        found = [frozenset(own[e] for e in h if isinstance(e, Column) and e in own) for h in keys]
        return tuple(found) if all(found) else None

    def build(self, context: Builder, needed: Needed) -> Node:
        left, right = (context.exact(side) for side in self.inputs)
        changing = (context.changing(left), context.changing(right))
        match self.kind:
            case "except":
                return except_.Except(changing, self.all)
            case "intersect":
                return intersect.Intersect(changing, self.all)
        both = union.Union((left, right) if left.pattern is right.pattern else changing)
        if self.all:
            return both
        return duplicate_eliminate.DuplicateEliminate((context.changing(both),))


def _weighted(side: Estimated, number: int) -> Logical:
    """A side with weights and clusters behind its columns; clusters of two sides have different numbers."""
    weight, cluster = (WEIGHT, CLUSTER) if side.weighted else CERTAIN
    if side.weighted:
        cluster = Call("^", (cluster, Literal(number << 62, pa.int64())), pa.int64())
    own = [(name, Column(name, side.node.schema.field(name).type)) for name in side.names]
    return Project(side.node, (*own, (WEIGHT.name, weight), (CLUSTER.name, cluster)))
