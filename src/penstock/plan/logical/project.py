"""Projection."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.operators import project
from penstock.expression import Column, Expression
from penstock.plan.distribution import Distribution, Spread
from penstock.plan.estimates import Estimated, Sampling
from penstock.plan.facts import Named, NotNull, Origins, origins_of, reads
from penstock.plan.logical.operator import Logical, Needed, PerRow, StreamRows, UniqueKey

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.meaning import Meant, Reader


@dataclass(frozen=True)
class Project(PerRow):
    """Duplicate-preserving projection to named expressions."""

    columns: Named

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, e.type) for name, e in self.columns])

    def describe(self) -> str:
        return "Project " + ", ".join(f"{e} AS {name}" for name, e in self.columns)

    def with_names(self, names: Sequence[str]) -> Logical:
        return replace(self, columns=tuple(zip(names, (e for _, e in self.columns), strict=True)))

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        below = {e.name for name, e in self.columns if isinstance(e, Column) and name in shown}
        if certain is not None:
            certain = {e.name for name, e in self.columns if isinstance(e, Column) and name in certain}
        return self.input.determines_life(below, certain)

    @property
    def origins(self) -> Origins:
        return origins_of(self.columns, self.input.origins)

    def _renamed(self) -> dict[str, str]:
        """By column below that is shown as it is, its name here."""
        return {e.name: name for name, e in self.columns if isinstance(e, Column)}

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        """Those of which it shows all columns."""
        names = self._renamed()
        shown = [k for k in self.input.unique_keys if names.keys() >= set(k[0])]
        return tuple((tuple(names[c] for c in columns), lasting) for columns, lasting in shown)

    @property
    def stream_rows(self) -> StreamRows | None:
        rows = self.input.stream_rows
        if rows is None:
            return None
        shown = {name: rows.names[c] for c, name in self._renamed().items() if c in rows.names}
        return replace(rows, names=shown)

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        below, columns = self.input.stamped()
        return replace(self, input=below, columns=(*self.columns, *((c.name, c) for c in columns))), columns

    @property
    def lacks_time(self) -> bool:
        return self.input.lacks_time

    @property
    def bounds(self) -> frozenset[str]:
        below = self.input.bounds
        return frozenset(name for name, e in self.columns if isinstance(e, Column) and e.name in below)

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        """Equal result rows, which operators above may need together."""
        return tuple(e for _, e in self.columns)

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return below[0].renamed(self.columns)

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        (rows,) = below
        shown, estimates = rows.shown(self.columns)
        parts = {name: rows.parts_of(e) for name, e in self.columns}
        names, node = tuple(self.schema.names), Project(rows.node, shown)
        return replace(rows, node=node, names=names, estimates=estimates, made_of=parts)

    def meant(self, reader: Reader, below: Sequence[Meant]) -> Meant:
        (rows,) = below
        columns = {name: reader.text(e, rows.made_of) for name, e in self.columns}
        return rows._replace(
            text=f"project {sorted(set(columns.values()))} of [{rows.text}]", made_of=columns
        )

    def build(self, context: Builder, needed: Needed) -> Node:
        shown = tuple((name, e) for name, e in self.columns if name in needed)
        return project.Project(context.build(self.input, reads(e for _, e in shown)), shown)


def renamed(node: Logical, names: Sequence[str]) -> Logical:
    """A plan with these column names, given by its own topmost projection if it has one."""
    own = tuple((name, Column(f.name, f.type)) for name, f in zip(names, node.schema, strict=True))
    return node.with_names(names) or Project(node, own)
