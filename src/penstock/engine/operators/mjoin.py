"""mjoin: the multiway join, one pipeline of probes for each input (thesis section 5.1).

At every instant τ the output relation is the join of the input relations at τ. A joined tuple exists while
all its parts do: its life is from the latest start of its parts to the earliest end, if that is not empty.

The store of an input has the life ``[start, end)`` of its rows. In a step the inputs are processed one after
the other; the new rows of an input probe the stores of the others, where the rows of this step are visible
for inputs before it and not for those after it, so each combination is found once, by its last part. If ends
are known on arrival (time windows) nothing else is needed: a joined tuple carries its end. If ends become
known later (row windows) each − element sets the end of its row, and in a second pass the rows that ended in
this step probe for the combinations they end: those in which they are the first input to end.

Keys are equivalence classes of columns, so that C.pid = B.pid AND B.pid = O.pid lets C probe O. A probe
uses all classes that join the next input to the parts found so far. A NULL key joins nothing.

If equalities lead from an input to two or more others, its rows are tried on the path to each of those in an
order that adapts to the stream (thesis 5.2), by all matches at once or, where that would waste more, by drop
probing: then a first match is asked for, and output generation continues from it for rows that have them all.

Inputs made of tables alone come first in a step, so that the rows of the others find them whole. A table may
change at some instant. If rows of the others leave, the result is again the join at every instant: rows that
enter the table probe, rows that leave it end their results, and where ends of results were known already they
are corrected. If the other inputs only grow, a result belongs to the instant of its last row: it meets the
table as it is at that instant, and a change of the table has no effect on results before. Then nothing has to
be kept of a single other input: each row looks up its matches and passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from penstock.budget import CLUSTER, WEIGHT
from penstock.engine.element import Pattern
from penstock.engine.joins.bands import Band
from penstock.engine.joins.budget import BudgetedJoin, JoinBudget
from penstock.engine.joins.constrained_join import ConstrainedJoin
from penstock.engine.joins.explain_constraints import explain_constraints
from penstock.engine.joins.inputs import BY_EQUALITY, KeyClass
from penstock.engine.joins.join_constraints import JoinConstraints
from penstock.engine.joins.monitored_join import MonitoredJoin
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.operator import Growth, Node, Operator, StartContext
from penstock.expression import Expression, columns
from penstock.streamon.access import Chooser

SAMPLED = pa.schema([(WEIGHT, pa.float64()), (CLUSTER, pa.int64())])
"""Columns of the results of a sample."""


@dataclass(frozen=True)
class MJoin(Node):
    """Joins ``parts`` on ``classes``, ``bands`` and ``residual`` predicates; ``output`` are its columns.

    ``filters`` is the algorithm that orders the probes; ``chooser`` has the costs of access methods.
    ``budget`` is that of a join of two windows, if it has one. ``cache_memory``: the bytes for caches of
    subresults, None for a join without. ``constraints``: what the inputs obey, by which rows are dropped
    early; ``counts``: the streams whose rows are counted for it.
    """

    parts: tuple[Node, ...]
    labels: tuple[str, ...]
    classes: tuple[KeyClass, ...]
    residual: tuple[Expression, ...]
    output: tuple[str, ...]
    filters: str = field(default="a-greedy", repr=False)
    bands: tuple[Band, ...] = ()
    chooser: Chooser | None = field(default=None, repr=False, compare=False)
    budget: JoinBudget | None = None
    cache_memory: int | None = field(default=None, repr=False, compare=False)
    constraints: JoinConstraints | None = None
    counts: tuple[Node, ...] = ()

    name = "mjoin"
    probes_by_cost: ClassVar[bool] = True
    """Whether the access method of each probe is chosen by its cost."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (*self.parts, *self.counts)

    @property
    def schema(self) -> pa.Schema:
        """The output columns; for a sample also weight and cluster."""
        fields = {f.name: f for part in self.parts for f in part.schema}
        sampled = self.budget is not None and self.budget.sampled
        return pa.schema([*(fields[name] for name in self.output), *(SAMPLED if sampled else ())])

    @property
    def reads_ties(self) -> bool:
        """Ends that come later are those of rows with ids, on whose order a budget depends."""
        return self.budget is not None and self.pattern is Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """Decisions of budgets depend on the order of rows; so do places, and what is missed."""
        if self.obeys and self.constraints is not None and self.constraints.use.monitored:
            return True
        return bool(self.counts) or self.budget is not None

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """The inputs that are not made of tables alone; all of them if none is."""
        moving = tuple(i for i, p in enumerate(self.parts) if not p.is_static)
        return moving or tuple(range(len(self.parts)))

    @cached_property
    def tables(self) -> tuple[int, ...]:
        """The inputs made of tables alone, of a join that has others."""
        return tuple(i for i in range(len(self.parts)) if i not in self.moving)

    @cached_property
    def passing(self) -> int | None:
        """The input whose rows meet only tables: they look up their matches, and none is kept."""
        passes = len(self.moving) == 1 and self.tables and self.pattern is Pattern.APPEND
        return self.moving[0] if passes and self.budget is None else None

    @cached_property
    def corrects(self) -> bool:
        return self.pattern is Pattern.EXPIRING and bool(self.tables) and not self.is_momentary

    @cached_property
    def is_momentary(self) -> bool:
        return self.pattern is Pattern.EXPIRING and any(self.parts[i].is_momentary for i in self.moving)

    @property
    def accumulates(self) -> bool:
        """A joined row leaves with the first of its parts."""
        return all(self.parts[i].accumulates for i in self.moving)

    def growth(self) -> Iterator[Growth]:
        """Every row of an input without a window, or those that constraints do not let it drop."""
        stored = [i for i in self.moving if i != self.passing and self.parts[i].accumulates]
        if not self.obeys:
            return (Growth(self.parts[i], "every row") for i in stored)
        assert self.constraints is not None
        free = [i for i in stored if not self.constraints.bounded(i) or self.pattern is Pattern.CHANGING]
        return (Growth(self.parts[i], "the rows that constraints do not let it drop") for i in free)

    @cached_property
    def pattern(self) -> Pattern:
        """The least restrictive of the patterns of its moving inputs."""
        patterns = {self.parts[i].pattern for i in self.moving}
        for pattern in (Pattern.CHANGING, Pattern.EXPIRING):
            if pattern in patterns:
                return pattern
        return Pattern.APPEND

    @property
    def adapts(self) -> bool:
        """Whether there is an order to change: three inputs linked by equalities, or filters of one input."""
        own = [r for r in self.residual for p in self.parts if columns(r) <= set(p.schema.names)]
        return (self._linked() > 2 or bool(own)) and self.filters != "static"

    @property
    def obeys(self) -> bool:
        """Whether constraints let it drop rows."""
        return self.constraints is not None and self.constraints.useful

    @property
    def may_cache(self) -> bool:
        """Whether there are subresults that caches may hold: of two inputs, for a third that is linked."""
        exact = self.budget is None and not self.obeys
        return self.cache_memory is not None and exact and self._linked() > 2

    def _linked(self) -> int:
        """The largest number of inputs that equalities link with each other."""
        groups: list[set[int]] = []
        for members in self.classes:
            group = {k for k, _ in members}.union(*(g for g in groups if any(k in g for k, _ in members)))
            groups = [*(g for g in groups if not g <= group), group]
        return max(map(len, groups), default=0)

    def describe(self) -> str:
        keys = [" = ".join(column for _, column in c) for c in self.classes]
        bands = [str(b) for b in self.bands if not b.floating]
        said = " AND ".join([*keys, *bands, *(str(r) for r in self.residual)]) or "every pair"
        return said if self.budget is None else f"{said}, {self.budget}"

    def details(self) -> Iterator[str]:
        yield self._synopses()
        if self.adapts:
            yield f"{self.filters} orders the filters and probes while it runs"
        elif len(self.parts) > 2 and self.filters != "static":
            yield "probes in a fixed order: no three inputs are linked by equalities"
        if self.constraints is not None:
            yield from explain_constraints(self.constraints, self.labels, self.pattern is Pattern.CHANGING)
        if self.may_cache:
            yield "a-caching chooses caches of subresults while it runs"

    def _synopses(self) -> str:
        """What each input's synopsis is probed by."""
        kept = [(i, label) for i, label in enumerate(self.labels) if i != self.passing]
        passes = "" if self.passing is None else f"; {self.labels[self.passing]} looks up and is not kept"
        return f"synopses: {', '.join(f'{label} by {self._access(i)}' for i, label in kept)}{passes}"

    def _access(self, i: int) -> str:
        """How an input is probed: by its keys, a range of a column, or a scan."""
        label = self.labels[i]
        keys = [_short(column, label) for c in self.classes for k, column in c if k == i]
        if keys:
            method = BY_EQUALITY[0] if self.chooser is None else self.chooser.among(BY_EQUALITY)[0]
            return "scan" if method == "none" else f"{method} of {' and '.join(keys)}"
        near = [_short(column, label) for b in self.bands for k, column in (b.left, b.right) if k == i]
        return f"range of {near[0]}" if near else "scan"

    def start(self, context: StartContext) -> Operator:
        if self.constraints is not None and self.obeys:
            kind = MonitoredJoin if self.constraints.use.monitored else ConstrainedJoin
            return kind(self, context.stores)
        return JoinOperator(self, context.stores) if self.budget is None else BudgetedJoin(self)


def _short(column: str, label: str) -> str:
    """A column without the name of its input, or the number of a subquery that has none."""
    return column.partition(".")[2] if column.startswith("#") else column.removeprefix(f"{label}.")
