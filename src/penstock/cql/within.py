"""WITHIN: the budget of a query, checked and in the units of :class:`penstock.budget.Within`."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from penstock.budget import Within
from penstock.cql.duration import SECONDS
from penstock.cql.errors import did_you_mean, error, unsupported
from penstock.cql.nodes import WithinClause
from penstock.plan import logical

BYTES = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def bind_within(node: exp.Expr, root: logical.Logical) -> Within | None:
    """The budget that a query says, if it says one, and is of a kind that can keep it."""
    clauses = node.meta.get("within") or []
    if not clauses:
        return None
    budget: dict[str, float] = {}
    for clause in clauses:
        name, value = _rate(clause) if clause.args["kind"] == "rate" else _memory(clause)
        if name in budget:
            raise error(f"{clause.args['kind'].upper()} stands twice after WITHIN", clause)
        budget[name] = value
    if "rows" in budget and "bytes" in budget:
        raise error("MEMORY stands twice after WITHIN", clauses[-1], "say it in ROWS or in MB")
    _check(root, clauses[0])
    rows, size = budget.get("rows"), budget.get("bytes")
    return Within(budget.get("rate"), rows and int(rows), size and int(size))  # type: ignore[arg-type]


def _rate(clause: WithinClause) -> tuple[str, float]:
    unit = clause.args["unit"].name.lower().removesuffix("s")
    if unit not in SECONDS:
        hint = did_you_mean(unit, SECONDS) or "write PER SECOND"
        raise error(f"'{clause.args['unit'].name}' is not a unit of time", clause, hint)
    return "rate", float(_positive(clause, "RATE") / SECONDS[unit])


def _memory(clause: WithinClause) -> tuple[str, float]:
    unit = clause.args["unit"].name.lower()
    if unit in ("row", "rows"):
        return "rows", float(_positive(clause, "MEMORY"))
    if unit not in BYTES:
        hint = "write ROWS, KB, MB or GB"
        raise error(f"'{clause.args['unit'].name}' is not a unit of memory", clause, hint)
    return "bytes", float(_positive(clause, "MEMORY") * BYTES[unit])


def _positive(clause: WithinClause, what: str) -> Fraction:
    try:
        value = Fraction(clause.args["this"].name)
    except ValueError:
        raise error(f"WITHIN {what} takes a number", clause) from None
    if value <= 0:
        raise error(f"WITHIN {what} {clause.args['this'].name} gives nothing to work with", clause,
                    "it must be greater than 0")  # fmt: skip
    return value


def _check(root: logical.Logical, at: exp.Expr) -> None:
    """One join of two windows of time; everything else may stand above it."""
    joins = [n for n in _walk(root) if isinstance(n, logical.Join | logical.OuterJoin | logical.SemiJoin)]
    if not joins:
        raise error("WITHIN limits what a join uses, and this query has none", at, "leave WITHIN out")
    if len(joins) > 1 or not isinstance(joins[0], logical.Join) or len(joins[0].inputs) != 2:
        raise unsupported("WITHIN on other than one join of two streams", at)
    for side in joins[0].inputs:
        windows = [n for n in _walk(side) if isinstance(n, logical.Window)]
        if len(windows) != 1 or windows[0].spec.by_rows or windows[0].spec.slide is not None:
            raise unsupported("WITHIN over other than windows of time", at, "write [RANGE ...] windows")


def _walk(node: logical.Logical) -> list[logical.Logical]:
    return [node, *(n for below in logical.inputs(node) for n in _walk(below))]
