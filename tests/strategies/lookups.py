"""Streams without window beside a table: each row meets the table as it is at the row's own instant."""

from __future__ import annotations

import re

from strategies import selects
from strategies.expressions import condition, link, test
from strategies.scope import Context, Item, Scope

JOINS = (",", ",", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "IN", "NOT IN", "EXISTS")


def query(ctx: Context) -> tuple[str, str]:
    """A query, and what it means if the table is a relation.

    The rows of the stream with what they meet at their own instants are RSTREAM over [NOW].
    """
    name = ctx.pick(*"STU")
    stream, table = (Item(f"r{n}", ctx.input(i).columns, True) for n, i in enumerate((name, "D")))
    ctx.aliases = 2
    join = ctx.pick(*JOINS)
    where = [condition(ctx, Scope.of([stream]))] if ctx.chance(3) else []
    text, seen = f"{name}{{}} AS r0", [stream]
    pair = link(ctx, Scope.of([stream]), Scope.of([table]))
    if join in ("IN", "NOT IN"):
        inner = f" WHERE {test(ctx, Scope.of([table]))}" if ctx.chance(2) else ""
        where.append(f"r0.a {join} (SELECT r1.a FROM D AS r1{inner})")
    elif join == "EXISTS":
        where.append(f"{ctx.pick('', 'NOT ')}EXISTS (SELECT 1 FROM D AS r1 WHERE {pair})")
    elif join == ",":
        text, seen = f"{text}, D AS r1", [stream, table]
        where.append(pair)
    else:
        text = f"{text} {join} D AS r1 ON {pair}"
        seen = [stream] if "I JOIN" in join else [stream, table]
    tail = f" FROM {text}" + (f" WHERE {' AND '.join(where)}" if where else "")
    return _both(ctx, tail, Scope.of(seen))


def _both(ctx: Context, tail: str, scope: Scope) -> tuple[str, str]:
    """The query, some of its columns or aggregates of them, and its meaning."""
    columns = scope.columns()
    shown = ctx.some(columns, 1, 3)
    items, group = ", ".join(f"{c} AS c{n}" for n, c in enumerate(shown)), ""
    if ctx.chance(2):
        calls = [selects.aggregate(ctx, scope)[0] for _ in range(ctx.pick(1, 2))]
        keys = shown[:1] if ctx.chance(2) else []
        items = ", ".join(f"{e} AS c{n}" for n, e in enumerate([*keys, *calls]))
        group = f" GROUP BY {keys[0]}" if keys else ""
    distinct = "DISTINCT " if ctx.chance(6) else ""
    every = ", ".join(f"{c} AS {_name(c)}" for c in columns)
    met = f"SELECT RSTREAM({every}){tail.format(' [NOW]')}"
    own, by = (re.sub(r"\br[01]\.\w+", lambda m: f"x.{_name(m[0])}", text) for text in (items, group))
    meaning = f"SELECT {distinct}{own} FROM ({met}) AS x{by}"
    return f"SELECT {distinct}{items}{tail.format('')}{group}", meaning


def _name(column: str) -> str:
    return column.replace(".", "_")
