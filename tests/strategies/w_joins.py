"""Windows between the streams of FROM, in all their forms."""

from __future__ import annotations

from itertools import pairwise

from strategies import sources
from strategies.expressions import link
from strategies.scope import Context, Item, Scope
from strategies.windows import window

OWN = (
    "", "", "", "", "[RANGE {n}]", "[NOW]", "[ROWS {n}]", "[RANGE {n} SLIDE {k}]", "[RANGE UNBOUNDED]",
    "[PARTITION BY {keys} ROWS {n}]", "[TUMBLE {n}]",
)  # fmt: skip
TIMED = ("", "", "", "", "", "[RANGE {n}]", "[RANGE {n} SECONDS]", "[RANGE UNBOUNDED]", "[NOW]")


def from_clause(ctx: Context, depth: int) -> sources.From:
    """Two to five streams, perhaps a relation or table beside them, with windows between the streams."""
    count = min(ctx.pick(2, 2, 3, 3, 4, 5), max(ctx.leaves, 2))
    found = _stream(ctx)
    for _ in range(count - 1):
        other = sources.derived(ctx, depth) if depth > 0 and ctx.chance(5) else _stream(ctx)
        _add(ctx, found, other, linked=ctx.chance(2))
    if ctx.chance(5):
        source, alias = ctx.input(ctx.pick("D", "R")), ctx.alias()
        beside = sources.Part(f"{source.name} AS {alias}", [Item(alias, source.columns, None)])
        _add(ctx, found, beside, linked=True)
    found.text += between(ctx, [i.alias for i in found.items if i.timed])
    return found


def _stream(ctx: Context, forms: tuple[str, ...] = OWN) -> sources.From:
    source, alias = ctx.input(ctx.pick(*"STU")), ctx.alias()
    under, columns = window(ctx, source.columns, forms)
    return sources.From(f"{source.name} {under} AS {alias}".replace("  ", " "), [Item(alias, columns, True)])


def _add(ctx: Context, found: sources.From, other: sources.From | sources.Part, linked: bool) -> None:
    if linked:
        found.conjuncts.append(link(ctx, found.scope, other.scope))
    found.text, found.items = f"{found.text}, {other.text}", [*found.items, *other.items]


def query(ctx: Context) -> str:
    """Two to six streams under windows of time with windows between them, and little else."""
    found = _stream(ctx, TIMED)
    for _ in range(ctx.pick(1, 2, 2, 3, 3, 4, 5)):
        _add(ctx, found, _stream(ctx, TIMED), linked=False)
    names = [i.alias for i in found.items]
    common = ctx.pick((), (), names, names, ctx.some(names, 2, len(names)))
    where = [f"{a}.a = {b}.a" for a, b in pairwise(common)]
    if ctx.chance(3):
        where.append(link(ctx, *(Scope.of([i]) for i in ctx.some(found.items, 2, 2))))
    shown = [ctx.pick(*found.scope.columns()) for _ in range(2)]
    items = ", ".join(f"{c} AS c{n}" for n, c in enumerate(shown))
    operator = ctx.pick("", "ISTREAM", "ISTREAM", "DSTREAM", "RSTREAM")
    tail = f" FROM {found.text}{between(ctx, names)}" + (f" WHERE {' AND '.join(where)}" if where else "")
    if ctx.chance(4):
        return f"SELECT {shown[0]} AS c0, COUNT(*) AS n{tail} GROUP BY {shown[0]}"
    return f"SELECT {f'{operator}({items})' if operator else items}{tail}"


def between(ctx: Context, streams: list[str]) -> str:
    """Windows that connect all streams."""
    form = ctx.pick("one", "pairs", "pairs", "path")
    if form == "one":
        return f" WINDOW {ctx.pick('', '= ')}{_length(ctx)}"
    order = ctx.some(streams, len(streams), len(streams))
    if form == "path":
        sizes = ", ".join(_length(ctx) for _ in order[1:])
        return f" WINDOW PATH ({', '.join(order)}) {ctx.pick('= ', '')}({sizes})"
    pairs = [(ctx.pick(*order[:k]), name) for k, name in enumerate(order) if k]
    pairs += [tuple(ctx.some(order, 2, 2)) for _ in range(ctx.pick(0, 0, 1, 2))]
    return " " + " AND ".join(_pair(ctx, *pair) for pair in pairs)


def _pair(ctx: Context, one: str, other: str) -> str:
    word = ctx.pick("WINDOW", "WINDOW", "DWINDOW")
    one, other = ctx.pick((one, other), (other, one))
    return f"{word} ({one}, {other}) {ctx.pick('', '= ')}{_length(ctx)}"


def _length(ctx: Context) -> str:
    return ctx.pick("2", "1", "3 SECONDS", "0", "1 SECOND", "5 SECONDS")
