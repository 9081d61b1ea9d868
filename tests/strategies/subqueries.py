"""Subqueries in expressions: EXISTS, IN and scalar ones, correlated or not."""

from __future__ import annotations

from collections.abc import Callable

from strategies import sources
from strategies.data import BIGINT, INT, NUMBER, NUMERIC, ROUGH, TIMES
from strategies.expressions import condition, constant, link, number, test
from strategies.scope import Context, Scope

Where = Callable[[tuple[str, ...]], str]
"""Makes a WHERE clause, given the signs it may be correlated by besides equality."""
AGGREGATES = ("COUNT(*)", "COUNT({c})", "COUNT(DISTINCT {c})", "SUM({n})", "MIN({n})", "MAX({n})")


def subquery_condition(ctx: Context, scope: Scope, depth: int) -> str:
    """A condition with a subquery, as a conjunct or within a larger one."""
    form = ctx.pick("plain", "plain", "plain", "plain", "or", "not")
    if form == "plain":
        return _conjunct(ctx, scope, depth)
    inner = truth(ctx, scope, depth)
    return f"({inner} OR {test(ctx, scope)})" if form == "or" else f"NOT ({inner} AND {test(ctx, scope)})"


def _conjunct(ctx: Context, scope: Scope, depth: int) -> str:
    kind = ctx.pick("exists", "in", "scalar", "quantified")
    if kind == "quantified":
        return _quantified(ctx, scope, depth, ("<", "<>"))
    if kind == "exists":
        signs = ("<", "<=", "<>")
        return f"{ctx.pick('', 'NOT ')}EXISTS ({_rows(ctx, scope, depth, signs)})"
    if kind == "in":
        return _in_columns(ctx, scope, depth) if ctx.chance(6) else _in(ctx, scope, depth, ("<", "<>"))
    sign = ctx.pick("<", ">=", "=", "<>")
    return f"{number(ctx, scope)} {sign} {scalar(ctx, scope, depth)}"


def truth(ctx: Context, scope: Scope, depth: int) -> str:
    """A truth value that a subquery gives; correlated by equality if at all."""
    if ctx.chance(5):
        return _quantified(ctx, scope, depth, ())
    if ctx.chance(2):
        return f"{ctx.pick('', 'NOT ')}EXISTS ({_rows(ctx, scope, depth, ())})"
    return _in(ctx, scope, depth, ())


def _rows(ctx: Context, scope: Scope, depth: int, signs: tuple[str, ...]) -> str:
    """A subquery of EXISTS."""
    found, where = _from(ctx, scope, depth)
    if ctx.chance(5):
        key = ctx.pick(*found.scope.columns())
        return f"SELECT {key} FROM {found.text}{where(('=',))} GROUP BY {key} HAVING COUNT(*) > 1"
    shown = ctx.pick("1", "*", ctx.pick(*found.scope.columns()))
    return f"SELECT {shown} FROM {found.text}{where(signs)}"


def _in(ctx: Context, scope: Scope, depth: int, signs: tuple[str, ...]) -> str:
    word = ctx.pick("IN", "NOT IN")
    found, where = _from(ctx, scope, depth)
    if ctx.chance(6):
        call = aggregate_of(ctx, found.scope)
        return f"{number(ctx, scope)} {word} (SELECT {call} FROM {found.text}{_plain_where(found)})"
    columns = [(m, n) for m, s in scope.types.items() for n, t in found.scope.types.items() if _alike(s, t)]
    if not columns:
        shown = number(ctx, found.scope)
        return f"{constant(ctx, INT)} {word} (SELECT {shown} FROM {found.text}{where(signs)})"
    one, other = ctx.pick(*columns)
    if ctx.chance(8):
        first = f" ORDER BY {other} {ctx.pick('', 'DESC')} LIMIT {ctx.pick(1, 2)}"
        return f"{one} {word} (SELECT {other} FROM {found.text}{where(())}{first})"
    distinct = "DISTINCT " if ctx.chance(6) else ""
    return f"{one} {word} (SELECT {distinct}{other} FROM {found.text}{where(signs)})"


