"""Logical filters of a join pipeline (thesis 5.2.3): one for each other input, along the path to it.

Inputs are numbers, the join graph says which are joined by an equality. From the pipeline's own input the
graph is walked breadth first: the spanning tree by which also a cyclic join is treated as an acyclic one.
The filter of an input lets a tuple through if it joins along the whole path to that input. An order of the
filters becomes an order of joins by the tree's precedence: what leads to an input comes before it, so
nothing is ever a Cartesian product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Parents = dict[int, int]
"""The input before each one on its path from the root; what the root does not reach is not in it."""


def spanning_tree(root: int, neighbours: Mapping[int, Sequence[int]]) -> Parents:
    """Every input that the root reaches, by a shortest path."""
    parents: Parents = {}
    reached = [root]
    for at in reached:
        for j in neighbours[at]:
            if j != root and j not in parents:
                parents[j] = at
                reached.append(j)
    return parents


def path(parents: Parents, to: int) -> list[int]:
    """The inputs on the way from the root, which is left out, to one of them."""
    found = [to]
    while parents[found[0]] in parents:
        found.insert(0, parents[found[0]])
    return found


def join_order(filters: Sequence[int], parents: Parents) -> list[int]:
    """The joins of an order of logical filters, each named by the input it ends at."""
    order: list[int] = []
    for j in filters:
        order += [k for k in path(parents, j) if k not in order]
    return order
