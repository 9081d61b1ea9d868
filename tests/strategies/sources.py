"""FROM: streams, relations, tables, subqueries and derived streams, joined in every way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from strategies import selects, w_joins
from strategies.data import COLUMNS, INT, TABLE
from strategies.expressions import condition, constant, link, test
from strategies.scope import Context, Item, Scope
from strategies.windows import BY_TIME, FORMS, window

JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT OUTER JOIN", "FULL OUTER JOIN", "SEMI JOIN",
         "ANTI JOIN")  # fmt: skip
NAMED = re.compile(r"\w+(?: \[[^\]]*\])? AS \w+")
"""An input by its name."""


@dataclass
class Part:
    """A piece of FROM, and what it puts in sight."""

    text: str
    items: list[Item]

    @property
    def scope(self) -> Scope:
        return Scope.of(self.items)


@dataclass
class From:
    """A FROM clause: its text, what is in sight, and what it leaves to WHERE."""

    text: str
    items: list[Item]
    conjuncts: list[str] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        return Scope.of(self.items)

    @property
    def timed(self) -> bool:
        """Whether its rows have a time: the latest of their parts'."""
        parts = {i.timed for i in self.items}
        return True in parts and False not in parts


def from_clause(ctx: Context, depth: int, most: int = 4, static: bool = False) -> From:
    """One to four items with commas and joins between; ``static``: all of them may be tables."""
    count = min(ctx.pick(1, 1, 1, 1, 2, 2, 2, 3, 3, 4), most, max(ctx.leaves, 1))
    first = item(ctx, depth, static)
    result, group, crossed = From(first.text, first.items), first, False
    for place in range(count - 1):
        other = _nested(ctx, depth) if ctx.leaves > 1 and ctx.chance(10) else item(ctx, depth, True)
        form = ctx.pick("comma", "comma", "comma", "join", "join", "join", "using", "cross")
        if form == "cross" and not crossed:
            result.text, crossed = f"{result.text} CROSS JOIN {other.text}", True
        elif form in ("comma", "cross"):
            result.conjuncts.append(link(ctx, result.scope, other.scope))
            result.text, group = f"{result.text}, {other.text}", Part("", [])
        else:
            sight = _join(ctx, result, group, other, form == "using", depth if place == count - 2 else 0)
            group.items, result.items = [*group.items, *sight], [*result.items, *sight]
            continue
        group.items, result.items = [*group.items, *other.items], [*result.items, *other.items]
    if count > 1 and ctx.chance(6):
        result.conjuncts.append(link(ctx, result.scope, result.scope))
    streams = [i.alias for i in result.items if i.timed]
    if len(streams) > 1 and ctx.chance(6) and not any(f"{k} JOIN" in result.text for k in ("SEMI", "ANTI")):
        result.text += w_joins.between(ctx, streams)
    return result


def _join(ctx: Context, result: From, group: Part, other: Part, using: bool, depth: int) -> list[Item]:
    """Add a join to the last group of items; gives what it puts in sight."""
    kind = ctx.pick(*JOINS)
    if using and all("a" in i.columns for i in (group.items[0], *other.items)) and len(group.items) == 1:
        natural = _natural(ctx, result, group, other)
        if natural:
            result.text = f"{result.text} {natural}"
            return other.items
        on = "USING (a)" if len(other.items) == 1 else ""
        if on:
            result.text = f"{result.text} {kind} {other.text} {on}"
            return [] if kind in ("SEMI JOIN", "ANTI JOIN") else other.items
    conjuncts = [link(ctx, group.scope, other.scope)]
    if ctx.chance(4):
        conjuncts.append(link(ctx, group.scope, other.scope))
    if ctx.chance(4):
        conjuncts.append(test(ctx, Scope.of([*group.items, *other.items])))
    if depth > 0 and ctx.leaves > 0 and ctx.chance(4):
        both = Scope.of([*group.items, *other.items])
        inner = kind == "JOIN"  # of other joins a subquery is a value, and refers to one side
        side = both if inner else ctx.pick(group.scope, other.scope)
        draw = selects.subqueries.subquery_condition if inner else selects.subqueries.truth
        conjuncts.append(draw(ctx, side, depth))
    if kind != "JOIN" and ctx.chance(10):
        conjuncts = [condition(ctx, group.scope if ctx.chance(2) else other.scope)]
    of_one = kind in ("SEMI JOIN", "ANTI JOIN")
    if of_one and NAMED.fullmatch(result.text) and NAMED.fullmatch(other.text) and ctx.chance(3):
        result.text = f"{result.text} RIGHT {kind} {other.text} ON {' AND '.join(conjuncts)}"
        result.items, group.items = [], []
        return other.items
    result.text = f"{result.text} {kind} {other.text} ON {' AND '.join(conjuncts)}"
    return [] if of_one else other.items


