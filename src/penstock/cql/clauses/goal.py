"""What a budget of memory is used for: MAXIMIZE RESULTS or SAMPLE, checked against the query."""

from __future__ import annotations

from sqlglot import exp

from penstock.budget import POLICIES, SCHEMES, Maximize, Sample, Within
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nodes import GoalClause
from penstock.expression import Column, columns
from penstock.plan import logical

ESTIMATED = ("sum", "count", "avg")
"""Aggregates that can be estimated from a sample."""


def bind_goal(node: exp.Expr, root: logical.Logical, within: Within) -> Maximize | Sample | None:
    """The goal that stands after a budget, if there is one."""
    clause = node.meta.get("goal")
    if clause is None:
        return None
    name = "MAXIMIZE RESULTS" if clause.args["kind"] == "maximize" else "SAMPLE"
    if within.rows is None and within.bytes is None and (not within.shared or name == "SAMPLE"):
        raise error(f"{name} needs WITHIN MEMORY", clause,
                    "write e.g. WITHIN MEMORY 20000 ROWS")  # fmt: skip
    if within.rate is not None:
        raise unsupported(f"{name} together with WITHIN RATE", clause, "leave WITHIN RATE out")
    if within.least_memory:
        raise unsupported(f"AT LEAST together with {name}", clause, "leave AT LEAST out")
    for window in (n for n in logical.walk(root) if isinstance(n, logical.Window)):
        if window.spec.size is None:
            raise error(f"{name} needs bounded windows", clause, "write [RANGE ...] windows")
    if clause.args["kind"] == "maximize":
        return Maximize(_one_of(clause, POLICIES, "a policy"))
    goal = Sample(_one_of(clause, SCHEMES, "a sampling scheme"), _confidence(clause))
    _check_sampled(root, clause)
    return goal


def _one_of(clause: GoalClause, names: tuple[str, ...], what: str) -> str | None:
    if clause.this is None:
        return None
    name = clause.this.name.upper()
    if name not in names:
        hint = did_you_mean(name, names) or f"use one of {', '.join(names)}"
        raise error(f"'{clause.this.name}' is not {what}", clause.this, hint)
    return name


def _confidence(clause: GoalClause) -> float:
    level = clause.args.get("confidence")
    if level is None:
        return 0.95
    if not 0.0 < float(level.name) < 1.0:
        raise error(f"CONFIDENCE {level.name} is not between 0 and 1", level, "write e.g. CONFIDENCE 0.95")
    return float(level.name)


def _check_sampled(root: logical.Logical, at: exp.Expr) -> None:
    """Only what can be estimated: plain rows, or SUM, COUNT and AVG, each by itself."""
    for n in logical.walk(root):
        if not n.can_sample:
            raise unsupported("SAMPLE of a query with DISTINCT, set operations or scalar subqueries", at)
    aggregates = [n for n in logical.walk(root) if isinstance(n, logical.Aggregate)]
    if not aggregates and at.args.get("confidence") is not None:
        raise error("CONFIDENCE applies to SUM, COUNT and AVG, and this query has none of them", at,
                    "leave it out")  # fmt: skip
    if len(aggregates) > 1:
        raise unsupported("SAMPLE under aggregates of aggregates", at)
    for aggregate in aggregates:
        for _, call in aggregate.calls:
            if call.function not in ESTIMATED or call.distinct:
                hint = "SUM, COUNT and AVG can be"
                raise error(f"{call} cannot be estimated from a sample", at, hint)
        top = root.inputs[0] if root.is_stream else root
        _check_alone(top, {name for name, _ in aggregate.calls}, at)


def _check_alone(top: logical.Logical, calls: set[str], at: exp.Expr) -> None:
    """Bounds are those of an aggregate, not of what is computed from several."""
    if not isinstance(top, logical.Project):
        return
    for name, e in top.columns:
        if not isinstance(e, Column) and calls & columns(e):
            raise error(f"'{name}' has no known bounds, because it is computed from an aggregate", at,
                        "select the aggregate itself")  # fmt: skip
