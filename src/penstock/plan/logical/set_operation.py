"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.element import Pattern
from penstock.engine.operators import duplicate_eliminate, except_, intersect, union
from penstock.expression import Call, Column, Literal
from penstock.plan.distribution import Distribution, SplitKeys, Spread, SpreadError
from penstock.plan.estimates import CERTAIN, CLUSTER, WEIGHT, Estimated, SampleError, Sampling
from penstock.plan.facts import Origin, Origins
from penstock.plan.logical.operator import Logical, Needed, grows_if
from penstock.plan.logical.project import Project, renamed

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.meaning import Meant, Reader


@dataclass(frozen=True)
class SetOperation(Logical):
    """``union``, ``except`` or ``intersect`` of relations, column by column; as bags if ``all``.

    ``union`` has two or more inputs, the others two. All have the same column types; the names are the first
    one's.
    """

    parts: tuple[Logical, ...]
    kind: str
    all: bool

    @property
    def inputs(self) -> tuple[Logical, ...]:
        return self.parts

    def with_inputs(self, *inputs: Logical) -> Logical:
        return replace(self, parts=inputs)

    @property
    def schema(self) -> pa.Schema:
        return self.parts[0].schema

    def describe(self) -> str:
        return self.kind.capitalize() + (" all" if self.all else "")

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, parts=(renamed(self.parts[0], names), *self.parts[1:]))

    @cached_property
    def pattern(self) -> Pattern:
        """A row in the result of EXCEPT leaves when an equal one arrives on the right."""
        first, *others = self.parts
        if self.kind == "union" and self.all and all(p.pattern is first.pattern for p in others):
            return first.pattern
        grow = all(p.is_static if self.kind == "except" else p.only_grows for p in others)
        return grows_if(first.only_grows and grow)

    @property
    def unfixed(self) -> str:
        """UNION ALL of windows whose rows leave in the same way passes rows on."""
        if self.kind != "union" or not self.all:
            return self.kind.upper() + (" ALL" if self.all else "")
        mixed = "" if self.pattern is self.parts[0].pattern else "UNION ALL of bounded and unbounded windows"
        return next((part.unfixed for part in self.parts if part.unfixed), mixed)

    @property
    def is_momentary(self) -> bool:
        momentary = [part.is_momentary for part in self.parts]
        return {"union": all, "except": lambda m: m[0], "intersect": any}[self.kind](momentary)

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
        weighted = tuple(_weighted(side, number) for number, side in enumerate(below))
        confidence = min(side.confidence for side in below if side.weighted)
        node, joins = replace(self, parts=weighted), tuple(j for side in below for j in side.joins)
        return Estimated(node, below[0].names, True, {}, (WEIGHT, CLUSTER), confidence, joins)

    @property
    def holds_on(self) -> bool:
        """A row of a table that leaves it, or enters it on the right of EXCEPT, leaves the result."""
        return super().holds_on and not any(i.is_static for i in self.inputs)

    @property
    def origins(self) -> Origins:
        return self.parts[0].origins

    def compared(self) -> Iterator[tuple[Origin | None, Origin | None]]:
        first, *others = ([p.origins.get(name) for name in p.schema.names] for p in self.parts)
        for other in others:
            yield from zip(first, other, strict=True)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        if not any(part.everywhere for part in below):
            keys = self._by_position(below)
            if keys is None and not (self.kind == "union" and self.all):
                raise SpreadError(f"equal rows of the sides of {self.kind.upper()} are in several partitions")
            return Spread(keys=keys)
        if self.kind == "union":
            raise SpreadError("one side of UNION is in every partition")
        left, right = below
        split = right if left.everywhere else left
        # Rows of the side that is everywhere count where the equal rows of the other side are.
        if split.keys is None or (self.kind == "except" and left.everywhere):
            raise SpreadError(f"one side of {self.kind.upper()} is in every partition")
        return left if right.everywhere else Spread(keys=self._as_first(split.keys, self.parts[1]))

    def _by_position(self, below: Sequence[Spread]) -> SplitKeys | None:
        """The columns of the first input that all inputs' rows are split by, position by position."""
        keys = below[0].keys
        for part, spread in zip(self.parts[1:], below[1:], strict=True):
            theirs = None if spread.keys is None else self._as_first(spread.keys, part)
            if keys is None or theirs is None or len(keys) != len(theirs):
                return None
            keys = tuple(a & b for a, b in zip(keys, theirs, strict=True))
        return keys if keys is not None and all(keys) else None

    def _as_first(self, keys: SplitKeys, part: Logical) -> SplitKeys | None:
        """What an input is split by, in terms of the first input's columns."""
        pairs = zip(part.schema, self.schema, strict=True)
        own = {Column(theirs.name, theirs.type): Column(f.name, f.type) for theirs, f in pairs}
        found = [frozenset(own[e] for e in h if isinstance(e, Column) and e in own) for h in keys]
        return tuple(found) if all(found) else None

    def meant(self, reader: Reader, below: Sequence[Meant]) -> Meant:
        """A column is known by its place."""
        parts = [f"{reader.columns(p, m)} of {m.text}" for p, m in zip(self.parts, below, strict=True)]
        columns = {name: str(number) for number, name in enumerate(self.schema.names)}
        return reader.made_by(f"{self.kind} {self.all} of {parts}", columns)

    def build(self, context: Builder, needed: Needed) -> Node:
        built = tuple(context.exact(part) for part in self.parts)
        changing = tuple(map(context.changing, built))
        match self.kind, changing:
            case "except", (left, right):
                return except_.Except((left, right), self.all)
            case "intersect", (left, right):
                return intersect.Intersect((left, right), self.all)
        alike = all(part.pattern is built[0].pattern for part in built)
        every = union.Union(built if alike else changing)
        if self.all:
            return every
        return duplicate_eliminate.DuplicateEliminate((context.changing(every),))


def _weighted(side: Estimated, number: int) -> Logical:
    """A side with weights and clusters behind its columns; clusters of two sides have different numbers."""
    weight, cluster = (WEIGHT, CLUSTER) if side.weighted else CERTAIN
    if side.weighted:
        mark = (number * 0x5851F42D4C957F2D) % (1 << 63)
        cluster = Call("^", (cluster, Literal(mark, pa.int64())), pa.int64())
    own = [(name, Column(name, side.node.schema.field(name).type)) for name in side.names]
    return Project(side.node, (*own, (WEIGHT.name, weight), (CLUSTER.name, cluster)))
