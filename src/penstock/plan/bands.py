"""Which comparisons of a join are bands: a column of one input, a column of another, and a constant between.

``A.x BETWEEN B.y - 5 AND B.y + 5``, ``A.x - B.y < 5``, ``ABS(A.x - B.y) <= 5``, ``A.ts > B.ts - INTERVAL 5
SECONDS``: what is added and subtracted on both sides is brought to one side as terms; a band has two terms
of opposite sign, of two inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.joins.bands import Band, orders
from penstock.expression import Call, Column, Expression, Literal, columns
from penstock.functions import may_raise

_FAR = 2**62
"""No band reaches so far: its ends would not be int64."""
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Comparison:
    """``plus - minus`` is at least ``least`` and at most ``most``; ``exact`` if a band says just that."""

    plus: Expression
    minus: Expression
    least: float | None
    most: float | None
    exact: bool
    slack: float = 0.0

    def band(self, plus: tuple[int, str], minus: tuple[int, str]) -> Band:
        """The band over the columns of the two terms."""
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


def home_of(e: Expression, names: Sequence[set[str]]) -> int | None:
    """The input that an expression reads, if it is just one."""
    homes = [i for i, n in enumerate(names) if columns(e) and columns(e) <= n]
    return homes[0] if homes and (isinstance(e, Column) or not may_raise(e)) else None
