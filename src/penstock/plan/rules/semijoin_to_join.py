"""A semijoin by equalities is a join with the distinct keys of its right side.

``x IN (SELECT y FROM S1 [ROWS n])``: a row has at most one partner among distinct keys, so the join has each
row as often as the semijoin has. Several of them over the same rows are one join, a star whose center are
the rows: their probes are pipelined filters, whose order adapts to the stream (thesis 4.7, 5.2.2).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.expression import Call, Column
from penstock.plan.facts import equal_sides, over
from penstock.plan.logical import Distinct, Join, Logical, Project, SemiJoin


def semijoin_to_join(node: Logical) -> Logical:
    """SemiJoin (not anti) on equalities between its sides: Project over Join with Distinct."""
    if not isinstance(node, SemiJoin) or node.anti or (node.left.is_static and not node.right.is_static):
        return node  # rows of a table that have met one of a stream: the table's rows are enough to know
    left, right = over(node.left.schema.names), over(node.right.schema.names)
    sides = [equal_sides(c, left, right) for c in node.conjuncts]
    pairs = [s for s in sides if s is not None]
    if not pairs or len(pairs) < len(sides):
        return node
    keys = dict.fromkeys(key for _, key in pairs)
    names = [str(k) for k in keys]
    whole = node.right.schema.names == names
    looked_up = Distinct(node.right if whole else Project(node.right, tuple(zip(names, keys, strict=True))))
    equal = [Call("=", (outer, Column(str(key), key.type)), pa.bool_()) for outer, key in pairs]
    rows = _unwrapped(node.left)
    inside = rows if isinstance(rows, Join) else Join((rows,))
    joined = replace(inside, parts=(*inside.parts, looked_up), conjuncts=(*inside.conjuncts, *equal))
    return Project(joined, tuple((f.name, Column(f.name, f.type)) for f in node.left.schema))


def _unwrapped(node: Logical) -> Logical:
    """The join below a projection that this rule made of the semijoin before."""
    if isinstance(node, Project) and isinstance(node.input, Join):
        passing = all(isinstance(e, Column) and e.name == name for name, e in node.columns)
        return node.input if passing else node
    return node
