"""The join graph: which columns of which inputs a join makes equal or keeps near, and what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.joins.bands import Band
from penstock.expression import Call, Column, Expression, columns
from penstock.plan.bands import comparison, home_of, merged


@dataclass(frozen=True)
class JoinGraph:
    """``classes``: equal columns, at most one an input as (input, column name).

    ``derived``: per input the (name, expression) of keys that are not plain columns.
    ``inner``: per input the equalities among its own columns that follow. ``bands``: columns that lie near
    each other. ``residual``: all else, and what a band does not tell exactly.
    """

    classes: tuple[tuple[tuple[int, str], ...], ...]
    derived: tuple[tuple[tuple[str, Expression], ...], ...]
    inner: tuple[tuple[Expression, ...], ...]
    residual: tuple[Expression, ...]
    bands: tuple[Band, ...] = ()


def join_graph(schemas: Sequence[Sequence[str]], conjuncts: Sequence[Expression]) -> JoinGraph:
    """Sort a join's conjuncts into key classes and residual predicates."""
    names = [set(s) for s in schemas]
    derived: list[dict[str, Expression]] = [{} for _ in schemas]
    classes: list[dict[tuple[int, str], Column]] = []
    bands: list[Band] = []
    residual = []
    for conjunct in conjuncts:
        sides = _equal_sides(conjunct, names)
        if sides is None:
            band = _band(conjunct, names, derived)
            bands += [band] if band else []
            if band is None or band.floating:
                residual.append(conjunct)
            continue
        members = {(i, (c := _key_column(e, derived[i])).name): c for i, e in sides}
        touching = [k for k in classes if k.keys() & members.keys()]
        classes = [k for k in classes if not k.keys() & members.keys()]
        classes.append({m: c for k in [*touching, members] for m, c in k.items()})
    inner: list[list[Expression]] = [[] for _ in schemas]
    return JoinGraph(
        tuple(_one_an_input(k, inner) for k in classes),
        tuple(tuple(d.items()) for d in derived),
        tuple(tuple(i) for i in inner),
        tuple(residual),
        merged(bands),
    )


def _band(conjunct: Expression, names: list[set[str]], derived: list[dict[str, Expression]]) -> Band | None:
    """The band that a comparison between two inputs is."""
    found = comparison(conjunct)
    if found is None:
        return None
    plus, minus = home_of(found.plus, names), home_of(found.minus, names)
    if plus is None or minus is None or plus == minus:
        return None
    left, right = _key_column(found.plus, derived[plus]), _key_column(found.minus, derived[minus])
    return found.band((plus, left.name), (minus, right.name))


def _equal_sides(conjunct: Expression, names: list[set[str]]) -> list[tuple[int, Expression]] | None:
    """The two sides of an equality between two inputs, with the input each reads."""
    if not (isinstance(conjunct, Call) and conjunct.function == "="):
        return None
    sides = []
    for side in conjunct.args:
        home = [i for i, n in enumerate(names) if columns(side) and columns(side) <= n]
        if not home:
            return None
        sides.append((home[0], side))
    return sides if sides[0][0] != sides[1][0] else None


def _key_column(expression: Expression, derived: dict[str, Expression]) -> Column:
    if isinstance(expression, Column):
        return expression
    derived[str(expression)] = expression
    return Column(str(expression), expression.type)


def _one_an_input(
    members: dict[tuple[int, str], Column], inner: list[list[Expression]]
) -> tuple[tuple[int, str], ...]:
    """Keep one column an input; that its others equal it becomes a filter on the input."""
    kept: dict[int, Column] = {}
    for (i, _), column in members.items():
        if i in kept:
            inner[i].append(Call("=", (kept[i], column), pa.bool_()))
        else:
            kept[i] = column
    return tuple((i, c.name) for i, c in sorted(kept.items()))
