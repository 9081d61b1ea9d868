"""WITHIN: the budget of a query in the units of :class:`penstock.budget.Within`, and what it is used for.

MAXIMIZE RESULTS and SAMPLE are checked against the query: each supports some joins and aggregates only.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from penstock.budget import POLICIES, SCHEMES, Maximize, Sample, Within
from penstock.cql.syntax.duration import SECONDS
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nodes import GoalClause, WithinClause
from penstock.expression import Column, columns
from penstock.plan import logical

ESTIMATED = ("sum", "count", "avg")
"""Aggregates that can be estimated from a sample."""
BYTES = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def bind_within(node: exp.Expr, root: logical.Logical) -> Within | None:
    """The budget of a query, if it has one; rejects queries that cannot keep it."""
    clauses = node.meta.get("within") or []
    if not clauses:
        return _shared(node, root)
    budget: dict[str, Fraction] = {}
    for clause in clauses:
        kind = clause.args["kind"]
        name, unit = _rate(clause) if kind == "rate" else _memory(clause)
        if name in budget:
            raise error(f"WITHIN {kind.upper()} is given twice", clause)
        budget[name] = _positive(clause, "this", f"WITHIN {kind.upper()}") * unit
        budget[f"least_{kind}"] = _least(clause, kind.upper()) * unit
    if "rows" in budget and "bytes" in budget:
        raise error("WITHIN MEMORY is given twice", clauses[-1], "give it in ROWS or in MB")
    _check(root, clauses[0], next((c for c in clauses if c.args["kind"] == "memory"), None))
    counts = {n: int(budget[n]) for n in ("rows", "bytes") if n in budget}
    rates = {n: float(v) for n, v in budget.items() if n not in counts}
    within = Within(**rates, **counts, before_windows=any(map(_before_windows, clauses)))  # type: ignore[arg-type]
    return replace(within, goal=_goal(node, root, within))


def _shared(node: exp.Expr, root: logical.Logical) -> Within | None:
    """MAXIMIZE RESULTS without WITHIN: the query uses a part of the session's memory."""
    if "goal" not in node.meta:
        return None
    _check(root, node.meta["goal"], node.meta["goal"])
    within = Within(shared=True)
    return replace(within, goal=_goal(node, root, within))


def _rate(clause: WithinClause) -> tuple[str, Fraction]:
    unit = clause.args["unit"].name.lower().removesuffix("s")
    if unit not in SECONDS:
        hint = did_you_mean(unit, SECONDS) or "write PER SECOND"
        raise error(f"'{clause.args['unit'].name}' is not a unit of time", clause, hint)
    return "rate", 1 / Fraction(SECONDS[unit])


def _memory(clause: WithinClause) -> tuple[str, Fraction]:
    unit = clause.args["unit"].name.lower()
    if unit in ("row", "rows"):
        return "rows", Fraction(1)
    if unit not in BYTES:
        hint = "write ROWS, KB, MB or GB"
        raise error(f"'{clause.args['unit'].name}' is not a unit of memory", clause, hint)
    return "bytes", Fraction(BYTES[unit])


def _least(clause: WithinClause, what: str) -> Fraction:
    """The minimum per stream, of which two must fit into the budget."""
    if clause.args.get("least") is None:
        return Fraction(0)
    least = _positive(clause, "least", "AT LEAST")
    total = clause.args["this"].name
    if 2 * least > Fraction(total):
        raise error(f"AT LEAST {clause.args['least'].name} EACH for two streams is more than {what} {total}",
                    clause, f"it can be at most {float(total) / 2:g}")  # fmt: skip
    return least


def _before_windows(clause: WithinClause) -> bool:
    at = clause.args.get("before")
    if at is not None and clause.args["kind"] != "rate":
        raise error("DROP BEFORE WINDOWS applies to WITHIN RATE only", at, "leave it out")
    return at is not None


def _positive(clause: WithinClause, number: str, what: str) -> Fraction:
    try:
        value = Fraction(clause.args[number].name)
    except ValueError:
        raise error(f"{what} takes a number", clause) from None
    if value <= 0:
        raise error(f"{what} {clause.args[number].name} is out of bounds", clause,
                    "it must be greater than 0")  # fmt: skip
    return value


def _check(root: logical.Logical, at: exp.Expr, memory: exp.Expr | None) -> None:
    """Accept one join of two windows (of time, if memory is limited), with any operators above it."""
    joins = [n for n in logical.walk(root) if isinstance(n, logical.AnyJoin)]
    if not joins:
        raise error("WITHIN applies to a join, and this query has none", at, "leave WITHIN out")
    if len(joins) > 1 or not _is_inner(joins[0]) or len(joins[0].inputs) != 2:
        raise unsupported("WITHIN for anything but one join of two streams", at,
                          "leave it out, or join two streams in a query of its own")  # fmt: skip
    for side in joins[0].inputs:
        specs = _windows(side)
        if len(specs) != 1 or specs[0].slide is not None or specs[0].partition_by:
            raise unsupported("WITHIN over windows other than [RANGE ...] and [ROWS n]", at)
        if specs[0].by_rows and memory is not None:
            raise error("WITHIN MEMORY does not apply to [ROWS n]", memory,
                        "write a smaller [ROWS n], or [RANGE ...] windows")  # fmt: skip


def _windows(node: logical.Logical) -> list[logical.WindowSpec]:
    return [n.spec for n in logical.walk(node) if isinstance(n, logical.Window)]


def _is_inner(join: logical.AnyJoin) -> bool:
    return isinstance(join, logical.Join)


def _goal(node: exp.Expr, root: logical.Logical, within: Within) -> Maximize | Sample | None:
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
    """Accept only what can be estimated: plain rows, or SUM, COUNT and AVG, each by itself."""
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
    """Bounds are known for an aggregate, not for an expression over aggregates."""
    if not isinstance(top, logical.Project):
        return
    for name, e in top.columns:
        if not isinstance(e, Column) and calls & columns(e):
            raise error(f"'{name}' has no known bounds, because it is computed from an aggregate", at,
                        "select the aggregate itself")  # fmt: skip
