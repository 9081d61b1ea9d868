"""Calls of aggregate functions, with DISTINCT, FILTER, WITHIN GROUP and the order of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog import FunctionDef
from penstock.cql.expressions.functions import check_count, mismatch
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Expression, Literal, OwnAggregate
from penstock.functions import types
from penstock.functions.aggregates import Aggregate, AggregateCall, Order, aggregate, only_where
from penstock.functions.types import BIGINT, BOOLEAN

Registered = Mapping[str, FunctionDef]
"""The functions that users registered, by name in lower case."""
AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What may stand around a call of an aggregate."""
GROUPING = ("grouping", "grouping_id")
"""Functions of a group that tell by which keys it is grouped."""
WITHIN_GROUP = {"percentile_cont": "percentile", "percentile_disc": "percentile_disc"}
"""Functions whose argument is in the ORDER BY of WITHIN GROUP."""


def called(name: str) -> Aggregate | None:
    """The aggregate that a query calls by a name."""
    return aggregate(WITHIN_GROUP.get(name.lower(), name))


def call_in(node: exp.Expr, registered: Registered) -> exp.Anonymous | None:
    """The call of an aggregate function that a node is, by itself or with clauses after it."""
    while isinstance(node, AROUND):
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return None
    known = called(node.name) or own_aggregate(node.name, registered)
    return node if known or node.name.lower() in GROUPING else None


def own_aggregate(name: str, registered: Registered) -> OwnAggregate | None:
    """The registered aggregate of a name."""
    known = registered.get(name.lower())
    return known.function if known and isinstance(known.function, OwnAggregate) else None


def is_aggregate(node: exp.Expr, registered: Registered) -> bool:
    """Whether a node is a call of an aggregate function."""
    return call_in(node, registered) is not None


def contains_aggregate(node: exp.Expr, registered: Registered) -> bool:
    """Whether an aggregate function is called anywhere in an expression of this query."""
    parts = node.walk(prune=lambda n: isinstance(n, exp.Query))
    return any(is_aggregate(n, registered) and not isinstance(n.parent, exp.Window) for n in parts)


@dataclass(frozen=True)
class Binding:
    """How the parts of a call are bound: its arguments, the condition of FILTER, and the time of a row.

    ``registered`` are the user's functions.
    """

    bind: Callable[[exp.Expr], Expression]
    condition: Callable[[exp.Expr, str], Expression]
    time: Callable[[exp.Expr], Expression]
    registered: Registered


def aggregate_call(node: exp.Expr, binding: Binding) -> AggregateCall:
    """The bound call."""
    written = _Written.of(node, binding.registered)
    bound = _bound(written, binding)
    if written.filter is None:
        return bound
    return filtered(bound, binding.condition(written.filter, "FILTER (WHERE ...)"))


def filtered(call: AggregateCall, condition: Expression) -> AggregateCall:
    """The call over the rows for which a condition is true: for others its last argument becomes NULL."""
    if not call.arguments:
        return replace(call, argument=only_where(condition, Literal(True, BOOLEAN)))
    *others, last = call.arguments
    first, *rest = (*others, only_where(condition, last))
    return replace(call, argument=first, others=tuple(rest))


@dataclass
class _Written:
    """A call as it is written, taken apart."""

    call: exp.Anonymous
    arguments: list[exp.Expr] = field(default_factory=list)
    order: list[exp.Ordered] = field(default_factory=list)
    distinct: bool = False
    filter: exp.Expr | None = None
    within_group: exp.Expr | None = None
    ignores_nulls: bool = False

    @property
    def word(self) -> str:
        return self.call.name.upper()

    @staticmethod
    def of(node: exp.Expr, registered: Registered) -> _Written:
        call = call_in(node, registered)
        assert call is not None
        written = _Written(call, list(call.expressions))
        while isinstance(node, AROUND):
            written._around(node)
            node = node.this
        for part in (exp.IgnoreNulls, exp.RespectNulls, exp.Order, exp.Distinct):
            if len(written.arguments) == 1 and isinstance(written.arguments[0], part):
                written._inside(written.arguments[0])
        # The ORDER BY after several arguments is read as one of the last.
        if written.arguments and isinstance(written.arguments[-1], exp.Order):
            last = written.arguments[-1]
            written.order, written.arguments[-1] = last.expressions, last.this
        return written

    def _around(self, node: exp.Expr) -> None:
        match node:
            case exp.Filter():
                self.filter = node.expression.this
            case exp.WithinGroup():
                self.order, self.within_group = node.expression.expressions, node
            case exp.IgnoreNulls():
                self.ignores_nulls = True

    def _inside(self, node: exp.Expr) -> None:
        match node:
            case exp.Order():
                self.order, self.arguments = node.expressions, [node.this]
                if isinstance(node.this, exp.Distinct):
                    self._inside(node.this)
            case exp.Distinct():
                self.distinct, self.arguments = True, list(node.expressions)
            case _:
                self.ignores_nulls = isinstance(node, exp.IgnoreNulls)
                self.arguments = [node.this]


