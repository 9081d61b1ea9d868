"""Estimates from a sample: what the relation of an operator is where a join below it is sampled.

Every result of a sampled join represents ``w`` results, the inverse of its sampling probability, and belongs
to a cluster whose results are sampled together. Rows carry both as columns (``weighted``) up to an aggregate.
With the total t and the count c of a cluster in a group, and Sums over its clusters,

    SUM is estimated by T = Sum w t, COUNT by C = Sum w c, AVG by T / C                (Horvitz and Thompson)

and any expression f of such totals by the same expression of their estimates. Its variance is estimated as
the Sum over clusters of w (w - 1) (f_1 t_1 + f_2 t_2 + ...)^2, with the derivatives f_j of f by the totals:
exact where f is linear, for others, such as AVG, the usual approximation, times m / (m - 1) for m clusters.

The bounds are Student's t times the deviation, for the effective number of clusters, which is
(Sum of (w - 1) c)^2 over the Sum of ((w - 1) c)^2, one less where f is not linear: of few clusters the
variance is not well known either. Of a single cluster that was not certain to be there nothing is known, and
the bounds of its AVG are NULL.

So an aggregate returns sums, hidden columns whose names start with ``#sum``, and estimates are expressions
over them; they become columns, with their bounds, where rows are compared or shown (``as_columns``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from statistics import NormalDist
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock import budget
from penstock.budget import CONFIDENCE
from penstock.expression import Call, Column, Expression, Literal, columns
from penstock.functions import types

if TYPE_CHECKING:
    from penstock.plan.facts import Named
    from penstock.plan.logical.operator import Logical

DOUBLE = pa.float64()
WEIGHT, CLUSTER = Column(budget.WEIGHT, DOUBLE), Column(budget.CLUSTER, pa.int64())
CERTAIN: tuple[Expression, Expression] = (Literal(1.0, DOUBLE), Literal(0, pa.int64()))
"""Weight and cluster of a row that is not sampled."""
SUM = "#sum"
"""How the names of sums over clusters start."""


class SampleError(Exception):
    """An operator has no unbiased estimate over a sample: what it is, and what to do instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} cannot be estimated from a sample")
        self.hint = hint


@dataclass
class Sampling:
    """A pass over a plan with a sample; the first one finds out what is used, for the second.

    ``wanted``: the sums that are read, None in the first pass; ``requested`` collects them. ``uses``: by the
    sampled join, which of its columns are aggregated.
    """

    wanted: set[str] | None = None
    uses: dict[int, frozenset[str]] = field(default_factory=dict)
    requested: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    aggregates: int = 0

    def read(self, e: Expression) -> Expression:
        """Note that an expression is evaluated, so that the sums it reads are kept."""
        self.requested |= {name for name in columns(e) if name.startswith(SUM)}
        return e

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class Estimate:
    """A column that is an estimate: ``value`` over the columns of its relation.

    ``totals``: the sums that the value and its bounds are computed from; None if it is a column already,
    with the ``bounds`` in others, if they are known.
    """

    value: Expression
    totals: Totals | None = None
    bounds: tuple[Expression, Expression] | None = None

    def columns(self, name: str) -> list[tuple[str, Expression]]:
        """The value, and the bounds where they are known."""
        bounds = self.totals.bounds(self.value) if self.totals else self.bounds
        ends = zip(("low", "high"), bounds or (), strict=False)
        return [(name, self.value), *((f"{name}_{end}", e) for end, e in ends)]


