"""Budgets of WITHIN: which joins of a query have them, and the physical joins with them.

A budget is for the join of the query that it stands at: the one of its FROM clause or, if that joins no
streams, the one in the subquery or view that it reads. A join of more than two streams is a chain of joins of
two, of which each has an equal part of the budget: that is a heuristic, the optimum for more than two is not
known. Tables are joined with the results, since they do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pyarrow as pa

from penstock.budget import Within
from penstock.engine.element import Pattern
from penstock.engine.operator import Node, nodes
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.shares import Epochs
from penstock.engine.stage import StageInput
from penstock.errors import UnsupportedError
from penstock.expression import Call, Expression, columns
from penstock.plan.logical import AnyJoin, Budgeted, Join, Logical, Window, walk
from penstock.plan.physical import SourceInput, TableInput
from penstock.schema import TimeDomain
from penstock.settings import Settings

# which join


def own_joins(node: Logical) -> list[AnyJoin]:
    """The joins of streams that a budget above a plan may be for."""
    moving = [i for i in node.inputs if not i.is_static]
    if isinstance(node, Join) and len(moving) > 1:
        return [node]
    found = [j for i in node.passed_on if not i.is_static for j in own_joins(i)]
    return found or ([node] if isinstance(node, AnyJoin) and len(moving) > 1 else [])


def budgets(root: Logical) -> Iterator[Budgeted]:
    """The joins of a plan that have a budget."""
    return (n for n in walk(root) if isinstance(n, Budgeted))


def changes_in_any_way(side: Logical) -> bool:
    """Whether it is not known on arrival when a row leaves."""
    return side.pattern is Pattern.CHANGING


def replaced(node: Logical, old: Logical, new: Logical) -> Logical:
    """A plan with one of its nodes replaced."""
    if node is old:
        return new
    inputs = [replaced(i, old, new) for i in node.inputs]
    same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
    return node if same else node.with_inputs(*inputs)


class UnlinkedError(Exception):
    """The streams of a join are linked by its tables only."""


def with_budget(join: Join, within: Within) -> Logical:
    """A join of streams, and perhaps of tables, within a budget."""
    streams = [p for p in join.parts if not p.is_static]
    conjuncts = (*join.conjuncts, *_implied(join))
    count = len(streams) - 1
    node = streams.pop(0)
    while streams:
        part = next((p for p in streams if join.cross or _linked(conjuncts, node, p)), None)
        if part is None:
            raise UnlinkedError
        streams.remove(part)
        both = Join((node, part), tuple(_between(conjuncts, [node, part])), join.cross)
        node = Budgeted(both, within.divided(count))
    return _with_tables(join, node)


def _with_tables(join: Join, node: Logical) -> Logical:
    """The budgeted join beside the tables of the query."""
    tables = [p for p in join.parts if p.is_static]
    if not tables:
        return node
    names = set(node.schema.names)
    rest = tuple(c for c in join.conjuncts if not columns(c) <= names)
    return Join((node, *tables), rest, join.cross)


def _implied(join: Join) -> list[Expression]:
    """Equalities between parts that follow from others: A.k = T.k and T.k = B.k make A.k = B.k."""
    found = list[Expression]()
    for keys in join.equal_keys():
        pairs = combinations(keys.values(), 2)
        found += [Call("=", (a, b), pa.bool_()) for a, b in pairs if a.type == b.type]
    return [e for e in found if e not in join.conjuncts]


def _linked(conjuncts: Sequence[Expression], left: Logical, right: Logical) -> bool:
    return any(
        not columns(c).isdisjoint(left.schema.names) and not columns(c).isdisjoint(right.schema.names)
        for c in _between(conjuncts, [left, right])
    )


def _between(conjuncts: Sequence[Expression], parts: Sequence[Logical]) -> list[Expression]:
    """The conjuncts that these parts can evaluate, and none of their own parts could."""
    names = {n for p in parts for n in p.schema.names}
    inside = [set(p.schema.names) for p in parts if isinstance(p, Budgeted)]
    return [c for c in conjuncts if columns(c) <= names and not any(columns(c) <= i for i in inside)]


# the physical join


def budgeted(settings: Settings, time: TimeDomain, shared: int, node: Budgeted, join: Node) -> Node:
    """The physical join with its budget, which both sides share.

    ``shared``: the number of joins of the query that use the session's memory.
    """
    assert isinstance(join, MJoin)
    within = _of_session(node.within, settings, shared) if node.within.shared else node.within
    if within.goal is not None:
        return _keeping(within, settings.seed, node, join)
    # Imported late: it imports the cost model.
    from penstock.approx.shedding import Shedding

    lives = [p.longest_life for p in node.join.parts]
    a, b = (None if n is None else n / time.ticks_per_second for n in lives)
    rows_a, rows_b = (_rows(p) for p in node.join.parts)
    how = within, settings.allocation, (a, b), time.ticks_per_second, settings.seed
    return replace(join, budget=Shedding(*how, sizes=(rows_a, rows_b)))


def with_epochs(
    root: Node, taken: Sequence[StageInput], hosts: Sequence[SourceInput | TableInput], partitions: int
) -> tuple[tuple[StageInput, ...], tuple[SourceInput | TableInput, ...]]:
    """A stage's inputs, whose rows are counted by epochs if a budget is divided among partitions."""
    found = [n.budget.epoch for n in nodes(root) if isinstance(n, MJoin) and n.budget is not None]
    if not found or partitions == 1:
        return tuple(taken), tuple(hosts)
    epochs = Epochs(min(found), partitions)
    counted = tuple(replace(i, epochs=epochs) if isinstance(i, SourceInput) else i for i in hosts)
    return tuple(replace(i, epochs=epochs) if i.kind == "source" else i for i in taken), counted


def _rows(part: Logical) -> int | None:
    """The rows that a side holds, if it is a row window over the whole stream."""
    while not isinstance(part, Window):
        if len(part.inputs) != 1:
            return None
        (part,) = part.inputs
    return part.spec.size if part.spec.kind == "rows" and not part.spec.partition_by else None


def _of_session(within: Within, settings: Settings, joins: int) -> Within:
    if settings.memory is None:
        raise UnsupportedError(
            f"{within.goal_name} without WITHIN MEMORY needs a memory limit of the session; "
            "SET penstock.memory = '256 MB' first, or write WITHIN MEMORY 20000 ROWS"
        )
    return replace(within, bytes=settings.memory, weight=settings.weight, parts=joins)


def _keeping(within: Within, seed: int, node: Budgeted, join: MJoin) -> Node:
    """The join that keeps the tuples most useful for the goal."""
    from penstock.approx.memory_policy import MemoryBudget

    if getattr(within.goal, "using", None) == "PROB" and not join.classes:
        raise UnsupportedError("PROB needs an equality predicate, and this join has none; write USING AGE")
    assert join.pattern is Pattern.EXPIRING
    a, b = (part.longest_life for part in node.join.parts)
    assert a is not None and b is not None
    keeping = MemoryBudget(within, (a, b), bool(join.classes), node.aggregated, node.constant, seed)
    return replace(join, budget=keeping)