def _bound(written: _Written, binding: Binding) -> AggregateCall:
    own = own_aggregate(written.call.name, binding.registered)
    if own is not None:
        return _own_call(own, written, binding)
    function, word, node = called(written.call.name), written.word, written.call
    assert function is not None
    if any(isinstance(a, exp.Star) for a in written.arguments):
        return _of_rows(written)
    arguments = [binding.bind(a) for a in written.arguments]
    if written.call.name.lower() in WITHIN_GROUP:
        arguments = _within_group(written, arguments, binding)
    check_count(word, function, len(arguments), node)
    if written.ignores_nulls:
        arguments = _ignoring_nulls(written, function, arguments)
    try:
        call = function.bind(arguments, _order(written, function, arguments, binding))
    except ValueError as reason:
        raise error(f"{word}: {reason}", node) from None
    if call is None:
        raise mismatch(word, function, arguments, node)
    return replace(call, distinct=written.distinct and not function.ignores_distinct)


def _own_call(own: OwnAggregate, written: _Written, binding: Binding) -> AggregateCall:
    """A call of a registered aggregate."""
    if not written.arguments or any(isinstance(a, exp.Star) for a in written.arguments):
        raise error(f"{written.word} takes one or more arguments", written.call)
    if written.order or written.ignores_nulls:
        raise error(f"{written.word} takes neither ORDER BY nor IGNORE NULLS", written.call)
    first, *others = map(binding.bind, written.arguments)
    return AggregateCall(
        own.name.lower(), first, own.returns, written.distinct, others=tuple(others), own=own
    )


def _of_rows(written: _Written) -> AggregateCall:
    """COUNT(*)."""
    if written.word != "COUNT" or len(written.arguments) > 1:
        raise error(f"{written.word} of * is not defined", written.call, "only COUNT(*) is")
    if written.distinct:
        hint = "count the rows of a SELECT DISTINCT in FROM"
        raise error("COUNT(DISTINCT *) is not defined", written.call, hint)
    return AggregateCall("count", None, BIGINT)


def _within_group(written: _Written, arguments: list[Expression], binding: Binding) -> list[Expression]:
    """The arguments of PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x): x, then p."""
    form = f"{written.word}(0.5) WITHIN GROUP (ORDER BY x)"
    if len(arguments) != 1 or len(written.order) != 1 or written.within_group is None or written.distinct:
        raise error(f"{written.word} is written {form}", written.call)
    (fraction,) = arguments
    if written.order[0].args.get("desc"):
        if written.word != "PERCENTILE_CONT":
            raise unsupported(f"{written.word} of a descending order", written.order[0], f"write {form}")
        fraction = _counted_from_above(fraction)
    return [binding.bind(written.order[0].this), fraction]


def _counted_from_above(fraction: Expression) -> Expression:
    """A fraction of values in descending order as one in ascending order."""
    if not isinstance(fraction, Literal) or fraction.value is None:
        return fraction
    return replace(fraction, value=1 - fraction.value)


def _ignoring_nulls(
    written: _Written, function: Aggregate, arguments: Sequence[Expression]
) -> list[Expression]:
    if function.name not in ("first", "last"):
        raise error(f"IGNORE NULLS does not apply to {written.word}", written.call, "it leaves NULLs out")
    return [arguments[0], Literal(True, BOOLEAN)]


def _order(
    written: _Written, function: Aggregate, arguments: Sequence[Expression], binding: Binding
) -> Order | None:
    """The order of the rows: as written, by time, or with DISTINCT by value alone."""
    if not function.in_order:
        if written.order and written.call.name.lower() not in WITHIN_GROUP:
            raise error(f"ORDER BY does not apply to {written.word}", written.order[0])
        return None
    if not written.order:
        return Order() if written.distinct else Order((binding.time(written.call),), (False,))
    if function.name in ("first", "last"):
        instead = "MIN_BY" if function.name == "first" else "MAX_BY"
        hint = f"write {instead}(value, key)"
        raise error(f"ORDER BY does not apply to {written.word}", written.order[0], hint)
    by = tuple(binding.bind(o.this) for o in written.order)
    if written.distinct and by != (arguments[0],):
        hint = "order by the value, or leave DISTINCT out"
        raise error(f"{written.word}(DISTINCT ...) cannot be in another order", written.order[0], hint)
    for key, node in zip(by, written.order, strict=True):
        if not types.is_ordered(key.type):
            raise error("a list cannot be in the order of arrays", node)
        if bool(node.args.get("nulls_first")) == bool(node.args.get("desc")):
            hint = "NULLs come first, or with DESC last; for another order write IF(x IS NULL, 1, 0) before x"
            raise error("NULLS FIRST and NULLS LAST are not supported in a list", node, hint)
    return Order(by, tuple(bool(o.args.get("desc")) for o in written.order))
