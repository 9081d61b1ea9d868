"""Joins, filters and projections of time windows, of which ISTREAM ALL shows all results that enter.

Streams have their timestamps as a column ``ts``, so that ISTREAM may show them: then equal results cannot
cancel. Half of the queries have ISTREAM, to be compared with what it shows of the same joins.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from strategies.data import BIGINT
from strategies.expressions import condition, link
from strategies.scope import Context, Item, Scope
from strategies.windows import window

STAMP = "ts"
"""The column of timestamps."""
WINDOWS = ("[RANGE {n}]", "[RANGE {n}]", "[NOW]", "[RANGE {n} SECONDS]", "[RANGE {n} SLIDE {k}]",
           "[TUMBLE {n}]", "[RANGE UNBOUNDED]", "")  # fmt: skip


def query(ctx: Context) -> str:
    """A query, perhaps around a stream that is derived by one, or of both sides of UNION ALL."""
    operator = ctx.pick("ISTREAM ALL", "ISTREAM")
    if ctx.chance(6):
        under = ctx.pick("[RANGE 1]", "[RANGE UNBOUNDED]")
        sides = " UNION ALL ".join(f"({_select(ctx, 1, 1, (under,))})" for _ in range(2))
        return f"{operator}({sides})"
    if ctx.chance(5):
        inner = _select(ctx, 1, 3)
        under = ctx.pick("[NOW]", "[RANGE 2]", "[ROWS UNBOUNDED]")
        return f"SELECT x.c0, COUNT(*) AS n FROM ({operator}({inner})) {under} AS x GROUP BY x.c0"
    found = _select(ctx, 2, 3)
    if ctx.chance(2):
        return f"{operator}({found})"
    items, tail = found.removeprefix("SELECT ").split(" FROM ", 1)
    return f"SELECT {operator}({items}) FROM {tail}"


def _select(ctx: Context, shown: int, most: int, windows: tuple[str, ...] = WINDOWS) -> str:
    """A SELECT of one to three streams, now and then beside a table."""
    items, texts = [], []
    for _ in range(ctx.pick(2, 2, 1, 3) if most > 1 else 1):
        name = ctx.pick(*"STU")
        columns, alias = _stream(ctx, name), ctx.alias()
        under, columns = window(ctx, columns, windows)
        items.append(Item(alias, columns, True))
        texts.append(f"{name} {under} AS {alias}".replace("  ", " "))
    if most > 1 and ctx.chance(5):
        items.append(Item(ctx.alias(), ctx.input("D").columns, None))
        texts.append(f"D AS {items[-1].alias}")
    scope, where = Scope.of(items), []
    for one, other in pairwise(items):
        where.append(link(ctx, Scope.of([one]), Scope.of([other])))
    where += [condition(ctx, scope)] if ctx.chance(3) else []
    plain = [c for c in scope.columns() if not c.endswith((f".{STAMP}", "_start", "_end"))]
    every = ctx.chance(3)
    timed = [i for i in items if i.timed and shown > 1]
    stamps = [f"{i.alias}.{STAMP}" for i in timed if every or ctx.chance(3)]
    plain = [c for c in plain if c.endswith(".a")] if most == 1 else plain
    columns = [*(ctx.pick(*plain) for _ in range(shown)), *stamps]
    listed = ", ".join(f"{c} AS c{n}" for n, c in enumerate(columns))
    return f"SELECT {listed} FROM {', '.join(texts)}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _stream(ctx: Context, name: str) -> dict[str, str]:
    """The columns of a stream, with its timestamps."""
    source = ctx.input(name)
    if STAMP not in source.columns:
        ctx.inputs[name] = source = replace(source, columns={**source.columns, STAMP: BIGINT})
    return source.columns


def stamped(inputs: dict[str, list[Any]], schemas: dict[str, str]) -> dict[str, list[Any]]:
    """The inputs with the timestamps of rows where a stream shows them."""
    return {
        name: [(ts, {**row, STAMP: ts}) for ts, row in rows] if f"{STAMP} {BIGINT}" in schemas[name] else rows
        for name, rows in inputs.items()
    }
