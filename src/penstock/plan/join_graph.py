"""The join graph: which columns a join makes equal, which it bounds by bands, and the residual predicates.

A comparison is a band if it has two terms of opposite sign, of two inputs, and constants: ``A.x BETWEEN B.y
- 5 AND B.y + 5``, ``A.x - B.y < 5``, ``ABS(A.x - B.y) <= 5``, ``A.ts > B.ts - INTERVAL 5 SECONDS``. What is
added and subtracted on both sides is brought to one side as terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.joins.bands import Band, orders
from penstock.expression import Call, Column, Expression, Literal
from penstock.functions import may_raise
from penstock.plan.facts import Equivalence, equality, input_of

Member = tuple[int, str]
"""Number of an input, name of its column."""

_FAR = 2**62
"""Bounds of a band beyond this would overflow int64."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class JoinGraph:
    """``classes``: equal columns, at most one per input, as (input, column name).

    ``derived``: per input the (name, expression) of keys that are not plain columns.
    ``inner``: per input the equalities among its own columns that follow. ``bands``: pairs of columns
    whose difference is bounded. ``residual``: all other predicates, and those that a band only approximates.
    """

    classes: tuple[tuple[Member, ...], ...]
    derived: tuple[tuple[tuple[str, Expression], ...], ...]
    inner: tuple[tuple[Expression, ...], ...]
    residual: tuple[Expression, ...]
    bands: tuple[Band, ...] = ()


def join_graph(schemas: Sequence[Collection[str]], conjuncts: Sequence[Expression]) -> JoinGraph:
    """Sort a join's conjuncts into key classes, bands and residual predicates."""
    keys = _Keys(schemas)
    equal = Equivalence[Member]()
    bands: list[Band] = []
    residual = []
    for conjunct in conjuncts:
        sides = keys.of(*(equality(conjunct) or ()))
        if sides:
            equal.equate(*sides)
            continue
        band = _band(conjunct, keys)
        bands += [band] if band else []
        if band is None or band.floating:
            residual.append(conjunct)
    inner: list[list[Expression]] = [[] for _ in schemas]
    return JoinGraph(
        tuple(_one_per_input(members, keys, inner) for members in equal.classes),
        tuple(tuple(d.items()) for d in keys.derived),
        tuple(tuple(i) for i in inner),
        tuple(residual),
        merged(bands),
    )


class _Keys:
    """Expressions of two inputs as columns of each, some of them derived."""

    def __init__(self, schemas: Sequence[Collection[str]]) -> None:
        self._schemas = [set(s) for s in schemas]
        self.derived: list[dict[str, Expression]] = [{} for _ in schemas]
        self.types: dict[Member, pa.DataType] = {}

    def of(self, *sides: Expression) -> list[Member] | None:
        """The columns of two expressions, if they belong to two inputs."""
        homes = [input_of(e, self._schemas) for e in sides]
        if None in homes or len(set(homes)) != 2:
            return None
        found = []
        for i, e in zip(homes, sides, strict=True):
            assert i is not None
            if not isinstance(e, Column):
                self.derived[i][str(e)] = e
            found.append((i, str(e)))
            self.types[found[-1]] = e.type
        return found


def _one_per_input(
    members: Sequence[Member], keys: _Keys, inner: list[list[Expression]]
) -> tuple[Member, ...]:
    """Keep one column per input; equality with its other columns becomes a filter on the input."""
    kept: dict[int, Column] = {}
    for i, name in members:
        column = Column(name, keys.types[i, name])
        if i in kept:
            inner[i].append(Call("=", (kept[i], column), pa.bool_()))
        else:
            kept[i] = column
    return tuple((i, c.name) for i, c in sorted(kept.items()))


def _band(conjunct: Expression, keys: _Keys) -> Band | None:
    """A comparison between two inputs as a band, if it is one."""
    found = comparison(conjunct)
    if found is None or any(not isinstance(e, Column) and may_raise(e) for e in (found.plus, found.minus)):
        return None
    sides = keys.of(found.plus, found.minus)
    return found.band(*sides) if sides else None


