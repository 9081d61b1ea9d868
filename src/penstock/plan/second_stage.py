"""The second stage, which combines the results of the first stage's partitions.

Above the body of a query is a chain of operators with one input. If one of them needs rows together that
the first stage has in different partitions, the chain is cut there, and two stages share the operator
(``Logical.two_phases``). Results that may cancel within an instant are netted in the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.expression import Column
from penstock.plan.distribution import Distribution, Spread, SpreadError, TwoPhases, split_by
from penstock.plan.logical import Exchange, Logical

Chain = tuple[Logical, ...]


@dataclass(frozen=True)
class StageRelation:
    """The relation that a stage computes; those after the first read ``Exchange`` leaves of earlier ones.

    ``by``: the columns of the rows it reads by which it is spread; with none it has one partition.
    """

    relation: Logical
    by: tuple[str, ...] = ()


def stage_name(number: int) -> str:
    """The name by which an ``Exchange`` refers to a stage."""
    return f"stage {number + 1}"


def chain_of(relation: Logical) -> tuple[Logical, Chain]:
    """A query's body, and the operators with one input above it, from the lowest up."""
    chain: list[Logical] = []
    while relation.in_chain:
        chain.append(relation)
        (relation,) = relation.inputs
    return relation, tuple(reversed(chain))


def find_cut(distribution: Distribution, spread: Spread, chain: Chain, nets: bool, joins: bool) -> int:
    """The position in the chain of the operator that needs a second stage.

    ``joins``: the body joins, not only passes rows on. ``nets``: equal results of one instant cancel,
    so they must meet: the position above the chain. One more if no second stage is needed.
    """
    for place, node in enumerate(chain):
        try:
            spread = node.spread([spread], distribution)
        except SpreadError:
            node.two_phases(joins)
            return place
    return len(chain) if nets and spread.keys is None else len(chain) + 1


def cut(
    body: Logical, chain: Chain, place: int, nets: bool, top: Logical | None
) -> tuple[StageRelation, ...]:
    """Two stages, the second from the chain's operator at that place on, with ``top`` above the chain."""
    below, above = _stacked(body, chain[:place]), chain[place + 1 :]
    if place == len(chain):
        phases = TwoPhases(lambda rows: rows, lambda rows: rows, tuple(below.schema.names))
    else:
        phases = chain[place].two_phases(joins=True)
    first = phases.first(below)
    exchanged = Exchange(stage_name(0), first.schema, first.pattern, first.is_momentary)
    second = _stacked(phases.second(exchanged), above)
    by = _spread_by(first, second, phases.meets, nets)
    return StageRelation(first), StageRelation(top.with_inputs(second) if top else second, by)


def _stacked(body: Logical, chain: Sequence[Logical]) -> Logical:
    for node in chain:
        body = node.with_inputs(body)
    return body


def _spread_by(first: Logical, second: Logical, meets: Sequence[str], nets: bool) -> tuple[str, ...]:
    """As many of the columns by which rows must meet as the operators of the second stage allow."""
    columns = [Column(name, first.schema.field(name).type) for name in meets]
    for key in [columns, *([c] for c in columns)]:
        if key and _fits(split_by(tuple(key)), second, nets):
            return tuple(c.name for c in key)
    return ()


def _fits(exchanged: Spread, second: Logical, nets: bool) -> bool:
    try:
        spread = Distribution(exchanged=exchanged).of(second)
    except SpreadError:
        return False
    return spread.keys is not None or not nets
