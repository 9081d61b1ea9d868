"""A condition on a rank is a limit of it: ``ROW_NUMBER() OVER (...) AS n ... WHERE n <= 3``.

The rank then passes on only those rows, partitions send only their first ones to the next stage, and of a
stream without window only they are kept.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.expression import Call, Column, Expression, Literal
from penstock.plan.logical import Logical, Project, Rank, Select

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def limit_rank(node: Logical) -> Logical:
    """Select over a rank, with projections and selects between: conjuncts on the rank become its limits."""
    if not isinstance(node, Select):
        return node
    rest = list[Expression]()
    below = node.input
    for conjunct in node.conjuncts:
        limited = _limited(below, conjunct)
        if limited is None:
            rest.append(conjunct)
        else:
            below = limited
    return Select(below, tuple(rest)) if rest else below


def _limited(node: Logical, conjunct: Expression) -> Logical | None:
    """The plan with a conjunct as the limit of a rank; None if it is none."""
    bound = _bound(conjunct)
    return None if bound is None else _with(node, bound[0].name, *bound[1:])


def _bound(conjunct: Expression) -> tuple[Column, int, int | None] | None:
    """A column, the number that it must exceed, and the last that it may be."""
    if not isinstance(conjunct, Call) or conjunct.function not in _TURNED:
        return None
    sign, (left, right) = conjunct.function, conjunct.args
    if isinstance(left, Literal):
        sign, left, right = _TURNED[sign], right, left
    if not isinstance(left, Column) or not isinstance(right, Literal) or type(right.value) is not int:
        return None
    number = max(right.value, 0)
    limits: dict[str, tuple[int, int | None]] = {
        "<": (0, max(number - 1, 0)),
        "<=": (0, number),
        ">": (number, None),
        ">=": (max(number - 1, 0), None),
        "=": (max(number - 1, 0), number),
    }
    return left, *limits[sign]


def _with(node: Logical, column: str, skip: int, last: int | None) -> Logical | None:
    if isinstance(node, Rank) and node.shown == column:
        lasts = [n for n in (node.last, last) if n is not None]
        return replace(node, skip=max(node.skip, skip), last=min(lasts, default=None))
    if isinstance(node, Project):
        shown = dict(node.columns)[column]
        below = _with(node.input, shown.name, skip, last) if isinstance(shown, Column) else None
    elif isinstance(node, Select):
        below = _with(node.input, column, skip, last)
    else:
        return None
    return None if below is None else replace(node, input=below)
