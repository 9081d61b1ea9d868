"""Trees of joins: an XJoin, a tree of MJoins, and the tree that costs least (thesis 5.3).

A tree is a number of an input, or a tuple of trees that one operator joins. ``(0, 1, 2)`` is an MJoin,
``((0, 1), 2)`` a left-deep XJoin, ``((0, 1), 2, 3)`` a tree of MJoins. Every operator below the root keeps
its result in the store of the operator above it, so it is found by one probe and maintained by each change.

The cost of a tree is the work per unit of time (thesis 3.1): each row that enters an operator's input, of a
stream or of a result below, probes the other inputs in the best order, and a result that is kept is inserted.
The best tree of a set of inputs consists of best trees of its parts, so all trees are compared by comparing
the ways to divide each set.

Tables are joined at the root: a row of a stream meets a table as it is at the instant of the result, which is
that of its last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import inf, prod

from penstock.engine.joins.inputs import KeyClass
from penstock.engine.operator import Node
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.mjoin import MJoin
from penstock.expression import Expression, columns
from penstock.functions import may_raise
from penstock.plan.settings import EXHAUSTIVE_INPUTS, KEPT_TUPLE_COST, MADE_TUPLE_COST

Tree = int | tuple["Tree", ...]
Inputs = frozenset[int]
Pairs = Mapping[tuple[int, int], float]
"""For pairs of inputs, the smaller number first: the share of the pairs of rows that have equal keys."""


@dataclass(frozen=True)
class Traffic:
    """What a join's inputs are like: their changes per unit of time, their rows, and the pairs that join.

    ``classes`` has the selectivities of each class of equal keys. Among the inputs of a class the most
    selective pairs that connect them count: the others follow from those.
    """

    rates: tuple[float, ...]
    rows: tuple[float, ...]
    classes: tuple[Pairs, ...]

    def size(self, inputs: Inputs) -> float:
        """The rows of the join of some inputs."""
        shares = (share for pairs in self.classes for share in _spanning(pairs, inputs))
        return prod((self.rows[i] for i in inputs), start=1.0) * prod(shares, start=1.0)

    def rate(self, inputs: Inputs) -> float:
        """The changes of the join of some inputs per unit of time."""
        return self.size(inputs) * sum(self.rates[i] / max(self.rows[i], 1.0) for i in inputs)

    @cached_property
    def links(self) -> frozenset[tuple[int, int]]:
        return frozenset(pair for pairs in self.classes for pair in pairs)

    def connected(self, inputs: Inputs) -> bool:
        """Whether equalities link all of the inputs."""
        first, *rest = sorted(inputs)
        reached, waiting = {first}, [first]
        while waiting:
            at = waiting.pop()
            near = [j for j in rest if j not in reached and (min(at, j), max(at, j)) in self.links]
            reached.update(near)
            waiting += near
        return len(reached) == len(inputs)


def _spanning(pairs: Pairs, inputs: Inputs) -> Iterator[float]:
    """The selectivities of the most selective pairs that connect the inputs of a class."""
    group = {i: i for i in inputs}
    for share, (i, j) in sorted((share, pair) for pair, share in pairs.items() if inputs.issuperset(pair)):
        if group[i] != group[j]:
            yield share
            old, new = group[j], group[i]
            group.update({k: new for k, g in group.items() if g == old})


def node_cost(blocks: Sequence[Inputs], traffic: Traffic) -> float:
    """The cost of one operator whose inputs are the joins of these blocks."""
    cost = 0.0
    for block in blocks:
        rate, bound, made = traffic.rate(block), block, 1.0
        cost += rate * KEPT_TUPLE_COST if len(block) > 1 else 0.0
        left = [b for b in blocks if b is not block]
        while left:
            grown = [(traffic.size(bound | b), n) for n, b in enumerate(left)]
            size, nearest = min(grown)
            cost += rate * made
            made, bound = size / max(traffic.size(block), 1e-300), bound | left.pop(nearest)
            cost += rate * made * MADE_TUPLE_COST
    return cost


def cost(tree: Tree, traffic: Traffic) -> float:
    """The cost of a whole tree."""
    if isinstance(tree, int):
        return 0.0
    return node_cost([leaves(t) for t in tree], traffic) + sum(cost(t, traffic) for t in tree)


def leaves(tree: Tree) -> Inputs:
    """The inputs that a tree joins."""
    return frozenset([tree]) if isinstance(tree, int) else frozenset().union(*map(leaves, tree))


def trees(inputs: Sequence[int], binary: bool) -> Iterator[Tree]:
    """All trees over some inputs; ``binary``: those of two-way joins.

    >>> [len(list(trees(range(n), True))) for n in (2, 3, 4)]
    [1, 3, 15]
    >>> [len(list(trees(range(n), False))) for n in (2, 3, 4)]
    [1, 4, 26]
    """
    if len(inputs) == 1:
        yield inputs[0]
        return
    for blocks in divisions(tuple(inputs)):
        if len(blocks) == 2 or not binary:
            yield from _combined(blocks, binary)


def _combined(blocks: Sequence[Sequence[int]], binary: bool) -> Iterator[tuple[Tree, ...]]:
    if not blocks:
        yield ()
        return
    for first in trees(blocks[0], binary):
        for rest in _combined(blocks[1:], binary):
            yield (first, *rest)


def divisions(inputs: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to divide inputs into two or more blocks."""

    def divided(rest: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
        if not rest:
            yield []
            return
        first, others = rest[0], rest[1:]
        for size in range(len(others) + 1):
            for chosen in combinations(others, size):
                left = tuple(i for i in others if i not in chosen)
                yield from ([(first, *chosen), *more] for more in divided(left))

    return (blocks for blocks in divided(inputs) if len(blocks) > 1)


def best_tree(inputs: Sequence[int], traffic: Traffic, binary: bool) -> Tree | None:
    """The tree that costs least, of those without cross products; None if there is none."""
    if not traffic.connected(frozenset(inputs)):
        return None
    if len(inputs) > EXHAUSTIVE_INPUTS:
        deep = _left_deep(inputs, traffic)
        flat = tuple(inputs)
        return deep if binary or cost(deep, traffic) < cost(flat, traffic) else flat
    known: dict[tuple[int, ...], tuple[float, Tree]] = {}

    def best(some: tuple[int, ...]) -> tuple[float, Tree]:
        if len(some) == 1:
            return 0.0, some[0]
        if some not in known:
            found: tuple[float, Tree] = (inf, some)
            for blocks in divisions(some):
                if (len(blocks) > 2 and binary) or not all(traffic.connected(frozenset(b)) for b in blocks):
                    continue
                below = [best(b) for b in blocks]
                total = sum(c for c, _ in below) + node_cost([frozenset(b) for b in blocks], traffic)
                if total < found[0]:
                    found = total, tuple(t for _, t in below)
            known[some] = found
        return known[some]

    return best(tuple(inputs))[1]


def _left_deep(inputs: Sequence[int], traffic: Traffic) -> Tree:
    """A left-deep tree for many inputs: each time the input that leaves the smallest result."""
    pairs = [p for p in combinations(inputs, 2) if traffic.connected(frozenset(p))]
    tree: Tree = min(pairs, key=lambda p: traffic.size(frozenset(p)))
    while left := [i for i in inputs if i not in leaves(tree)]:
        linked = [i for i in left if traffic.connected(leaves(tree) | {i})]
        tree = (tree, min(linked, key=lambda i: traffic.size(leaves(tree) | {i})))
    return tree


def as_tree(flat: MJoin, tree: Tree, identified: Callable[[Sequence[Node]], Sequence[Node]]) -> Node:
    """The operators of a tree over the moving inputs of a join; its tables are joined at the root.

    ``identified`` adds what − elements need to the inputs of one operator.
    """
    top = (tree,) if isinstance(tree, int) else tree
    return _Growing(flat, identified).node((*top, *flat.tables), set(flat.output), root=True)


class _Growing:
    """Builds operators from the root down."""

    def __init__(self, flat: MJoin, identified: Callable[[Sequence[Node]], Sequence[Node]]) -> None:
        self._flat, self._identified = flat, identified
        self._names = [set(p.schema.names) for p in flat.parts]

    def node(self, tree: tuple[Tree, ...], needed: set[str], root: bool = False) -> Node:
        """The operator that joins the children of a tree; ``needed``: columns that are read above it."""
        flat, blocks = self._flat, [sorted(leaves(t)) for t in tree]
        place = {i: k for k, block in enumerate(blocks) for i in block}
        classes = [self._across(dict(c), blocks) for c in flat.classes]
        bands = [b for b in flat.bands if place.get(b.left[0], -1) != place.get(b.right[0], -1)]
        bands = [b for b in bands if b.left[0] in place and b.right[0] in place]
        residual = [r for r in flat.residual if self._here(r, tree, root)]
        joined = tuple(c for c in classes if len(c) > 1)
        read = needed.union(
            *(columns(r) for r in residual),
            *({b.left[1], b.right[1]} for b in bands),
            *({column for _, column in c} for c in joined),
        )
        parts = [self._child(t, read) for t in tree]
        names = {n for p in parts for n in p.schema.names}
        kind = BinaryJoin if len(parts) == 2 else MJoin
        return kind(
            parts=tuple(self._identified(parts)),
            labels=tuple(" ⋈ ".join(flat.labels[i] for i in block) for block in blocks),
            classes=joined,
            residual=tuple(residual),
            output=flat.output if root else tuple(n for n in self._order() if n in names & needed),
            filters=flat.filters,
            bands=tuple(
                replace(b, left=(place[b.left[0]], b.left[1]), right=(place[b.right[0]], b.right[1]))
                for b in bands
            ),
            chooser=flat.chooser,
        )

    def _child(self, tree: Tree, read: set[str]) -> Node:
        return self._flat.parts[tree] if isinstance(tree, int) else self.node(tree, read)

    def _order(self) -> Iterator[str]:
        return (f.name for p in self._flat.parts for f in p.schema)

    def _across(self, members: Mapping[int, str], blocks: Sequence[Sequence[int]]) -> KeyClass:
        """A class between the blocks: of each block the first column, which equals its others."""
        firsts = [(k, next((i for i in block if i in members), None)) for k, block in enumerate(blocks)]
        return tuple((k, members[i]) for k, i in firsts if i is not None)

    def _here(self, predicate: Expression, tree: tuple[Tree, ...], root: bool) -> bool:
        """Whether an operator evaluates a predicate: the lowest one that can, or the root if it may fail."""
        if may_raise(predicate):
            return root
        reads = columns(predicate)
        below = any(not isinstance(t, int) and reads <= self._columns(t) for t in tree)
        return not below and (root or reads <= self._columns(tree))

    def _columns(self, tree: Tree) -> set[str]:
        return set().union(*(self._names[i] for i in leaves(tree)))
