"""Random cases: queries from the whole language, and small finite inputs for them.

They only draw what the language accepts and what has one answer everywhere: doubles are multiples of a
quarter (sums are exact in any order), an average is never added up, deviations are rounded, nothing divides
by zero, nothing overflows, every join is linked, a scalar subquery has one row.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from strategies import all_that_enter, budgets, lookups, selects, w_joins
from strategies.case import Case
from strategies.choices import Choices, minimal, seeds
from strategies.data import LAST_INSTANT, NUMERIC, RELATION, STRING, TABLE, VALUES, elements
from strategies.scope import Context

__all__ = [
    "Case", "Choices", "cases", "draw_all_that_enter", "draw_case", "draw_long_case", "draw_queries",
    "draw_table_case", "draw_w_join", "minimal",
]  # fmt: skip


def _query(ctx: Context, depth: int) -> str:
    """A query, after the views that it reads."""
    if ctx.leaves > 1 and ctx.chance(20):
        return budgets.sampled(ctx)
    stream = ctx.chance(2)
    cql, _ = selects.stream(ctx, depth, ("I", "I", "D", "R")) if stream else selects.query(ctx, depth)
    return "".join(f"CREATE {view}; " for view in ctx.views) + cql


def _elements(choices: Choices, sources: dict[str, Any], most: int, cql: str) -> dict[str, list[Any]]:
    """Elements of the inputs. Under WINDOW a relation has some: without, it would be read as a stream."""
    found = {name: elements(choices, source, most) for name, source in sources.items()}
    for name, source in sources.items():
        if "WINDOW" in cql and source.kind == RELATION and not found[name]:
            found[name] = [(0, "+", dict.fromkeys(source.columns))]
    return found


def draw_case(choices: Choices, depth: int | None = None, rows_of_derived: bool = True) -> Case:
    """A query with inputs for it."""
    # Most queries are small: then little stands between an operator and the result.
    leaves = choices.pick(1, 1, 2, 2, 3, 3, 4, 5)
    ctx = Context(choices, leaves, rows_of_derived=rows_of_derived)
    return _case(ctx, _query(ctx, ctx.pick(0, 1, 1, 2, 2, 3) if depth is None else depth))


def draw_table_case(choices: Choices, depth: int | None = None) -> Case:
    """A query that reads a table more often than not."""
    kind = choices.pick("any", "any", "look-up", "budget")
    if kind == "any":
        return draw_case(choices, depth)
    ctx = Context(choices, leaves=4)
    if kind == "budget":
        return _case(ctx, budgets.beside_a_table(ctx))
    cql, meaning = lookups.query(ctx)
    return replace(_case(ctx, cql), meaning=meaning)


def _case(ctx: Context, cql: str) -> Case:
    """A query with inputs for it."""
    most = {1: 12, 2: 8, 3: 7}.get(ctx.aliases, 6)
    inputs = _elements(ctx.choices, ctx.inputs, most, cql)
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    until = ctx.pick(None, None, *range(LAST_INSTANT, LAST_INSTANT + 7), 0, 5, 10)
    return Case(cql, inputs, schemas, until)


def draw_queries(choices: Choices, count: int) -> tuple[list[str], Case]:
    """Some queries over the same inputs, and a case with those inputs."""
    known: dict[str, Any] = {}
    queries = []
    for _ in range(count):
        ctx = Context(choices, choices.pick(1, 1, 2, 2, 3), known, rows_of_derived=False)
        queries.append(_query(ctx, ctx.pick(0, 0, 1, 1, 2)))
    inputs = _elements(choices, known, 12, " ".join(queries))
    schemas = {name: source.schema() for name, source in known.items()}
    return queries, Case(queries[0], inputs, schemas, None)


def draw_all_that_enter(choices: Choices) -> Case:
    """A join of time windows under ISTREAM ALL or ISTREAM, with timestamps that it may show."""
    ctx = Context(choices, leaves=5, relations=False)
    cql = all_that_enter.query(ctx)
    inputs = {name: elements(choices, source, 12) for name, source in ctx.inputs.items()}
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    return Case(cql, all_that_enter.stamped(inputs, schemas), schemas, ctx.pick(None, LAST_INSTANT + 5))


def draw_w_join(choices: Choices) -> Case:
    """A join of streams with windows between them."""
    ctx = Context(choices, leaves=6, relations=False)
    cql = w_joins.query(ctx)
    most = {2: 12, 3: 9, 4: 7}.get(ctx.aliases, 5)
    inputs = {name: elements(choices, source, most) for name, source in ctx.inputs.items()}
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    return Case(cql, inputs, schemas, ctx.pick(None, LAST_INSTANT + 5))


def draw_long_case(choices: Choices) -> Case:
    """A query of one or two items over streams of hundreds of rows, to make stores grow and forget."""
    ctx = Context(choices, leaves=2, relations=False)
    cql = _query(ctx, 0)
    cql = re.sub(r"\[(ROWS|RANGE) (\d)( SECONDS)?\]", lambda m: f"[{m[1]} {int(m[2]) * 7}{m[3] or ''}]", cql)
    inputs: dict[str, list[Any]] = {}
    for name, source in ctx.inputs.items():
        count = 20 if source.kind == TABLE else 60 if "CROSS" in cql else 300
        stamps = sorted(choices.index(150) for _ in range(count))
        rows = [{c: _wide(choices, t) for c, t in source.columns.items()} for _ in stamps]
        inputs[name] = rows if source.kind == TABLE else list(zip(stamps, rows, strict=True))
    schemas = {name: source.schema() for name, source in ctx.inputs.items()}
    return Case(cql, inputs, schemas, 200)


def _wide(choices: Choices, type_: str) -> Any:
    """A value from a domain wide enough that keys come and go."""
    value = choices.pick(*VALUES[type_])
    if type_ == STRING and value:
        return f"{value}{choices.index(40)}"
    return value + choices.index(60) if type_ in NUMERIC and value is not None else value


def cases(depth: int | None = None) -> st.SearchStrategy[Case]:
    """Random cases for Hypothesis, each with one answer."""
    return seeds.map(lambda seed: draw_case(Choices(random=Random(seed)), depth, rows_of_derived=False))
