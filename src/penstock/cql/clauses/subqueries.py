"""Subqueries in expressions: EXISTS, IN and scalar ones, as joins with the rows of the expression.

* A conjunct of WHERE or HAVING that is EXISTS or IN is a semijoin; NOT EXISTS and NOT IN are antijoins. NOT
  IN is true only if no comparison is true *or unknown*, so its conjunct is ``COALESCE(x = y, TRUE)``.
* A scalar subquery is a left outer join with the one row it has at most; a correlated aggregate is one with
  its groups, of which every row finds at most one. Another subquery that is correlated by equality is joined
  with the number of its rows by key, and an error where a row finds more than one.
* EXISTS and IN anywhere else are values: a left outer join with counts, from which the truth value follows.
  ``x IN (...)`` is true if ``x`` is counted, false if nothing is counted at all, unknown if ``x`` is NULL
  or a NULL is counted, else false.

Conditions of a subquery that refer to the enclosing query cannot be tested inside it. So it returns, beside
its own columns, what they need of it, and they become conditions of the join with the enclosing query:
``EXISTS (SELECT 1 FROM T WHERE T.a = S.A)`` is a semijoin with ``SELECT 1, T.a FROM T`` on ``S.A = T.a``.
Below an aggregation that works for equality only: the subquery then has its groups for each value of ``T.a``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from penstock.cql.clauses.grouping import Grouping, contains_aggregate
from penstock.cql.clauses.queries import bind_relation, requalified, unwrapped
from penstock.cql.expressions.binder import COMPARISONS, ExpressionBinder, is_quantified
from penstock.cql.expressions.coercion import comparands
from penstock.cql.names.context import Context
from penstock.cql.names.results import unique
from penstock.cql.names.scope import Named, Outer, Scope, as_own, inner_columns, outer_columns
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Call, Column, Expression, Literal, columns, connected, transform
from penstock.functions.types import BIGINT, BOOLEAN, STRING, is_ordered
from penstock.plan.facts import apart_from, equal_sides, over
from penstock.plan.logical import (
    Aggregate,
    AggregateCall,
    Logical,
    OuterJoin,
    Project,
    SemiJoin,
    Single,
)

Part = tuple[Expression, Expression]
"""An expression of a subquery that a correlated condition needs, and the same in terms of the projection."""
TRUE, FALSE, UNKNOWN = (Literal(value, BOOLEAN) for value in (True, False, None))


@dataclass(frozen=True)
class Subquery:
    """A bound subquery: its plan, its own columns, and the conditions of the join with the query around."""

    node: Logical
    columns: list[Column]
    conjuncts: list[Expression]
    value: Expression | None


@dataclass(frozen=True)
class Attachment:
    """A join that a subquery adds, and the columns of the enclosing query that it reads."""

    join: Callable[[Logical], Logical]
    reads: frozenset[str]

    @classmethod
    def of(
        cls, join: Callable[[Logical], Logical], node: Logical, conjuncts: Sequence[Expression]
    ) -> Attachment:
        read = frozenset(name for c in conjuncts for name in columns(c))
        return cls(join, read - frozenset(node.schema.names))


@dataclass
class Attachments:
    """The joins that the subqueries of one clause add to the rows (with ``grouping``, groups) it is over."""

    context: Context
    scope: Scope
    grouping: Grouping | None = None
    names: set[str] = field(default_factory=set)
    _joins: list[Attachment] = field(default_factory=list)
    _values: dict[int, Expression] = field(default_factory=dict)

    def over(self, node: Logical) -> Logical:
        for attached in self._joins:
            node = attached.join(node)
        return node

    def onto(self, sides: Sequence[Logical], at: exp.Expr) -> list[Logical]:
        """The sides of a join with the values of the subqueries in ON, each at the side that it reads."""
        found = list(sides)
        for attached in self._joins:
            side = next((n for n, s in enumerate(found) if attached.reads <= {*s.schema.names}), None)
            if side is None:
                hint = "refer to one side, or write the join as a subquery in FROM"
                raise unsupported("a subquery in ON that refers to both sides of this join", at, hint)
            found[side] = attached.join(found[side])
        return found

    def semijoin(self, node: exp.Expr, binder: ExpressionBinder) -> bool:
        """Add a conjunct of a condition as a semijoin or antijoin; False if it is neither."""
        anti, test = False, node.unnest()
        while isinstance(test, exp.Not):
            anti, test = not anti, test.this.unnest()
        if is_quantified(test):
            self._quantified_join(test, binder, anti)
            return True
        if isinstance(test, exp.Exists):
            subquery = self._bind(test, test.this)
            conjuncts = subquery.conjuncts
        elif isinstance(test, exp.In) and test.args.get("query") and not _has_one_row(test, self.scope):
            subquery = self._bind(test, test.args["query"])
            matches = self._matches(test, binder, subquery)
            matches = _or_unknown(matches) if anti else matches
            conjuncts = subquery.conjuncts + matches
        else:
            return False
        self._semijoin(subquery, conjuncts, anti)
        return True

    def value(self, binder: ExpressionBinder, node: exp.Expr) -> Expression:
        """The value of a subquery in an expression; its join is added once, however often it is bound."""
        if id(node) not in self._values:
            self._values[id(node)] = self._value(binder, node)
        return self._values[id(node)]

    def _value(self, binder: ExpressionBinder, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Exists):
            return self._exists(self._bind(node, node.this), node)
        if isinstance(node, exp.In):
            return self._in(binder, node)
        if is_quantified(node):
            return self._quantified(binder, node)
        return self._scalar(node)

    # scalar subqueries

    def _scalar(self, node: exp.Expr) -> Expression:
        subquery = self._bind(node, node, takes_value=True)
        if subquery.value is not None:
            self._attach(subquery.node, subquery.conjuncts)
            return subquery.value
        if len(subquery.columns) != 1:
            count = len(subquery.columns)
            raise error(f"a scalar subquery returns one column, not {count}", node)
        if subquery.conjuncts:
            return self._only_row(subquery, node)
        self._attach(Single(subquery.node), [])
        return subquery.columns[0]

    def _only_row(self, subquery: Subquery, node: exp.Expr) -> Expression:
        """The value of the one row that a correlated subquery has; where it has several, an error."""
        (value,) = subquery.columns
        if not is_ordered(value.type):
            raise unsupported("an array as the value of a correlated scalar subquery", node)
        calls = [AggregateCall("count", None, BIGINT), AggregateCall("max", value, value.type)]
        count, only = self._aggregated(subquery, node, calls)
        several = Call(">", (count, Literal(1, BIGINT)), BOOLEAN)
        message = Literal("a scalar subquery has more than one row; aggregate it or use IN", STRING)
        failure = Call("raise_error", (message,), value.type)
        return Call("case", (several, failure, only), value.type)

    # truth values

    def _exists(self, subquery: Subquery, node: exp.Expr) -> Expression:
        (count,) = self._counts(subquery, node, [None])
        return Call(">", (_or_zero(count), Literal(0, BIGINT)), BOOLEAN)

    def _in(self, binder: ExpressionBinder, node: exp.In) -> Expression:
        query = node.args["query"]
        if _has_one_row(node, self.scope):
            return Call("=", tuple(comparands([binder.bind(node.this), self._scalar(query)], node)), BOOLEAN)
        subquery = self._bind(node, query)
        values = _row(node.this, binder)
        _check_width(node, values, subquery)
        if len(values) != 1:
            raise unsupported("IN of several columns as a value", node, "make it a conjunct of its own")
        (match,) = self._matches(node, binder, subquery)
        rows, known = self._counts(subquery, node, [None, subquery.columns[0]])
        found = self._found(subquery, match, node)
        empty = Call("=", (_or_zero(rows), Literal(0, BIGINT)), BOOLEAN)
        has_null = Call("<", (_or_zero(known), _or_zero(rows)), BOOLEAN)
        unknown = Call("or", (Call("isnull", (values[0],), BOOLEAN), has_null), BOOLEAN)
        return Call("case", (found, TRUE, empty, FALSE, unknown, UNKNOWN, FALSE), BOOLEAN)

    # ANY and ALL

    def _quantified_join(self, node: exp.Expr, binder: ExpressionBinder, anti: bool) -> None:
        """``x < ANY (...)`` is a semijoin by x < y; ``x < ALL (...)`` an antijoin by what contradicts it."""
        sign, every = _sign(node), isinstance(node.expression, exp.All)
        subquery = self._bind(node, _quantified_query(node))
        match = self._compared(node, binder, subquery, CONTRARY[sign] if every else sign)
        anti = every != anti
        matches = _or_unknown([match]) if anti else [match]
        self._semijoin(subquery, [*subquery.conjuncts, *matches], anti)

    def _quantified(self, binder: ExpressionBinder, node: exp.Expr) -> Expression:
        """The truth value: ALL is the negation of ANY with the contrary sign."""
        sign, every = _sign(node), isinstance(node.expression, exp.All)
        found = self._any(binder, node, CONTRARY[sign] if every else sign)
        return Call("not", (found,), BOOLEAN) if every else found

    def _any(self, binder: ExpressionBinder, node: exp.Expr, sign: str) -> Expression:
        """``x < ANY``: x is less than the greatest value; NULLs among the values leave it unknown if not."""
        query = _quantified_query(node)
        if sign == "=":
            return self._in(binder, exp.In(this=node.this.copy(), query=exp.Subquery(this=query.copy())))
        subquery = self._bind(node, query)
        (value,) = subquery.columns[:1]
        extremes = {"<": ("max",), "<=": ("max",), ">": ("min",), ">=": ("min",), "<>": ("min", "max")}[sign]
        calls = [AggregateCall("count", a, BIGINT) for a in (None, value)]
        calls += [AggregateCall(name, value, value.type) for name in extremes]
        rows, known, *bounds = self._aggregated(subquery, node, calls)
        over = [Subquery(subquery.node, [bound], [], None) for bound in bounds]
        tests = [self._compared(node, binder, bound, sign) for bound in over]
        test = tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)
        empty = Call("=", (_or_zero(rows), Literal(0, BIGINT)), BOOLEAN)
        has_null = Call("<", (_or_zero(known), _or_zero(rows)), BOOLEAN)
        left = Call("isnull", (self._adapted(binder.bind(node.this), node),), BOOLEAN)
        unknown = Call("or", (left, has_null), BOOLEAN)
        return Call("case", (test, TRUE, empty, FALSE, unknown, UNKNOWN, FALSE), BOOLEAN)

    def _compared(
        self, node: exp.Expr, binder: ExpressionBinder, subquery: Subquery, sign: str
    ) -> Expression:
        if len(subquery.columns) != 1:
            count = len(subquery.columns)
            raise error(f"a comparison with ANY or ALL takes one column, not {count}", node)
        x, y = comparands((binder.bind(node.this), subquery.columns[0]), node)
        return Call(sign, (self._adapted(x, node.this), y), BOOLEAN)

    def _found(self, subquery: Subquery, match: Expression, node: exp.Expr) -> Expression:
        """Whether the value is among the subquery's, by a join with each of them once."""
        (count,) = self._counts(
            Subquery(subquery.node, subquery.columns, [*subquery.conjuncts, match], None), node, [None]
        )
        return Call("isnotnull", (count,), BOOLEAN)

    def _counts(
        self, subquery: Subquery, node: exp.Expr, arguments: Sequence[Expression | None]
    ) -> list[Column]:
        """Counts of a subquery's rows, for each value of the expressions that its conjuncts compare."""
        return self._aggregated(subquery, node, [AggregateCall("count", a, BIGINT) for a in arguments])

    def _aggregated(self, subquery: Subquery, node: exp.Expr, calls: Sequence[AggregateCall]) -> list[Column]:
        """Aggregates of a subquery's rows, for each value of the expressions that its conjuncts compare."""
        names = subquery.node.schema.names
        pairs = [equal_sides(c, apart_from(names), over(names)) for c in subquery.conjuncts]
        if not all(pairs):
            hint = "make it a conjunct of its own, or correlate it by equality"
            raise unsupported("a subquery as a value that is not correlated by equality", node, hint)
        alias = self.context.new_alias()
        keys, conjuncts = list[tuple[str, Expression]](), list[Expression]()
        for number, (outer, inner) in enumerate(p for p in pairs if p):
            keys.append((f"{alias}.key{number}", inner))
            conjuncts.append(Call("=", (outer, Column(keys[-1][0], inner.type)), BOOLEAN))
        named = [(f"{alias}.{call.function}{i}", call) for i, call in enumerate(calls)]
        self._attach(Aggregate(subquery.node, tuple(keys), tuple(named)), conjuncts)
        return [Column(name, call.type) for name, call in named]

    # binding and joining

    def _attach(self, node: Logical, conjuncts: Sequence[Expression]) -> None:
        join = partial(OuterJoin, right=node, kind="left", conjuncts=tuple(conjuncts))
        self._joins.append(Attachment.of(join, node, conjuncts))
        self.names.update(node.schema.names)
        if self.grouping is not None:
            self.grouping.attached.update(node.schema.names)

    def _semijoin(self, subquery: Subquery, conjuncts: Sequence[Expression], anti: bool) -> None:
        join = partial(SemiJoin, right=subquery.node, conjuncts=tuple(conjuncts), anti=anti)
        self._joins.append(Attachment.of(join, subquery.node, conjuncts))

    def _bind(self, node: exp.Expr, query: exp.Expr, takes_value: bool = False) -> Subquery:
        outer = Outer(self.scope, takes_value=takes_value)
        what = "a subquery in an expression"
        root = bind_relation(query, self.context.inside(outer), what)
        alias, names = self.context.new_alias(), root.schema.names
        root = requalified(root, alias, names)
        own = list(root.schema)[: len(names) - len(outer.extras)]
        return Subquery(
            root,
            [Column(f.name, f.type) for f in own],
            [self._above(c, alias, node) for c in outer.conjuncts],
            self._above(outer.values[0], alias, node) if outer.values else None,
        )

    def _above(self, expression: Expression, alias: str, node: exp.Expr) -> Expression:
        """An expression of a subquery over the join of its result with the query around."""

        def named(part: Expression) -> Expression | None:
            if outer_columns(part) and not inner_columns(part):
                return self._adapted(as_own(part), node)
            return Column(f"{alias}.{part.name}", part.type) if isinstance(part, Column) else None

        return transform(expression, named)

    def _adapted(self, bound: Expression, node: exp.Expr) -> Expression:
        """An expression of the clause in terms of the joins' input."""
        if outer_columns(bound):
            raise unsupported("a subquery that refers to a query beyond the enclosing one", node)
        return self.grouping.over_groups(bound, node) if self.grouping else bound

    def _matches(self, node: exp.In, binder: ExpressionBinder, subquery: Subquery) -> list[Expression]:
        """The equalities of IN, one per column."""
        values = _row(node.this, binder)
        _check_width(node, values, subquery)
        pairs = [comparands(pair, node) for pair in zip(values, subquery.columns, strict=True)]
        return [Call("=", (self._adapted(x, node.this), y), BOOLEAN) for x, y in pairs]