@dataclass(frozen=True)
class Estimated:
    """The relation of an operator, some of whose inputs are sampled or have estimates.

    ``names``: its columns as the query knows them. ``weighted``: its rows are a sample and carry weight and
    cluster. ``estimates``: the columns that are estimates. ``hidden``: the columns that these, or the rows of
    a sample, need beside the query's. ``joins``: the joins that the rows are a sample of; ``made_of``: by
    column, the columns of such a join that it is computed from.
    """

    node: Logical
    names: tuple[str, ...]
    weighted: bool = False
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    hidden: tuple[Column, ...] = ()
    confidence: float = CONFIDENCE
    joins: tuple[int, ...] = ()
    made_of: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether nothing below is sampled."""
        return not self.weighted and not self.estimates

    def reads_estimates(self, e: Expression) -> bool:
        return not columns(e).isdisjoint(self.estimates)

    def over(self, e: Expression, sampling: Sampling, clause: str = "") -> Expression:
        """An expression over the query's columns as one over the relation's; ``clause`` compares with it."""
        if not self.reads_estimates(e):
            return e
        if clause:
            sampling.note(f"{clause} compares estimates: a row near the limit may be in the result or not")
        return sampling.read(substituted(e, self.estimates))

    def shown(self, named: Named) -> tuple[Named, dict[str, Estimate]]:
        """Named expressions: those to be computed now, and the estimates among them."""
        estimates = {name: self._estimate(e) for name, e in named if self.reads_estimates(e)}
        exact = tuple((name, e) for name, e in named if name not in estimates)
        return (*exact, *((c.name, c) for c in self.hidden)), estimates

    def parts_of(self, e: Expression) -> frozenset[str]:
        """The columns of the sampled join that an expression is computed from."""
        return frozenset().union(*(self.made_of.get(name, ()) for name in columns(e)))

    def _estimate(self, e: Expression) -> Estimate:
        if isinstance(e, Column):
            return self.estimates[e.name]
        totals = {self.estimates[name].totals for name in columns(e) if name in self.estimates}
        return Estimate(substituted(e, self.estimates), totals.pop() if len(totals) == 1 else None)

    def as_columns(self, sampling: Sampling) -> tuple[Named, dict[str, Estimate]]:
        """All columns, the estimates with their bounds; and the estimates as columns."""
        types_of = {f.name: f.type for f in self.node.schema}
        named: list[tuple[str, Expression]] = []
        estimates: dict[str, Estimate] = {}
        taken = set(self.names)
        for name in self.names:
            if name not in self.estimates:
                named.append((name, Column(name, types_of[name])))
                continue
            own = [(_free(n, taken) if n != name else n, e) for n, e in self.estimates[name].columns(name)]
            named += [(n, sampling.read(e)) for n, e in own]
            value, *bounds = (Column(n, e.type) for n, e in own)
            estimates[name] = Estimate(value, bounds=(bounds[0], bounds[1]) if bounds else None)
        return tuple(named), estimates


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def exactly(inputs: Iterable[Estimated], what: str, hint: str) -> None:
    """Raise unless nothing below these inputs is sampled."""
    if not all(i.exact for i in inputs):
        raise SampleError(what, hint)


def beside(inputs: Sequence[Estimated], node: Logical) -> Estimated:
    """Rows made of one row of each input, of which one may be a sample."""
    if sum(i.weighted for i in inputs) > 1:
        raise SampleError("a join of two samples", "sample one of them, or their join")
    return Estimated(
        node,
        tuple(name for i in inputs for name in i.names),
        any(i.weighted for i in inputs),
        {name: e for i in inputs for name, e in i.estimates.items()},
        tuple(c for i in inputs for c in i.hidden),
        min(i.confidence for i in inputs),
        tuple(join for i in inputs for join in i.joins),
        {name: parts for i in inputs for name, parts in i.made_of.items()},
    )


# expressions over estimates

_ARITHMETIC = frozenset(("+", "-", "*", "/", "negative"))
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">=", "<=>"))
_LOGIC = frozenset(("and", "or", "not", "isnull", "isnotnull"))
_CHOICES = frozenset(("coalesce", "greatest", "least", "case"))


def substituted(e: Expression, estimates: Mapping[str, Estimate]) -> Expression:
    """An expression with estimates in place of their columns.

    Estimates are DOUBLE, so sums and comparisons with them are; any other function gets its declared types.
    """
    if isinstance(e, Column):
        return estimates[e.name].value if e.name in estimates else e
    if not isinstance(e, Call) or columns(e).isdisjoint(estimates):
        return e
    args = tuple(substituted(a, estimates) for a in e.args)
    numeric = types.is_numeric(e.type)
    if e.function in _ARITHMETIC and numeric:
        return Call(e.function, tuple(map(double, args)), DOUBLE)
    if e.function in _LOGIC:
        return replace(e, args=args)
    if e.function in _COMPARISONS and all(types.is_numeric(a.type) for a in e.args):
        return Call(e.function, tuple(map(double, args)), e.type)
    if e.function in _CHOICES and numeric:
        conditions = {k for k in range(0, len(args) - 1, 2) if e.function == "case"}
        values = (a if k in conditions else double(a) for k, a in enumerate(args))
        return Call(e.function, tuple(values), DOUBLE)
    if e.function == "cast" and numeric:
        return double(args[0])
    return replace(e, args=tuple(_as(a, was.type) for a, was in zip(args, e.args, strict=True)))


def double(e: Expression) -> Expression:
    """An expression as DOUBLE."""
    if isinstance(e, Literal) and e.value is None:
        return Literal(None, DOUBLE)
    return e if e.type == DOUBLE else Call("cast", (e,), DOUBLE)


def _as(e: Expression, type_: pa.DataType) -> Expression:
    """An expression in the type that was declared for it; to a whole number it is rounded."""
    if e.type == type_:
        return e
    whole = Call("round", (e, Literal(0, pa.int32())), DOUBLE) if types.is_integer(type_) else e
    return Call("cast", (whole,), type_)


# sums over clusters


@dataclass(frozen=True)
class Totals:
    """The sums over the clusters of a sample that the aggregates of one operator are estimated from."""

    number: int
    confidence: float

    def _named(self, what: str) -> Column:
        return Column(f"{SUM}{self.number} {what}", DOUBLE)

    def total(self, argument: Expression) -> Column:
        """The estimate of the sum of an argument."""
        return self._named(f"total {argument}")

    def count(self, argument: Expression | None) -> Column:
        """The estimate of the number of values of an argument, or of rows."""
        return self._named(f"count {'*' if argument is None else argument}")

    def is_total(self, name: str) -> bool:
        """Whether a sum is the estimate of the sum of an argument."""
        return name.startswith(self._named("total ").name)

    def _product(self, a: str, b: str) -> Column:
        return self._named(f"product {min(a, b)} × {max(a, b)}")

    @property
    def _clusters(self) -> Column:
        return self._named("clusters")

    def _beyond(self, count: str, power: int) -> Column:
        return self._named(f"beyond {count} ^ {power}")

    def estimate(self, function: str, argument: Expression | None) -> Estimate:
        """SUM, COUNT or AVG of an argument."""
        if function == "count" or argument is None:
            return Estimate(self.count(argument), self)
        total = self.total(argument)
        return Estimate(total if function == "sum" else _over(total, self.count(argument)), self)

    def sums(self, factors: Mapping[str, Expression]) -> dict[str, Expression]:
        """What is added up over the clusters, by the name of the sum.

        ``factors``: the total or the count of a cluster, by the name of the sum that it is a part of.
        """
        extra = _minus(WEIGHT, _number(1.0))
        found = {name: _times(WEIGHT, e) for name, e in factors.items()}
        for (a, e), (b, f) in combinations_with_replacement(factors.items(), 2):
            found[self._product(a, b).name] = _times(_times(WEIGHT, extra), _times(e, f))
        for name, e in factors.items():
            beyond = _times(extra, e)
            found[self._beyond(name, 1).name] = beyond
            found[self._beyond(name, 2).name] = _times(beyond, beyond)
        found[self._clusters.name] = _number(1.0)
        return found

    def bounds(self, value: Expression) -> tuple[Expression, Expression] | None:
        """The bounds of an expression over the sums; None where it has no derivative."""
        read = [n for n in dict.fromkeys(_in_order(value)) if n.startswith(f"{SUM}{self.number} ")]
        slopes = {name: _derivative(value, name) for name in read}
        if not slopes or any(s is None for s in slopes.values()):
            return None
        known = {name: s for name, s in slopes.items() if s is not None}
        variance = _sum(
            _times(_number(1.0 if a == b else 2.0), _times(_times(known[a], known[b]), self._product(a, b)))
            for a, b in combinations_with_replacement(known, 2)
        )
        linear = not any(map(_reads_sums, known.values()))
        counts = list(dict.fromkeys(name.replace(" total ", " count ", 1) for name in known))
        reach = self._reach(variance, counts, linear)
        exact = Call("=", (_sum(self._beyond(c, 2) for c in counts), _number(0.0)), pa.bool_())
        ends = _minus(value, reach), _plus(value, reach)
        low, high = (Call("case", (exact, value, end), DOUBLE) for end in ends)  # infinite values too
        return low, high

    def _reach(self, variance: Expression, counts: Sequence[str], linear: bool) -> Expression:
        """How far the bounds are from a value that is not exact."""
        z = NormalDist().inv_cdf((1 + self.confidence) / 2)
        degrees = _least([self._effective(c) for c in counts])
        if not linear:
            degrees = _minus(degrees, _number(1.0))
            few = _over(self._clusters, _minus(self._clusters, _number(1.0)))
            variance = _times(variance, few)
        return _times(_student(z, _at_least(degrees, 1.0)), _root(variance))

    def _effective(self, count: str) -> Expression:
        """The effective number of clusters: fewer if their weights differ."""
        one = self._beyond(count, 1)
        return _over(_times(one, one), self._beyond(count, 2))


def _in_order(e: Expression) -> list[str]:
    if isinstance(e, Column):
        return [e.name]
    return [n for a in e.args for n in _in_order(a)] if isinstance(e, Call) else []


def _derivative(e: Expression, by: str) -> Expression | None:
    """The derivative of an expression by a column; None if a function in it has no known one."""
    if isinstance(e, Column):
        return _number(1.0 if e.name == by else 0.0)
    if isinstance(e, Literal) or by not in columns(e):
        return _number(0.0)
    inner = [_derivative(a, by) for a in e.args] if e.function != "case" else _cases(e, by)
    if any(d is None for d in inner):
        return None
    slopes = [d for d in inner if d is not None]
    match e.function, e.args:
        case (("+" | "-" | "negative"), _):
            return Call(e.function, tuple(slopes), DOUBLE)
        case "*", (a, b):
            return _plus(_times(slopes[0], b), _times(a, slopes[1]))
        case "/", (a, b):
            return _over(_minus(_times(slopes[0], b), _times(a, slopes[1])), _times(b, b))
        case "cast", _ if e.type == DOUBLE:
            return slopes[0]
        case "coalesce", (a, _):
            return Call("case", (Call("isnotnull", (a,), pa.bool_()), *slopes), DOUBLE)
        case "case", _:
            pairs = [x for k, s in enumerate(slopes[:-1]) for x in (e.args[2 * k], s)]
            return Call("case", (*pairs, slopes[-1]), DOUBLE)
    return None


def _cases(e: Call, by: str) -> list[Expression | None]:
    """The derivatives of the values of a CASE; it has none where it jumps, but to NULL."""
    conditions, values = e.args[:-1:2], e.args[1:-1:2]
    jumps = any(_reads_sums(c) and not _is(v, None) for c, v in zip(conditions, values, strict=True))
    return [None] if jumps else [_derivative(a, by) for a in (*values, e.args[-1])]


def _reads_sums(e: Expression) -> bool:
    return any(name.startswith(SUM) for name in columns(e))


def _student(z: float, degrees: Expression) -> Expression:
    """The quantile of Student's t where the normal distribution's is z (Cornish and Fisher's expansion)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    found: Expression = _number(0.0)
    for term in reversed(terms):
        found = Call("/", (_plus(_number(term), found), degrees), DOUBLE)
    return _plus(_number(z), found)


def _number(value: float) -> Literal:
    return Literal(value, DOUBLE)


def _is(e: Expression, value: float | None) -> bool:
    return isinstance(e, Literal) and e.value == value


def _times(a: Expression, b: Expression) -> Expression:
    if _is(a, 0.0) or _is(b, 0.0):
        return _number(0.0)
    return b if _is(a, 1.0) else a if _is(b, 1.0) else Call("*", (a, b), DOUBLE)


def _plus(a: Expression, b: Expression) -> Expression:
    return b if _is(a, 0.0) else a if _is(b, 0.0) else Call("+", (a, b), DOUBLE)


def _minus(a: Expression, b: Expression) -> Expression:
    return a if _is(b, 0.0) else Call("-", (a, b), DOUBLE)


def _over(a: Expression, b: Expression) -> Expression:
    """The quotient; NULL where the divisor is 0."""
    zero = Call("=", (b, _number(0.0)), pa.bool_())
    return Call("/", (a, Call("case", (zero, Literal(None, DOUBLE), b), DOUBLE)), DOUBLE)


def _sum(parts: Iterable[Expression]) -> Expression:
    found: Expression = _number(0.0)
    for part in parts:
        found = _plus(found, part)
    return found


def _least(parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Call("least", tuple(parts), DOUBLE)


def _root(e: Expression) -> Expression:
    """The square root; rounding errors may make the argument slightly negative."""
    return Call("sqrt", (_at_least(e, 0.0),), DOUBLE)


def _at_least(e: Expression, least: float) -> Expression:
    """The greater of both; NULL stays NULL."""
    known = Call("isnotnull", (e,), pa.bool_())
    return Call("case", (known, Call("greatest", (e, _number(least)), DOUBLE), e), DOUBLE)
