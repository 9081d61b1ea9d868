"""Joins within a budget that suffices: with and without it a query returns the same."""

from __future__ import annotations

from strategies import sources
from strategies.data import NUMERIC, STRING
from strategies.expressions import condition, link, number
from strategies.scope import Context, Item, Scope
from strategies.windows import BY_TIME, window

BOUNDED = (
    "[RANGE {n}]", "[NOW]", "[RANGE 1 SECOND]", "[RANGE {n} SECONDS]", "[RANGE {n} SLIDE {k}]",
    "[RANGE {n} SECONDS SLIDE {k} SECONDS]",
)  # fmt: skip
BY_ROWS = ("[ROWS {n}]", "[PARTITION BY {keys} ROWS {n}]", "[ROWS {n} SLIDE {k}]", "[RANGE UNBOUNDED]")
OVER_SAMPLE = tuple(f for f in BY_TIME if "SESSION" not in f)
MEMORY, RATE = " WITHIN MEMORY 900 ROWS", " WITHIN RATE 900000000 PER SECOND"
GOALS = ("", " MAXIMIZE RESULTS", " MAXIMIZE RESULTS USING RECENT", " MAXIMIZE RESULTS USING RANDOM")
SAMPLES = (" SAMPLE", " SAMPLE UNIFORM", " SAMPLE CLUSTER")


def from_clause(
    ctx: Context,
    budgets: tuple[str, ...] = (RATE, *(MEMORY + goal for goal in GOALS)),
    most: int = 3,
    table: int = 4,
) -> tuple[sources.From, str]:
    """Two or three streams, a table beside one in ``table`` of them, and a budget for their join."""
    within = ctx.pick(*budgets)
    forms = (*BOUNDED, *BY_ROWS) if within == RATE else BOUNDED
    count = min(ctx.pick(2, 2, 2, 3), most, max(ctx.leaves, 2))
    found = _stream(ctx, forms)
    for _ in range(count - 1):
        _add(ctx, found, _stream(ctx, forms))
    if ctx.chance(table):
        source, alias = ctx.input("D"), ctx.alias()
        _add(ctx, found, sources.From(f"D AS {alias}", [Item(alias, source.columns, None)]))
    return found, within


def _stream(ctx: Context, forms: tuple[str, ...]) -> sources.From:
    source, alias = ctx.input(ctx.pick(*"STU")), ctx.alias()
    under, columns = window(ctx, source.columns, forms)
    return sources.From(f"{source.name} {under} AS {alias}", [Item(alias, columns, True)])


def _add(ctx: Context, found: sources.From, other: sources.From) -> None:
    found.conjuncts.append(link(ctx, found.scope, other.scope))
    found.text, found.items = f"{found.text}, {other.text}", [*found.items, *other.items]


def beside_a_table(ctx: Context) -> str:
    """A join of streams and a table, within a budget; now and then a sample."""
    if ctx.chance(3):
        found, within = from_clause(ctx, tuple(MEMORY + s for s in SAMPLES), most=2, table=1)
    else:
        found, within = from_clause(ctx, table=1)
    items = ", ".join(f"{c} AS c{n}" for n, c in enumerate(ctx.some(found.scope.columns(), 1, 3)))
    items, group = _grouped(ctx, found.scope) if ctx.chance(2) else (items, "")
    return _operator(ctx, items, group, f" FROM {found.text} WHERE {' AND '.join(found.conjuncts)}", within)


# samples


def sampled(ctx: Context) -> str:
    """A query over a sample of a join, in every place where the weights of its rows pass."""
    found, within = from_clause(ctx, tuple(MEMORY + s for s in SAMPLES), most=2)
    where = [*found.conjuncts, *(condition(ctx, found.scope) for _ in range(ctx.pick(0, 0, 1)))]
    tail = f" FROM {found.text} WHERE {' AND '.join(where)}"
    kind = ctx.pick("rows", "groups", "groups", "streamed", "in a subquery", "union")
    if kind == "groups":
        return _operator(ctx, *_grouped(ctx, found.scope), tail, within)
    if kind == "in a subquery":
        items, group = _grouped(ctx, found.scope)
        names = ", ".join(f"x.c{n}" for n in range(items.count(" AS c")))
        return f"SELECT {names} FROM (SELECT {items}{tail}{group}{within}) AS x"
    shown = [ctx.pick(*found.scope.columns()) for _ in range(2)]
    items = ", ".join(f"{c} AS c{n}" for n, c in enumerate(shown))
    if kind == "rows":
        return _operator(ctx, items, "", tail, within)
    inside = Item("x", {f"c{n}": found.scope.types[c] for n, c in enumerate(shown)})
    aggregates, group = _grouped(ctx, Scope.of([inside]))
    if kind == "union":
        other = f"SELECT {items}{tail}"
        return f"SELECT {aggregates} FROM ((SELECT {items}{tail}{within}) UNION ALL {other}) AS x{group}"
    under, _ = window(ctx, inside.columns, OVER_SAMPLE)
    streamed = f"SELECT {ctx.pick('ISTREAM', 'RSTREAM')}({items}){tail}"
    inner, outer = (within, "") if ctx.chance(2) else ("", within)
    return f"SELECT {aggregates} FROM ({streamed}{inner}) {under} AS x{group}{outer}".replace("  ", " ")


def _operator(ctx: Context, items: str, group: str, tail: str, within: str) -> str:
    operator = ctx.pick("", "ISTREAM", "RSTREAM")
    return f"SELECT {f'{operator}({items})' if operator else items}{tail}{group}{within}"


def _grouped(ctx: Context, scope: Scope) -> tuple[str, str]:
    """Aggregates that have an estimate, by groups or not."""
    n, column = number(ctx, scope), ctx.pick(*scope.columns())
    calls = ("COUNT(*)", f"COUNT({column})", f"SUM({n})", f"AVG({n})", f"SUM({n}) + COUNT(*)")
    shown = [ctx.pick(*calls) for _ in range(ctx.pick(1, 2))]
    keys = [c for c in scope.columns(NUMERIC | {STRING}) if ctx.chance(3)][:1]
    items = ", ".join(f"{e} AS c{k}" for k, e in enumerate([*keys, *shown]))
    having = f" HAVING COUNT(*) {ctx.pick('>', '<=')} {ctx.pick(1, 2)}" if ctx.chance(4) else ""
    return items, (f" GROUP BY {keys[0]}" if keys else "") + having