CONTRARY = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The comparison that is true where another is false."""


def _sign(node: exp.Expr) -> str:
    return COMPARISONS[type(node)]


def _quantified_query(node: exp.Expr) -> exp.Expr:
    query = node.expression.this
    if not isinstance(query, exp.Query):
        raise unsupported("ANY or ALL of anything but a subquery", node, "write IN (...)")
    return query


def _row(node: exp.Expr, binder: ExpressionBinder) -> list[Expression]:
    """The left side of IN: a value, values in parentheses, or all columns of a FROM item by its alias."""
    if isinstance(node, exp.Tuple):
        return [binder.bind(e) for e in node.expressions]
    if isinstance(node, exp.Column) and not node.table and not binder.scope.has(node.name):
        item = binder.scope.item(node.name)
        if item is not None:
            return list(item.columns.values())
    return [binder.bind(node)]


def _check_width(node: exp.In, values: Sequence[Expression], subquery: Subquery) -> None:
    if len(values) != len(subquery.columns):
        raise error(f"IN compares {len(values)} with {len(subquery.columns)} columns", node)


def _has_one_row(node: exp.In, scope: Scope) -> bool:
    """Whether the subquery of IN is an aggregate without GROUP BY, so that IN is a comparison."""
    query = unwrapped(node.args["query"])
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("having"):
        return False
    return len(query.expressions) == 1 and contains_aggregate(query.expressions[0], scope.functions)


def _or_unknown(matches: Sequence[Expression]) -> list[Expression]:
    """True where the equalities are true or unknown together."""
    return [Call("coalesce", (connected("and", matches), TRUE), BOOLEAN)]


def _or_zero(count: Expression) -> Expression:
    return Call("coalesce", (count, Literal(0, BIGINT)), BIGINT)


# correlation


def _equality(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """The sides of an equality between the enclosing query and the subquery, in that order."""
    return equal_sides(conjunct, _of_outer, _of_inner)


def _of_outer(e: Expression) -> bool:
    return bool(outer_columns(e)) and not inner_columns(e)


def _of_inner(e: Expression) -> bool:
    return bool(inner_columns(e)) and not outer_columns(e)


def needed(correlated: Sequence[Expression]) -> list[Expression]:
    """The expressions over the subquery's rows that correlated conditions need."""
    parts = list[Expression]()
    for conjunct in correlated:
        pair = _equality(conjunct)
        parts += [pair[1]] if pair else inner_columns(conjunct)
    return list(dict.fromkeys(parts))


