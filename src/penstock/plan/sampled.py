"""Estimates from a sample: what a query under SAMPLE computes instead of its aggregates.

Every result of a sampled join represents ``w`` results, the inverse of its sampling probability, and belongs
to a cluster whose results are sampled together. With the total t of a cluster in a group:

    SUM    sum of w t,  its variance estimated as the sum of w (w - 1) t^2   (Horvitz and Thompson)
    COUNT  the same with the cluster's count c for t
    AVG    SUM over COUNT, r; its variance the sum of w (w - 1) (t - r c)^2 over COUNT^2, times m / (m - 1)

The bounds are Student's t times the deviation, for the effective number of clusters, which is
(sum of (w - 1) c)^2 over the sum of ((w - 1) c)^2, for an AVG one less: of few clusters the variance is not
well known either, and r is nearer to their own average than to the true one. Of a single cluster that was
not certain to be there nothing is known, and the bounds of its AVG are NULL.

So a SUM becomes two aggregates, by cluster and then over clusters, of which ``<name>``, ``<name>_low`` and
``<name>_high`` are computed. Without aggregates a row shows its ``weight``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import NormalDist

import pyarrow as pa

from penstock import budget
from penstock.budget import Sample
from penstock.expression import Call, Column, Expression, Literal
from penstock.plan import logical
from penstock.plan.facts import reads
from penstock.plan.logical import Aggregate, AggregateCall, Join, Logical, Project, Sampled

DOUBLE = pa.float64()
WEIGHT, CLUSTER = Column(budget.WEIGHT, DOUBLE), Column(budget.CLUSTER, pa.int64())


def sampled(root: Logical, goal: Sample) -> Logical:
    """The plan over a sample of its join."""
    z = NormalDist().inv_cdf((1 + goal.confidence) / 2)
    calls = {name for aggregate in _aggregates(root) for name, _ in aggregate.calls}
    for rule in (_sample_join, partial(_estimate, z=z), partial(_show_bounds, calls=calls)):
        root = logical.rewrite(root, rule)
    return root


def _sample_join(node: Logical) -> Logical:
    return Sampled(node) if isinstance(node, Join) else node


def _estimate(node: Logical, z: float) -> Logical:
    return _estimated(node, z) if isinstance(node, Aggregate) and _over_sample(node) else node


def _show_bounds(node: Logical, calls: set[str]) -> Logical:
    return _projected(node, calls) if isinstance(node, Project) and _over_sample(node) else node


def constant_in_clusters(root: Logical) -> bool:
    """Whether all aggregated columns are from one side of the join, hence constant in clusters."""
    for aggregate in _aggregates(root):
        read = reads(c.argument for _, c in aggregate.calls if c.argument is not None)
        sides = [i.schema.names for n in logical.walk(root) if isinstance(n, Join) for i in n.parts]
        return bool(read) and any(read.issubset(names) for names in sides)
    return False


def _aggregates(root: Logical) -> list[Aggregate]:
    return [n for n in logical.walk(root) if isinstance(n, Aggregate)]


def _over_sample(node: Logical) -> bool:
    return any(isinstance(n, Sampled) for n in logical.walk(node))


def _projected(node: Project, calls: set[str]) -> Project:
    """The projection with the bounds of estimates, or the weights of rows."""
    below = node.input.schema.names
    if WEIGHT.name in below:
        name = "weight" if "weight" not in node.schema.names else "sample_weight"
        return replace(node, columns=(*node.columns, (name, WEIGHT)))
    shown: list[tuple[str, Expression]] = []
    for name, e in node.columns:
        shown.append((name, e if e.type == DOUBLE or not _is_call(e, calls) else Column(str(e), DOUBLE)))
        if _is_call(e, calls):
            shown += [(f"{name}_{b}", Column(f"{e}_{b}", DOUBLE)) for b in ("low", "high")]
    return replace(node, columns=tuple(shown))


def _is_call(e: Expression, calls: set[str]) -> bool:
    return isinstance(e, Column) and e.name in calls


def _estimated(node: Aggregate, z: float) -> Logical:
    """Two aggregates in place of one, and the estimates from them."""
    totals: dict[str, AggregateCall] = {}
    for _, call in node.calls:
        totals.update(_totals(call))
    within = (*node.keys, (CLUSTER.name, CLUSTER), (WEIGHT.name, WEIGHT))
    clusters = Aggregate(node.input, within, tuple(totals.items()))
    keys = tuple((name, Column(name, e.type)) for name, e in node.keys)
    sums = {name: e for _, call in node.calls for name, e in _sums(call).items()}
    over = Aggregate(clusters, keys, tuple((n, AggregateCall("sum", e, DOUBLE)) for n, e in sums.items()))
    shown = [column for name, call in node.calls for column in _bounds(name, call, z)]
    return Project(over, (*keys, *shown))


def _totals(call: AggregateCall) -> dict[str, AggregateCall]:
    """The aggregates per cluster."""
    count = AggregateCall("count", call.argument, pa.int64())
    found = {str(count): count}
    if call.function != "count":
        assert call.argument is not None
        total = AggregateCall("sum", _cast(call.argument), DOUBLE)
        found[_total(call)] = total
    return found


def _total(call: AggregateCall) -> str:
    return f"total {call.argument}"


def _parts(call: AggregateCall) -> tuple[Expression, Expression]:
    """Total and count of a cluster."""
    count = str(AggregateCall("count", call.argument, pa.int64()))
    return Column(_total(call), DOUBLE), _cast(Column(count, pa.int64()))


def _sums(call: AggregateCall) -> dict[str, Expression]:
    """The sums over clusters, by name: estimates, and products of pairs of factors."""
    total, count = _parts(call)
    extra = _minus(WEIGHT, _number(1.0))
    spread, beyond = _times(WEIGHT, extra), _times(extra, count)
    named = {"t": total, "c": count}
    found = {_sum(call, "m"): _number(1.0), _sum(call, "x"): beyond, _sum(call, "xx"): _times(beyond, beyond)}
    for factors in {"sum": ("t", "tt"), "count": ("c", "cc"), "avg": ("t", "c", "tt", "tc", "cc")}[
        call.function
    ]:
        if len(factors) == 1:
            found[_sum(call, factors)] = _times(WEIGHT, named[factors])
        else:
            found[_sum(call, factors)] = _times(spread, _times(named[factors[0]], named[factors[1]]))
    return found


def _sum(call: AggregateCall, factors: str) -> str:
    return f"{factors} of {call.argument}"


def _bounds(name: str, call: AggregateCall, z: float) -> list[tuple[str, Expression]]:
    """The estimate and its bounds."""
    sums = ("t", "c", "tt", "tc", "cc", "m", "x", "xx")
    got: dict[str, Expression] = {f: Column(_sum(call, f), DOUBLE) for f in sums}
    if call.function == "avg":
        estimate, deviation = _average(got)
        degrees = _minus(_effective(got), _number(1.0))
    else:
        letter = "t" if call.function == "sum" else "c"
        estimate, deviation, degrees = got[letter], _root(got[letter * 2]), _effective(got)
    certain = Call("=", (got["xx"], _number(0.0)), pa.bool_())
    reach: Expression = _times(_student(z, _at_least(degrees, 1.0)), deviation)
    reach = Call("case", (certain, _times(_number(0.0), estimate), reach), DOUBLE)
    if call.function == "count":
        estimate, reach = _or_zero(estimate), _or_zero(reach)
    return [
        (name, estimate),
        (f"{name}_low", _minus(estimate, reach)),
        (f"{name}_high", _plus(estimate, reach)),
    ]


def _average(got: dict[str, Expression]) -> tuple[Expression, Expression]:
    """An average and its deviation."""
    count = _or_null(got["c"])
    estimate = _over(got["t"], count)
    cross = _times(_number(2.0), _times(estimate, got["tc"]))
    variance = _plus(_minus(got["tt"], cross), _times(_times(estimate, estimate), got["cc"]))
    few = _over(got["m"], _or_null(_minus(got["m"], _number(1.0))))
    return estimate, _over(_root(_times(variance, few)), count)


def _effective(got: dict[str, Expression]) -> Expression:
    """The effective number of clusters: fewer if their weights differ."""
    return _over(_times(got["x"], got["x"]), _or_null(got["xx"]))


def _student(z: float, degrees: Expression) -> Expression:
    """The quantile of Student's t where the normal distribution's is z (Cornish and Fisher's expansion)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    found = _number(0.0)
    for term in reversed(terms):
        found = _over(_plus(_number(term), found), degrees)
    return _plus(_number(z), found)


def _number(value: float) -> Expression:
    return Literal(value, DOUBLE)


def _cast(e: Expression) -> Expression:
    return e if e.type == DOUBLE else Call("cast", (e,), DOUBLE)


def _times(a: Expression, b: Expression) -> Expression:
    return Call("*", (a, b), DOUBLE)


def _plus(a: Expression, b: Expression) -> Expression:
    return Call("+", (a, b), DOUBLE)


def _minus(a: Expression, b: Expression) -> Expression:
    return Call("-", (a, b), DOUBLE)


def _over(a: Expression, b: Expression) -> Expression:
    return Call("/", (a, b), DOUBLE)


def _root(e: Expression) -> Expression:
    """The square root; rounding errors may make the argument slightly negative."""
    return Call("sqrt", (_at_least(e, 0.0),), DOUBLE)


def _at_least(e: Expression, least: float) -> Expression:
    """The greater of both; NULL stays NULL."""
    known = Call("isnotnull", (e,), pa.bool_())
    return Call("case", (known, Call("greatest", (e, _number(least)), DOUBLE), e), DOUBLE)


def _or_null(e: Expression) -> Expression:
    """NULL in place of 0, for divisors."""
    zero = Call("=", (e, _number(0.0)), pa.bool_())
    return Call("case", (zero, Literal(None, DOUBLE), e), DOUBLE)


def _or_zero(e: Expression) -> Expression:
    return Call("coalesce", (e, _number(0.0)), DOUBLE)
