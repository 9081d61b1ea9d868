"""Outer joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import antijoin, project, select, union
from penstock.expression import Call, Column, Expression, Literal
from penstock.plan.distribution import UNKNOWN_KEY, Distribution, Spread, SpreadError
from penstock.plan.estimates import Estimated, SampleError, Sampling, beside
from penstock.plan.facts import reads
from penstock.plan.logical.join import AnyJoin
from penstock.plan.logical.operator import Binary, Logical, Needed, grows_if
from penstock.plan.logical.select import conjunction_text

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

_IDS = {"left": "#left", "right": "#right"}
"""Columns that number the rows of the sides."""
_OTHER = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class OuterJoin(Binary, AnyJoin):
    """``left``, ``right`` or ``full`` outer join; columns of the side without a match are NULL."""

    kind: str
    conjuncts: tuple[Expression, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.left.schema, *self.right.schema])

    def describe(self) -> str:
        return f"{self.kind.capitalize()} outer join {conjunction_text(self.conjuncts)}"

    @property
    def pattern(self) -> Pattern:
        """A row without a match leaves when one arrives, unless the other side is static."""
        sides = {"left": (self.left, self.right), "right": (self.right, self.left)}
        if self.kind == "full":
            return grows_if(self.is_static)
        kept, other = sides[self.kind]
        return grows_if(kept.only_grows and other.is_static)

    @property
    def is_momentary(self) -> bool:
        kept = {"left": (self.left,), "right": (self.right,), "full": self.inputs}[self.kind]
        return all(side.is_momentary for side in kept)

    @property
    def passed_on(self) -> tuple[Logical, ...]:
        """The sides whose rows are all in the result; a subquery in an expression is the other."""
        return {"left": (self.left,), "right": (self.right,)}.get(self.kind, self.inputs)

    @property
    def lacks_time(self) -> bool:
        return any(side.lacks_time for side in self.passed_on)

    @property
    def unfixed(self) -> str:
        return next((side.unfixed for side in self.inputs if side.unfixed), "outer joins")

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """Sampled rows with their matches; of a side that may be missing, a sample lacks some matches."""
        sides = {"left": (below[1],), "right": (below[0],)}.get(self.kind, tuple(below))
        if any(side.weighted for side in sides):
            raise SampleError("what an outer join has no match for", "write an inner join")
        rows = beside(below, self)
        conjuncts = tuple(rows.over(c, sampling, "ON") for c in self.conjuncts)
        left, right = (side.node for side in below)
        return replace(rows, node=replace(self, left=left, right=right, conjuncts=conjuncts))

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """A row without a match is found where all rows of the other side that could match it are."""
        left, right = below
        if right.everywhere and self.kind == "left":
            return left
        if left.everywhere and self.kind == "right":
            return right
        if left.everywhere or right.everywhere:
            raise SpreadError(
                f"no single partition knows which rows of the {self.kind} outer join have no match"
            )
        self.aligned(below, "no key is common to both sides of the outer join")
        # The other side's key is NULL in rows without a match, so it does not determine where they are.
        return {"left": left, "right": right, "full": UNKNOWN_KEY}[self.kind]

    def build(self, context: Builder, needed: Needed) -> Node:
        """The pairs, and the rows of the preserved sides without a pair, with NULLs for the other side."""
        wanted = {*needed, *reads(self.conjuncts)}
        sides = dict(zip(_IDS, (context.build(i, wanted) for i in self.inputs), strict=True))
        kept = ["left", "right"] if self.kind == "full" else [self.kind]
        passing = [k for k in kept if context.looks_up(sides[k], sides[_OTHER[k]])]
        alone = [k for k in kept if k not in passing]
        for k in alone:
            sides[k] = context.identified(sides[k], _IDS[k])
        shown = pa.schema([f for f in self.schema if f.name in needed])
        output = (*shown.names, *(_IDS[k] for k in alone))
        joined = (list(sides.values()), self.inputs, self.conjuncts, output)
        if passing:
            pairs = context.looked_up(*joined, "outer")
        else:
            pairs = context.changing(context.joined(*joined))
        rest = [antijoin.Antijoin(sides[k], _matches(pairs, _IDS[k], bool(passing)), _IDS[k]) for k in alone]
        parts = tuple(_padded(part, shown) for part in (pairs, *rest))
        return union.Union(parts) if rest else parts[0]


def _matches(pairs: Node, id: str, some_alone: bool) -> Node:
    """The rows that are pairs, if there are others among them."""
    if not some_alone:
        return pairs
    return select.Select(pairs, (Call("isnotnull", (Column(id, pa.int64()),), pa.bool_()),))


def _padded(node: Node, schema: pa.Schema) -> Node:
    """The columns of a schema, NULL where the node has none."""
    have = set(node.schema.names)
    columns = [(f.name, Column(f.name, f.type) if f.name in have else Literal(None, f.type)) for f in schema]
    return project.Project(node, tuple(columns))
