"""Ranks of a SELECT: ROW_NUMBER, RANK and DENSE_RANK with OVER, QUALIFY, and ORDER BY with LIMIT.

Each is a ``Rank`` over the rows of the SELECT list, ordered by its keys and then by all columns. Below it is
a projection of the SELECT items, and of what else the keys need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from penstock.cql.clauses.first_rows import FirstRows, Key, check_ordered, key_of, of_output
from penstock.cql.clauses.grouping import Grouping, with_items
from penstock.cql.clauses.subqueries import Part, equalities_only, project
from penstock.cql.expressions.binder import ExpressionBinder
from penstock.cql.names.results import unique
from penstock.cql.names.scope import Named, Outer
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Column, Expression, columns, conjuncts, transform, walk
from penstock.plan.logical import RANKS, Distinct, Logical, Project, Rank, Select


@dataclass(frozen=True)
class OverCall:
    """A rank with OVER."""

    kind: str
    groups: tuple[Expression, ...]
    keys: tuple[Key, ...]


@dataclass
class Ranking:
    """The ranks of a SELECT, the conditions of its QUALIFY, and its first rows."""

    select: exp.Select
    grouping: Grouping | None = None
    calls: dict[str, OverCall] = field(default_factory=dict)
    qualify: list[Expression] = field(default_factory=list)
    order: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = FirstRows.of(self.select)

    def over(self, binder: ExpressionBinder, node: exp.Window) -> Expression:
        """The column that holds a rank."""
        function, order = node.this, node.args.get("order")
        kind = function.name.lower() if isinstance(function, exp.Anonymous) else ""
        if kind not in RANKS:
            hint = (
                "ROW_NUMBER, RANK and DENSE_RANK are; for an aggregate of the rows before, write a window "
                "after the stream, as in FROM S [PARTITION BY k ROWS 2], and GROUP BY"
            )
            raise unsupported(f"{function.name.upper()} with an OVER clause", node, hint)
        if function.expressions or order is None:
            word = kind.upper()
            hint = f"write {word}() OVER (PARTITION BY k ORDER BY v DESC)"
            raise error(f"{word} takes no argument and needs an OVER clause with ORDER BY", node, hint)
        inner = replace(binder, over=_refuse_nested)
        groups = tuple(self._adapted(inner.bind(e), e) for e in node.args.get("partition_by") or ())
        keys = tuple(key_of(self._adapted(inner.bind(o.this), o), o) for o in order.expressions)
        call = OverCall(kind, groups, keys)
        name = next((n for n, c in self.calls.items() if c == call), f"#rank {len(self.calls) + 1}")
        self.calls[name] = call
        if self.grouping is not None:
            self.grouping.attached.add(name)
        return Column(name, pa.int32())

    def bind(self, items: Sequence[exp.Expr], named: Sequence[Named], binder: ExpressionBinder) -> None:
        """Bind QUALIFY and ORDER BY; names of SELECT items may stand in both."""
        clause = self.select.args.get("qualify")
        if clause is not None:
            condition = with_items(clause.this, items, binder.scope)
            bound = self._adapted(binder.condition(condition, "QUALIFY"), condition)
            self.qualify = conjuncts(bound)
            if not self.calls:
                raise error("QUALIFY needs ROW_NUMBER, RANK or DENSE_RANK with OVER", clause, "write WHERE")
        for ordered in self.first.keys if self.first else ():
            found = of_output(ordered.this, named)
            if found is None:
                found = self._adapted(binder.bind(ordered.this), ordered)
            self.order.append(key_of(found, ordered))

    def _adapted(self, bound: Expression, node: exp.Expr) -> Expression:
        return self.grouping.over_groups(bound, node) if self.grouping else bound

    # the plan

    def output(
        self,
        node: Logical,
        named: Sequence[Named],
        parts: Sequence[Part],
        correlated: Sequence[Expression],
        outer: Outer | None,
        distinct: bool,
    ) -> Logical:
        """The SELECT list over rows or groups, ranked, qualified, distinct and cut, in that order."""
        if (self.calls or self.first) and correlated:
            equalities_only(correlated, self.select, "LIMIT or OVER")
        if self.calls:
            node, own = self._ranked(node, named, [e for _, e in parts])
            named = [(name, _replaced(e, own)) for name, e in named]
            parts = [(part, own[e]) for part, e in parts]
            self.order = [replace(k, expression=_replaced(k.expression, own)) for k in self.order]
        shown = {e for _, e in named}
        hidden = [k.expression for k in self.order if k.expression not in shown]
        if hidden and distinct:
            hint = "order by what is selected"
            raise unsupported("ORDER BY of what SELECT DISTINCT does not return", self.select, hint)
        result = project(node, named, parts, correlated, outer, hidden)
        return self._cut(result, [n for n, _ in result.columns], len(named), len(parts), distinct)

    def _ranked(
        self, node: Logical, named: Sequence[Named], parts: Sequence[Expression]
    ) -> tuple[Logical, dict[Expression, Column]]:
        """The rows with a column for each rank that QUALIFY leaves; and their columns by expression."""
        plain = [(name, e) for name, e in named if columns(e).isdisjoint(self.calls)]
        needed = [*parts, *self._read(e for _, e in named)]
        carried = dict.fromkeys([*(e for _, e in plain), *needed])
        titles = {e: name for name, e in reversed(plain)}
        names = unique(titles.get(e, str(e)) for e in carried)
        own = {e: Column(name, e.type) for e, name in zip(carried, names, strict=True)}
        rows: Logical = Project(node, tuple((c.name, e) for e, c in own.items()))
        check_ordered(rows, self.select)
        for name, call in self.calls.items():
            groups = dict.fromkeys(own[e].name for e in (*parts, *call.groups))
            keys = tuple(k.sort_key(own) for k in call.keys)
            rows = Rank(rows, tuple(groups), keys, call.kind, shown=name)
        own |= {Column(name, pa.int32()): Column(name, pa.int32()) for name in self.calls}
        conditions = tuple(_replaced(c, own) for c in self.qualify)
        return Select(rows, conditions) if conditions else rows, own

    def _read(self, items: Iterable[Expression]) -> Iterable[Expression]:
        """What ranks, items beside them, QUALIFY and ORDER BY read."""
        for call in self.calls.values():
            yield from (*call.groups, *(k.expression for k in call.keys))
        for e in (*items, *self.qualify, *(k.expression for k in self.order)):
            yield from (c for c in walk(e) if isinstance(c, Column) and c.name not in self.calls)

    def _cut(self, node: Project, names: list[str], shown: int, parts: int, distinct: bool) -> Logical:
        """The first rows, if only those are asked for, without the columns that only order them."""
        relation: Logical = Distinct(node) if distinct else node
        if self.first is None:
            return relation
        own = {e: Column(name, e.type) for name, e in reversed(node.columns)}
        keys = [k.sort_key(own) for k in self.order]
        visible = names[: shown + parts]
        ranked = self.first.rank(relation, names[shown : shown + parts], keys)
        if len(visible) == len(names):
            return ranked
        return Project(ranked, tuple((n, Column(n, ranked.schema.field(n).type)) for n in visible))


def _refuse_nested(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    raise unsupported("an OVER clause inside an OVER clause", node, "rank in a subquery in FROM")


def _replaced(expression: Expression, new: Mapping[Expression, Expression]) -> Expression:
    return transform(expression, new.get)