def _keys(correlated: Sequence[Expression], at: exp.Expr) -> list[Expression]:
    """As ``needed``, below an aggregation, where each condition must be an equality."""
    equalities_only(correlated, at, "an aggregate")
    return needed(correlated)


def equalities_only(correlated: Sequence[Expression], at: exp.Expr, what: str) -> None:
    """Reject a construct of a subquery that works for each value it is correlated by."""
    if not all(_equality(c) for c in correlated):
        raise unsupported(
            f"{what} in a subquery that is correlated by anything but equality",
            at,
            "write its WHERE as inner = outer AND ...",
        )


def project(
    node: Logical,
    named: Sequence[Named],
    parts: Sequence[Part],
    correlated: Sequence[Expression],
    outer: Outer | None,
    hidden: Sequence[Expression] = (),
) -> Project:
    """The projection of a SELECT list, of the ``parts`` that correlated conditions need, and of ``hidden``.

    The conditions go to ``outer`` in terms of the projection's columns.
    """
    names = unique([*(name for name, _ in named), *(str(part) for part, _ in parts), *map(str, hidden)])
    expressions = [*(e for _, e in named), *(e for _, e in parts), *hidden]
    if outer is not None and correlated:
        own = names[len(named) : len(named) + len(parts)]
        columns = {part: Column(name, part.type) for (part, _), name in zip(parts, own, strict=True)}
        outer.conjuncts.extend(_replaced(c, columns) for c in correlated)
        outer.extras.extend(own)
    return Project(node, tuple(zip(names, expressions, strict=True)))


def key_parts(grouping: Grouping, correlated: Sequence[Expression], at: exp.Expr) -> list[Part]:
    """The keys that correlated conditions need, added to those of the grouping."""
    return [(key, grouping.key(key)) for key in _keys(correlated, at)]


def value_above(
    node: Logical,
    grouping: Grouping,
    value: Expression,
    correlated: Sequence[Expression],
    outer: Outer,
    at: exp.Expr,
) -> Project:
    """An aggregate per value of the keys of ``correlated``; the enclosing query computes the SELECT item.

    There a left outer join finds the group. Without a group, COUNT is 0 and every other aggregate is NULL.
    """
    parts = key_parts(grouping, correlated, at)
    columns: list[Named] = [(name, Column(name, call.type)) for name, call in grouping.calls.items()]
    counts = {c: _or_zero(c) for name, c in columns if grouping.calls[name].function == "count"}
    outer.values.append(_replaced(value, counts))
    return project(grouping.over(node), columns, parts, correlated, outer)


def _replaced(expression: Expression, new: Mapping[Expression, Expression]) -> Expression:
    return transform(expression, lambda e: new.get(e))
