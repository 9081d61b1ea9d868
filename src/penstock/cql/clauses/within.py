"""WITHIN: the budget of a query in the units of :class:`penstock.budget.Within`, and what it is used for.

It may stand at the end of any query: of a view, a derived stream, a subquery. MAXIMIZE RESULTS and SAMPLE are
checked against the query: each supports some joins and aggregates only.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from penstock.budget import CONFIDENCE, POLICIES, SCHEMES, Maximize, Sample, Within
from penstock.cql.names.context import Context
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nodes import GoalClause, RelationToStream, WithinClause
from penstock.plan import budgeted, logical
from penstock.plan.estimates import SampleError
from penstock.plan.sampled import is_sampled, sampled
from penstock.schema import SECONDS

BYTES = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def budget_of(node: exp.Expr) -> exp.Expr | None:
    """The part of a query, without the parentheses and ISTREAM( ) around it, that has a budget."""
    found = None
    while True:
        if "within" in node.meta or "goal" in node.meta:
            if found is not None:
                at = (node.meta.get("within") or [node.meta.get("goal")])[0]
                raise error("WITHIN is given twice for one query", at, "leave one of them out")
            found = node
        if not isinstance(node, exp.Subquery | RelationToStream) or not isinstance(node.this, exp.Expr):
            return found
        node = node.this


def with_budget(root: logical.Logical, node: exp.Expr, context: Context) -> logical.Logical:
    """The plan of a query whose join keeps a budget; rejects queries that cannot keep it."""
    clauses: list[WithinClause] = node.meta.get("within") or []
    goal: GoalClause | None = node.meta.get("goal")
    at: exp.Expr = clauses[0] if clauses else goal or node
    join = _join(root, at)
    within = _within(clauses)
    within = replace(within, goal=_goal(goal, within)) if goal else within
    memory = next((c for c in clauses if c.args["kind"] == "memory"), goal)
    _check_sides(join, within, memory or at)
    if goal:
        _check_goal(join, within, goal)
    joins = sum(not p.is_static for p in join.parts) - 1
    if joins > 1:
        among = f"{joins} joins of two inputs each"
        context.note(f"WITHIN is divided equally among {among}, which is a heuristic")
    try:
        return budgeted.replaced(root, join, budgeted.with_budget(join, within))
    except budgeted.UnlinkedError:
        raise unsupported("WITHIN for streams that only a table joins", at,
                          "join a stream with the table in a subquery in FROM") from None  # fmt: skip


def _within(clauses: list[WithinClause]) -> Within:
    if not clauses:
        return Within(shared=True)
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
    counts = {n: int(budget[n]) for n in ("rows", "bytes") if n in budget}
    rates = {n: float(v) for n, v in budget.items() if n not in counts}
    return Within(**rates, **counts, before_windows=any(map(_before_windows, clauses)))  # type: ignore[arg-type]


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


def _join(root: logical.Logical, at: exp.Expr) -> logical.Join:
    """The join that a budget at the end of a query is for."""
    joins = budgeted.own_joins(root)
    if not joins and any(budgeted.budgets(root)):
        raise error("the join that WITHIN is for has a budget of its own", at, "leave one of them out")
    if not joins:
        raise error("WITHIN applies to a join, and this query has none", at, "leave WITHIN out")
    if len(joins) > 1:
        raise unsupported("WITHIN over several joins", at, "write it in the query of each, in parentheses")
    if not isinstance(joins[0], logical.Join):
        raise unsupported("WITHIN for an outer join, EXISTS or IN of streams", at,
                          "write an inner join, or leave it out")  # fmt: skip
    return joins[0]


def _check_sides(join: logical.Join, within: Within, at: exp.Expr) -> None:
    """Accept windows; where memory is limited, those whose rows leave at a time that is known on arrival."""
    limited = within.rows is not None or within.bytes is not None or within.shared
    for side in (p for p in join.parts if not p.is_static):
        if any(s.is_bounded for s in _windows(side)):
            raise unsupported("WITHIN over [TUMBLE ...], [HOP ...] or [SESSION ...]", at,
                              "leave it out, or write [RANGE ...] windows")  # fmt: skip
        by_rows = any(s.by_rows for s in _windows(side))
        if limited and any(n.is_static for n in logical.walk(side)):
            raise unsupported("WITHIN MEMORY for a stream that a subquery joins with a table", at,
                              "name the table in FROM beside the streams")  # fmt: skip
        if by_rows and limited:
            grouped = any(s.partition_by for s in _windows(side))
            form = "[PARTITION BY ... ROWS n]" if grouped else "[ROWS n]"
            message = f"WITHIN MEMORY does not apply to {form}: when a row leaves is not known on arrival"
            raise error(message, at, "write a smaller n, a [RANGE ...] window, or WITHIN RATE")
        if (budgeted.changes_in_any_way(side) and not by_rows) or not _windows(side):
            raise unsupported("WITHIN for a relation that is not a window of a stream", at,
                              "leave it out, or join a stream with a window")  # fmt: skip


def _check_goal(join: logical.Join, within: Within, at: GoalClause) -> None:
    """MAXIMIZE RESULTS and SAMPLE take bounded windows; SAMPLE takes two."""
    sides = [p for p in join.parts if not p.is_static]
    if any(side.longest_life is None for side in sides):
        raise error(f"{within.goal_name} needs bounded windows", at, "write [RANGE ...] windows")
    if isinstance(within.goal, Sample) and len(sides) > 2:
        hint = "sample the join of two in a subquery in FROM, and join the others with it"
        raise unsupported("SAMPLE of a join of more than two streams", at, hint)


def _windows(node: logical.Logical) -> list[logical.WindowSpec]:
    """The windows right below a side of a join, without those of derived streams."""
    if isinstance(node, logical.Window):
        return [node.spec]
    return [spec for i in node.inputs for spec in _windows(i)]


def _goal(clause: GoalClause, within: Within) -> Maximize | Sample:
    """The goal that stands after a budget."""
    name = "MAXIMIZE RESULTS" if clause.args["kind"] == "maximize" else "SAMPLE"
    if within.rows is None and within.bytes is None and not within.shared:
        raise error(f"{name} needs WITHIN MEMORY", clause,
                    "write e.g. WITHIN MEMORY 20000 ROWS")  # fmt: skip
    if within.rate is not None:
        raise unsupported(f"{name} together with WITHIN RATE", clause, "leave WITHIN RATE out")
    if within.least_memory:
        raise unsupported(f"AT LEAST together with {name}", clause, "leave AT LEAST out")
    if clause.args["kind"] == "maximize":
        return Maximize(_one_of(clause, POLICIES, "a policy"))
    return Sample(_one_of(clause, SCHEMES, "a sampling scheme"), _confidence(clause))


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
        return CONFIDENCE
    if not 0.0 < float(level.name) < 1.0:
        raise error(f"CONFIDENCE {level.name} is not between 0 and 1", level, "write e.g. CONFIDENCE 0.95")
    return float(level.name)


def check_sampled(root: logical.Logical, node: exp.Expr) -> tuple[str, ...]:
    """Reject what has no estimate from a sample; returns notes on what is approximate."""
    if not is_sampled(root):
        return ()
    goals = (n.meta["goal"] for n in node.walk() if "goal" in n.meta)
    at = next((g for g in goals if g.args["kind"] == "sample"), node)
    try:
        _, notes = sampled(root)
    except SampleError as failure:
        raise error(str(failure), at, failure.hint) from None
    confident = isinstance(at, GoalClause) and at.args.get("confidence") is not None
    if confident and not any(isinstance(n, logical.Aggregate) for n in logical.walk(root)):
        raise error("CONFIDENCE applies to SUM, COUNT and AVG, and this query has none of them", at,
                    "leave it out")  # fmt: skip
    return notes
