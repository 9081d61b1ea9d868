"""Joins: the base of all of them, and the inner join of any number of relations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.constraint import Use
from penstock.engine.element import Pattern
from penstock.engine.joins.join_constraints import JoinConstraints
from penstock.expression import Column, Expression
from penstock.plan.constraints import join_constraints, labels, lifting, place_columns, routed
from penstock.plan.distribution import Distribution, SplitKeys, Spread, SpreadError
from penstock.plan.estimates import Estimated, Sampling, beside
from penstock.plan.facts import NotNull, Origin, equality, not_null, origin, reads, with_equal
from penstock.plan.join_graph import join_graph
from penstock.plan.logical.operator import Logical, Needed, combined
from penstock.plan.logical.select import conjunction_text
from penstock.plan.logical.sources import sources

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder

EqualKeys = dict[int, Expression]
"""For inputs of a join by number: the expressions that the join makes equal."""


class AnyJoin(Logical):
    """A join; ``conjuncts`` are the predicates over rows of several inputs."""

    conjuncts: tuple[Expression, ...]

    @property
    def counts_columns(self) -> bool:
        return False

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        sides = [i.stamped() for i in self.inputs]
        return self.with_inputs(*(s for s, _ in sides)), tuple(c for _, found in sides for c in found)

    def compared(self) -> Iterator[tuple[Origin | None, Origin | None]]:
        known = {name: o for below in self.inputs for name, o in below.origins.items()}
        for left, right in filter(None, map(equality, self.conjuncts)):
            yield origin(left, known), origin(right, known)

    def equal_keys(self) -> list[EqualKeys]:
        """The classes of keys that the join makes equal."""
        graph = join_graph([i.schema.names for i in self.inputs], self.conjuncts)
        derived = [dict(d) for d in graph.derived]

        def expression(k: int, name: str) -> Expression:
            return derived[k].get(name) or Column(name, self.inputs[k].schema.field(name).type)

        return [{k: expression(k, name) for k, name in members} for members in graph.classes]

    def aligned(self, spreads: Sequence[Spread], otherwise: str) -> SplitKeys:
        """The keys by which rows that may join are split, if all split inputs are split by equal keys."""
        classes = self.equal_keys()
        split = {k: s.keys for k, s in enumerate(spreads) if not s.everywhere}
        if any(keys is None for keys in split.values()) or len({len(h or ()) for h in split.values()}) != 1:
            raise SpreadError(otherwise)
        found: list[frozenset[Expression]] = []
        for place in range(len(next(iter(split.values())) or ())):
            alike = {k: keys[place] for k, keys in split.items() if keys is not None}
            common = [c for c in classes if all(c.get(k) in h for k, h in alike.items())]
            if not common:
                raise SpreadError(otherwise)
            found.append(frozenset().union(*alike.values(), *(c.values() for c in common)))
        return tuple(found)


@dataclass(frozen=True)
class Join(AnyJoin):
    """Inner join of any number of relations; ``cross`` if the user asked for a cross product by name.

    ``use``: how it exploits constraints, as ``SET penstock.constraints`` has it.
    """

    parts: tuple[Logical, ...]
    conjuncts: tuple[Expression, ...] = ()
    cross: bool = False
    use: Use = Use()

    @property
    def inputs(self) -> tuple[Logical, ...]:
        return self.parts

    def with_inputs(self, *inputs: Logical) -> Logical:
        return replace(self, parts=inputs)

    def using(self, use: Use) -> Logical:
        return replace(self, use=use)

    @cached_property
    def constraints(self) -> JoinConstraints | None:
        """What its inputs obey that it may exploit."""
        if self.use.how == "off":
            return None
        return join_constraints(self.parts, labels(self.parts), self.conjuncts, self.use)

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([f for i in self.parts for f in i.schema])

    def describe(self) -> str:
        return " ".join(["Join", *["CROSS"] * self.cross, conjunction_text(self.conjuncts)]).strip()

    @property
    def pattern(self) -> Pattern:
        return combined(self.parts)

    @property
    def longest_life(self) -> int | None:
        return min((i.longest_life for i in self.parts if i.longest_life is not None), default=None)

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """Sampled rows joined with exact ones keep their weights."""
        rows = beside(below, self)
        conjuncts = tuple(rows.over(c, sampling, "a join") for c in self.conjuncts)
        parts = tuple(part.node for part in below)
        return replace(rows, node=replace(self, parts=parts, conjuncts=conjuncts))

    @property
    def lacks_time(self) -> bool:
        return all(i.lacks_time for i in self.parts)

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        """Rows that are there for one instant meet a table as it is at that instant."""
        parts = [i for i in self.parts if not (i.is_static and self.longest_life == 1)]
        known = with_equal(shown, self.conjuncts)
        certain = None if certain is None else {*certain, *not_null(self.conjuncts)}
        return all(i.determines_life(known, certain) for i in parts)

    @property
    def unfixed(self) -> str:
        return next((i.unfixed for i in self.parts if i.unfixed), "")

    @property
    def is_momentary(self) -> bool:
        return any(i.is_momentary for i in self.parts)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """One input split and the others everywhere, or several split by keys that the join makes equal."""
        if self.constraints is not None:
            for number, columns in self._counted(below, self.constraints).items():
                distribution.need_places(number, columns)
        split = [k for k, s in enumerate(below) if not s.everywhere]
        if len(split) > 1:
            return Spread(keys=self.aligned(below, "no key is common to all streams of the join"))
        (k,), classes = split, self.equal_keys()
        keys = below[k].keys
        if keys is None:
            return below[k]
        return Spread(keys=tuple(h.union(*(c.values() for c in classes if c.get(k) in h)) for h in keys))

    def _counted(self, below: Sequence[Spread], found: JoinConstraints) -> dict[int, tuple[str, ...]]:
        """The streams whose places every coordinate needs, since it has only a part of their rows."""
        everywhere = {leaf.number for part, s in zip(self.parts, below, strict=True) if s.everywhere
                      for leaf in sources(part)}  # fmt: skip
        return {n: c for n, c in place_columns(self.parts, found).items() if n not in everywhere}

    def build(self, context: Builder, needed: Needed) -> Node:
        found = self.constraints and routed(self.constraints, self.parts, context.routes)
        if found is not None:
            context.counting |= place_columns(self.parts, found).keys()
        lifts = lifting(found) if found is not None else frozenset()
        apart = [
            p.unfiltered() if i in lifts else p.lifted(context.host_filters) for i, p in enumerate(self.parts)
        ]
        inputs, lifted = zip(*apart, strict=True)
        conjuncts = (*self.conjuncts, *(c for own in lifted for c in own))
        wanted = {*needed, *reads(conjuncts)}
        parts = [context.build(i, wanted) for i in inputs]
        output = tuple(f.name for i in inputs for f in i.schema if f.name in needed)
        return context.joined(parts, inputs, conjuncts, output, found)