def _in_columns(ctx: Context, scope: Scope, depth: int) -> str:
    """IN of two columns, which is a conjunct of its own; DuckDB has it without correlation."""
    found = sources.from_clause(ctx, depth - 1, most=2, static=True)
    columns = [(m, n) for m, s in scope.types.items() for n, t in found.scope.types.items() if _alike(s, t)]
    if not columns:
        return f"EXISTS (SELECT 1 FROM {found.text}{_plain_where(found)})"
    (one, other), (more, another) = ctx.pick(*columns), ctx.pick(*columns)
    inside = f"SELECT {other}, {another} FROM {found.text}{_plain_where(found)}"
    return f"({one}, {more}) {ctx.pick('IN', 'NOT IN')} ({inside})"


def _quantified(ctx: Context, scope: Scope, depth: int, signs: tuple[str, ...]) -> str:
    """A comparison with ANY or ALL of a subquery."""
    found, where = _from(ctx, scope, depth)
    sign, word = ctx.pick("=", "<>", "<", "<=", ">", ">="), ctx.pick("ANY", "ALL")
    inner = f"SELECT {number(ctx, found.scope)} FROM {found.text}{where(signs)}"
    test = f"{number(ctx, scope)} {sign} {word} ({inner})"
    return f"NOT ({test})" if ctx.chance(4) else f"({test})"


def _of_key(ctx: Context, outer: str) -> str:
    """A correlated subquery without an aggregate of its own, over groups: one row per key."""
    part, alias = sources.named(ctx, ctx.pick(*"STU")), ctx.alias()
    key = f"{part.items[0].alias}.a"
    groups = f"SELECT {key} AS k, MAX({number(ctx, part.scope)}) AS m FROM {part.text} GROUP BY {key}"
    return f"(SELECT {alias}.m FROM ({groups}) AS {alias} WHERE {alias}.k = {outer})"


def scalar(ctx: Context, scope: Scope, depth: int) -> str:
    """A scalar subquery, of one row at most."""
    whole = scope.columns({INT, BIGINT})
    if whole and ctx.chance(5):
        return _of_key(ctx, ctx.pick(*whole))
    if ctx.chance(4):
        source, alias = ctx.input(ctx.pick(*"STU")), ctx.alias()
        inner = Scope({f"{alias}.{n}": t for n, t in source.columns.items()})
        window = ctx.pick("[ROWS 1]", "[ROWS 1 SLIDE 2]")
        return f"(SELECT {number(ctx, inner)} FROM {source.name} {window} AS {alias})"
    if ctx.chance(6):
        found = sources.from_clause(ctx, depth - 1, most=2, static=True)
        shown = number(ctx, found.scope)
        shown = f"({shown} + 0)" if shown.lstrip("-").isdigit() else shown
        return f"(SELECT {shown} FROM {found.text}{_plain_where(found)} ORDER BY {shown} DESC LIMIT 1)"
    found, where = _from(ctx, scope, depth)
    return f"(SELECT {aggregate_of(ctx, found.scope)} FROM {found.text}{where(())})"


def aggregate_of(ctx: Context, scope: Scope) -> str:
    """An aggregate whose value is an exact number."""
    return ctx.pick(*AGGREGATES).format(c=ctx.pick(*scope.columns()), n=number(ctx, scope))


def _from(ctx: Context, scope: Scope, depth: int) -> tuple[sources.From, Where]:
    """A subquery's FROM, and how to make its WHERE: correlated by equality or one of some signs, or not."""
    found = sources.from_clause(ctx, depth - 1, most=2, static=True)
    conjuncts = list(found.conjuncts)
    correlated = bool(scope.types) and ctx.chance(2)

    def where(signs: tuple[str, ...]) -> str:
        if correlated:
            pair = link(ctx, scope, found.scope, ())
            sign = ctx.pick("=", "=", "=", *signs)
            conjuncts.append(pair.replace(" = ", f" {sign} ") if " IS NULL" not in pair else "1 = 1")
        if ctx.chance(3):
            conjuncts.append(condition(ctx, found.scope))
        return f" WHERE {' AND '.join(conjuncts)}" if conjuncts else ""

    return found, where


def _plain_where(found: sources.From) -> str:
    return f" WHERE {' AND '.join(found.conjuncts)}" if found.conjuncts else ""


def _alike(one: str, other: str) -> bool:
    return one == other != ROUGH or {one, other} <= NUMERIC | {NUMBER} or {one, other} <= TIMES