@dataclass(frozen=True)
class Comparison:
    """``plus - minus`` is at least ``least`` and at most ``most``; ``exact`` if a band means the same."""

    plus: Expression
    minus: Expression
    least: float | None
    most: float | None
    exact: bool
    slack: float = 0.0

    def band(self, plus: tuple[int, str], minus: tuple[int, str]) -> Band:
        return Band(plus, minus, self.least, self.most, not self.exact, self.slack)


def comparison(conjunct: Expression) -> Comparison | None:
    """What a conjunct says of the difference of two terms, if it is such a comparison."""
    if not isinstance(conjunct, Call) or conjunct.function not in _TURNED:
        return None
    left, right = conjunct.args
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return comparison(Call(_TURNED[conjunct.function], (right, left), conjunct.type))
    near = isinstance(left, Call) and left.function == "abs" and conjunct.function in ("<", "<=")
    if near:
        assert isinstance(left, Call)
        left = left.args[0]
    try:
        terms = [*_terms(left, 1), *(() if near else _terms(right, -1))]
        limit = _number(right) if near else 0
    except _NotLinearError:
        return None
    signed = [(sign, e) for sign, e in terms if not isinstance(e, Literal)]
    if sorted(sign for sign, _ in signed) != [-1, 1]:
        return None
    plus, minus = (e for _, e in sorted(signed, key=lambda t: -t[0]))
    exact = _whole(plus.type) and _whole(minus.type)
    if not exact and not (pa.types.is_floating(plus.type) and pa.types.is_floating(minus.type)):
        return None
    numbers = [sign * e.value for sign, e in terms if isinstance(e, Literal)]
    strict = conjunct.function in ("<", ">") and exact
    offset, slack = -sum(numbers), float(sum(map(abs, numbers)))
    if exact and abs(offset) + limit >= _FAR:
        return None
    least, most = offset - limit + strict, offset + limit - strict
    below = conjunct.function in ("<", "<=")
    return Comparison(
        plus, minus, None if below and not near else least, most if below else None, exact, slack
    )


class _NotLinearError(Exception):
    pass


def _terms(e: Expression, sign: int) -> Iterator[tuple[int, Expression]]:
    """An expression as a sum of terms."""
    if isinstance(e, Literal):
        yield sign, Literal(_number(e), e.type)
    elif isinstance(e, Call) and e.function in ("+", "-") and len(e.args) == 2 and _adds(e):
        yield from _terms(e.args[0], sign)
        yield from _terms(e.args[1], sign if e.function == "+" else -sign)
    elif isinstance(e, Call) and (e.function in _SAME_NUMBER or _widens(e)):
        yield from _terms(e.args[0], sign)
    elif isinstance(e, Call) and (may_raise(e) or not orders(e.type)):
        raise _NotLinearError
    else:
        yield sign, e


_SAME_NUMBER = ("timestamp_micros", "unix_micros")
"""A time and its microseconds are the same int64."""


def _adds(e: Call) -> bool:
    return pa.types.is_integer(e.type) or pa.types.is_float64(e.type)


def _widens(e: Call) -> bool:
    return e.function == "cast" and pa.types.is_integer(e.type) and pa.types.is_integer(e.args[0].type)


def _number(e: Expression) -> int | float:
    if not isinstance(e, Literal) or isinstance(e.value, bool) or not isinstance(e.value, int | float):
        raise _NotLinearError
    return e.value


def _whole(kind: pa.DataType) -> bool:
    return orders(kind) and not pa.types.is_floating(kind) and not pa.types.is_decimal(kind)


def merged(bands: Sequence[Band]) -> tuple[Band, ...]:
    """One band for each pair of columns."""
    found: dict[frozenset[tuple[int, str]], Band] = {}
    for band in bands:
        pair = frozenset((band.left, band.right))
        found[pair] = found[pair].and_also(band) if pair in found else band
    return tuple(found.values())