def _natural(ctx: Context, result: From, group: Part, other: Part) -> str:
    """NATURAL JOIN, where both sides are inputs without other columns than their own; or nothing."""
    sides = [*group.items, *other.items]
    bounds = any(name.startswith("window_") for side in sides for name in side.columns)
    if bounds or not NAMED.fullmatch(result.text) or not NAMED.fullmatch(other.text) or not ctx.chance(3):
        return ""
    common = [name for name in sides[0].columns if name in sides[1].columns]
    return f"NATURAL {ctx.pick('JOIN', 'LEFT JOIN', 'FULL JOIN')} {other.text} /* by {', '.join(common)} */"


def _nested(ctx: Context, depth: int) -> Part:
    """A join in parentheses."""
    left, right = item(ctx, depth, True), item(ctx, depth, True)
    kind = ctx.pick("JOIN", "LEFT JOIN", "FULL JOIN")
    on = link(ctx, left.scope, right.scope)
    return Part(f"({left.text} {kind} {right.text} ON {on})", [*left.items, *right.items])


def item(ctx: Context, depth: int, static: bool) -> Part:
    """One FROM item."""
    kinds = ["stream"] * 6
    if ctx.relations:
        kinds += ["relation"] * 2
    if static:
        kinds += ["table", "values"]
    if depth > 0:
        kinds += ["subquery"] * 3 + ["derived"] * 3
    kind = ctx.pick(*kinds)
    if kind == "subquery":
        query, columns = selects.query(ctx, depth - 1, static=static)
        alias = ctx.alias()
        if "OVER (" in query.split(" FROM ", 1)[0]:
            last = list(columns)[-1]
            query = f"SELECT * FROM ({query}) AS w WHERE w.{last} {ctx.pick('<=', '=', '<')} {ctx.pick(1, 2)}"
        text, columns = ctx.renamed(query, columns)
        return Part(f"{text} AS {alias}", [Item(alias, columns)])
    if kind == "derived":
        return derived(ctx, depth)
    if kind == "values":
        return _values(ctx)
    names = {"stream": "STU", "relation": "RQ", "table": "D"}[kind]
    return named(ctx, ctx.pick(*names))


def named(ctx: Context, name: str) -> Part:
    """An input by its name, under a window."""
    source, alias = ctx.input(name), ctx.alias()
    text, columns = name, source.columns
    if source.kind not in (TABLE, "relation"):
        under, columns = window(ctx, columns)
        text = f"{name} {under}".rstrip()
    timed = None if source.kind in (TABLE, "relation") else True
    return Part(f"{text} AS {alias}", [Item(alias, columns, timed)])


def _values(ctx: Context) -> Part:
    """A table of constants."""
    columns = {"a": INT, **{c: COLUMNS[c] for c in ctx.some("bst", 0, 2)}}
    first = ", ".join(constant(ctx, t) for t in columns.values())
    rows = [", ".join(_constant(ctx, t) for t in columns.values()) for _ in range(ctx.pick(1, 0, 2, 3))]
    alias = ctx.alias()
    every = ", ".join(f"({row})" for row in (first, *rows))
    return Part(f"(VALUES {every}) AS {alias} ({', '.join(columns)})", [Item(alias, columns, None)])


def _constant(ctx: Context, type_: str) -> str:
    return "NULL" if ctx.chance(6) else constant(ctx, type_)


def derived(ctx: Context, depth: int) -> Part:
    """A query that gives a stream, under a window."""
    if ctx.chance(6):
        query, columns = _growing(ctx)
        forms = tuple(f for f in FORMS if f)
    else:
        query, columns = selects.stream(ctx, depth - 1)
        forms = FORMS if ctx.chance(3) and ctx.rows_of_derived else BY_TIME
    alias = ctx.alias()
    under, columns = window(ctx, columns, forms)
    text = f"{ctx.view(query, 'STREAM')} {under}".rstrip()
    return Part(f"{text} AS {alias}", [Item(alias, columns, True)])


def _growing(ctx: Context) -> tuple[str, dict[str, str]]:
    """A query whose result only grows: a stream without saying so."""
    source, alias = ctx.input(ctx.pick(*"STU")), ctx.alias()
    where = f" WHERE {test(ctx, Scope.of([Item(alias, source.columns)]))}" if ctx.chance(2) else ""
    return f"SELECT * FROM {source.name} AS {alias}{where}", source.columns
