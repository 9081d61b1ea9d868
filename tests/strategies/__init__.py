"""Hypothesis strategies: queries from the whole language, and small finite inputs for them.

They only draw what the language accepts and what has one answer everywhere: doubles are multiples of a
quarter (sums are exact in any order), an average is never added up, deviations are rounded, nothing divides
by zero, nothing overflows, every join is linked, a scalar subquery has one row.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from strategies import selects
from strategies.case import Case
from strategies.data import LAST_INSTANT, NUMERIC, STRING, TABLE, VALUES, Draw, elements
from strategies.scope import Context

__all__ = ["Case", "cases", "long_cases"]


def _query(ctx: Context, depth: int) -> str:
    if ctx.chance(2):
        return selects.stream(ctx, depth, ("I", "D", "R"))[0]
    return selects.query(ctx, depth)[0]


@st.composite
def cases(draw: Draw, depth: int | None = None) -> Case:
    """A query with inputs for it."""
    ctx = Context(draw)
    cql = _query(ctx, ctx.pick(0, 0, 1, 1, 2, 2, 3) if depth is None else depth)
    most = {1: 12, 2: 8, 3: 6}.get(ctx.aliases, 5)
    inputs = {name: elements(draw, source, most) for name, source in ctx.inputs.items()}
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    until = ctx.pick(None, None, *range(LAST_INSTANT, LAST_INSTANT + 7), 0, 5, 10)
    return Case(cql, inputs, schemas, until)


@st.composite
def long_cases(draw: Draw) -> Case:
    """A query of one or two items over streams of hundreds of rows, to make stores grow and forget."""
    ctx = Context(draw, leaves=2, relations=False)
    cql = _query(ctx, 0)
    size = r"\[(ROWS|RANGE) (\d)( SECONDS)?\]"
    cql = re.sub(size, lambda m: f"[{m[1]} {int(m[2]) * 7}{m[3] or ''}]", cql)
    cql = cql.replace("CROSS JOIN", "JOIN") if "CROSS JOIN" not in cql else cql
    random = draw(st.randoms(use_true_random=False))
    inputs: dict[str, list[Any]] = {}
    for name, source in ctx.inputs.items():
        count = 20 if source.kind == TABLE else 60 if "CROSS" in cql else 300
        stamps = sorted(random.randrange(150) for _ in range(count))
        rows = [{c: _wide(random, t) for c, t in source.columns.items()} for _ in stamps]
        inputs[name] = rows if source.kind == TABLE else list(zip(stamps, rows, strict=True))
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    return Case(cql, inputs, schemas, 200)


def _wide(random: Any, type_: str) -> Any:
    """A value from a domain wide enough that keys come and go."""
    value = random.choice(VALUES[type_])
    if type_ == STRING and value:
        return f"{value}{random.randrange(40)}"
    return value + random.randrange(60) if type_ in NUMERIC and value is not None else value
