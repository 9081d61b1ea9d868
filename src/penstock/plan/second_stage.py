"""The second stage: what brings results of different partitions together again.

Above the body of a query stands a chain of operators with one input. Where one of them needs rows to meet
that the first stage has in different partitions, the chain is cut there: groups become partial aggregates
that are combined, or their rows are brought together where that cannot be; DISTINCT is done twice; results
that may cancel within an instant are netted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.combine import combines, parts
from penstock.plan.distribution import Cannot, Dimension, Distribution, Spread, split_by

Chain = tuple[logical.Logical, ...]


@dataclass(frozen=True)
class TwoStages:
    """``first`` and ``second`` are relations, the second over an ``Exchange`` of the first's rows.

    ``by``: the columns of the first by which the second is spread; with none it has one partition.
    """

    first: logical.Logical
    second: logical.Logical
    by: tuple[str, ...]


def chain_of(relation: logical.Logical) -> tuple[logical.Logical, Chain]:
    """A query's body, and the operators with one input above it, from the lowest up."""
    chain: list[logical.Logical] = []
    while isinstance(relation, logical.Project | logical.Select | logical.Distinct | logical.Aggregate):
        chain.append(relation)
        relation = relation.input
    return relation, tuple(reversed(chain))


def climb(distribution: Distribution, spread: Spread, chain: Chain, nets: bool, joins: bool = False) -> int:
    """How far up the chain a first stage goes: the place of the operator that needs a second one.

    ``joins``: the body has more to do than to hand rows on. ``nets``: equal results of one instant cancel, so
    they must meet: the place above the chain. One more if nothing needs one.
    """
    for place, node in enumerate(chain):
        try:
            spread = distribution.above(node, spread)
        except Cannot:
            _check_cut(node, joins)
            return place
    return len(chain) if nets and spread.held is None else len(chain) + 1


def _check_cut(node: logical.Logical, joins: bool) -> None:
    if isinstance(node, logical.Aggregate) and not node.keys and not joins:
        whole = [str(c) for _, c in node.calls if not combines(c)]
        if whole:
            raise Cannot(f"{whole[0]} cannot be combined from partial results")


def cut(body: logical.Logical, chain: Chain, place: int, nets: bool) -> TwoStages:
    """Two stages, the second from the chain's operator at that place on."""
    below = _stacked(body, chain[:place])
    if place == len(chain):
        return _two(below, (), below.schema.names, nets)
    node, above = chain[place], chain[place + 1 :]
    if isinstance(node, logical.Distinct):
        return _two(logical.with_inputs(node, (below,)), (node, *above), below.schema.names, nets)
    assert isinstance(node, logical.Aggregate)
    keys = [name for name, _ in node.keys]
    if all(combines(call) for _, call in node.calls):
        partial, final, results = _in_two_phases(node)
        return _two(logical.with_inputs(partial, (below,)), (final, results, *above), keys, nets)
    rows, whole = _brought_together(node)
    return _two(logical.with_inputs(rows, (below,)), (whole, *above), keys, nets)


def _brought_together(node: logical.Aggregate) -> tuple[logical.Project, logical.Aggregate]:
    """The columns that an aggregate reads, and the aggregate over them."""
    arguments = {str(c.argument): c.argument for _, c in node.calls if c.argument is not None}
    beside = tuple((name, e) for name, e in arguments.items() if (name, e) not in node.keys)
    keys: tuple[tuple[str, Expression], ...] = tuple((name, Column(name, e.type)) for name, e in node.keys)
    calls = tuple(
        (name, c if c.argument is None else replace(c, argument=Column(str(c.argument), c.argument.type)))
        for name, c in node.calls
    )
    return logical.Project(node, (*node.keys, *beside)), logical.Aggregate(node, keys, calls)


def _in_two_phases(node: logical.Aggregate) -> tuple[logical.Aggregate, logical.Aggregate, logical.Project]:
    """The partial aggregate, the one that combines, and the projection to what was asked for."""
    both = [(name, parts(name, call)) for name, call in node.calls]
    partial = {p[0]: p for _, two in both for p in two.partial}
    finals = [f for _, two in both for f in two.final]
    keys: tuple[tuple[str, Expression], ...] = tuple((name, Column(name, e.type)) for name, e in node.keys)
    types = {name: kind for name, _, _, kind in partial.values()}
    first = replace(node, calls=tuple((n, logical.AggregateCall(f, a, t)) for n, f, a, t in partial.values()))
    combining = tuple((n, logical.AggregateCall(f, Column(a, types[a]), t)) for n, f, a, t in finals)
    final = logical.Aggregate(node, keys, combining)
    return first, final, logical.Project(final, (*keys, *((name, two.result) for name, two in both)))


def _stacked(body: logical.Logical, chain: Sequence[logical.Logical]) -> logical.Logical:
    for node in chain:
        body = logical.with_inputs(node, (body,))
    return body


def _two(first: logical.Logical, chain: Chain, meets: Sequence[str], nets: bool) -> TwoStages:
    """Spread the second stage by as many of the columns as what follows allows."""
    leaf = logical.Exchange(first.schema)
    columns = [Column(name, first.schema.field(name).type) for name in meets]
    for key in [columns, *([c] for c in columns)]:
        if key and _reaches(split_by(tuple(key)), chain, nets):
            return TwoStages(first, _stacked(leaf, chain), tuple(c.name for c in key))
    return TwoStages(first, _stacked(leaf, chain), ())


def _reaches(spread: Spread, chain: Chain, nets: bool) -> bool:
    distribution = Distribution(Dimension(()))
    try:
        return climb(distribution, spread, chain, nets) == len(chain) + 1
    except Cannot:
        return False
