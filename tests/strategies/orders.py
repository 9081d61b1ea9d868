"""Order: the first rows of a relation, and ranks."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.data import INT, ROUGH
from strategies.scope import Context, Scope

ORDERS = ("", " DESC", " ASC", " DESC NULLS FIRST", " NULLS LAST")


def first_rows(ctx: Context, columns: dict[str, str], beside: Scope | None = None, one_in: int = 6) -> str:
    """ORDER BY and LIMIT over columns of the result and those ``beside``, or nothing."""
    if ROUGH in columns.values() or not ctx.chance(one_in):
        return ""
    keys = ctx.some([*columns, *(beside.columns() if beside else ()), "1"], 1, 2)
    order = ", ".join(f"{k}{ctx.pick(*ORDERS)}" for k in keys)
    offset = ctx.pick("", "", " OFFSET 1", " OFFSET 2")
    return f" ORDER BY {order} /* then {', '.join(columns)} */ LIMIT {ctx.pick(1, 2, 3, 5)}{offset}"


Typed = tuple[str, str]


def rank(ctx: Context, items: Sequence[Typed], scope: Scope) -> tuple[list[tuple[str, Typed]], str]:
    """A rank, with its name, beside the items of a SELECT list, and a QUALIFY clause; most often neither."""
    exact = all(type_ != ROUGH and "SELECT" not in text for text, type_ in items)
    if not exact or not ctx.chance(7):
        return [], ""
    shown = [text for text, _ in items if not text.lstrip("-").isdigit()]
    known = [*shown, *scope.columns()]
    if not known:
        return [], ""
    groups = ctx.some(known, 0, 2)
    order = ", ".join(f"{k}{ctx.pick(*ORDERS)}" for k in ctx.some(known, 1, 2))
    ties = f" /* then {', '.join(shown)} */" if shown else ""
    kind = ctx.pick("ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK")
    ties = ties if kind == "ROW_NUMBER" else ""
    by = f"PARTITION BY {', '.join(groups)} " if groups else ""
    call = f"{kind}() OVER ({by}ORDER BY {order}{ties})"
    limit = f"{ctx.pick('<=', '<=', '=', '<', '>')} {ctx.pick(1, 2, 3)}"
    if ctx.chance(3):
        return [], f" QUALIFY {call} {limit}"
    name = f"n{ctx.aliases}"
    return [(name, (call, INT))], f" QUALIFY {name} {limit}" if ctx.chance(2) else ""
