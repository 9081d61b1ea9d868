"""GROUP BY and aggregates: what a SELECT item may refer to once rows are grouped.

Items are bound over the rows first. Each aggregate call becomes a column of the Aggregate node, named by
its text; each part that equals a key becomes that key's column. Any other column of
the rows is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from penstock.cql.clauses.grouping_sets import GROUPING_ID, GroupingSets, grouping_sets
from penstock.cql.expressions.aggregates import (
    GROUPING,
    Binding,
    aggregate_call,
    call_in,
    contains_aggregate,
    is_aggregate,
)
from penstock.cql.expressions.binder import ExpressionBinder, refuse_over
from penstock.cql.names.scope import Scope
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Call, Column, Expression, transform, walk
from penstock.functions import intervals
from penstock.plan.logical import Aggregate, AggregateCall, Logical
from penstock.plan.logical.stamp import latest

BindSubquery = Callable[[ExpressionBinder, exp.Expr], Expression]
BindOver = Callable[[ExpressionBinder, exp.Window], Expression]


@dataclass
class Grouping:
    """The keys of a grouped SELECT, the aggregate calls its items make, the columns subqueries add."""

    scope: Scope
    keys: dict[str, Expression] = field(default_factory=dict)
    calls: dict[str, AggregateCall] = field(default_factory=dict)
    attached: set[str] = field(default_factory=set)
    rows: Logical | None = None
    """What is grouped, if rows in it may have a time."""
    in_order: bool = False
    """Whether an aggregate depends on the time of rows."""
    sets: GroupingSets | None = None
    subquery: BindSubquery | None = None
    """Binds subqueries in arguments of aggregates; ``attach`` adds their joins to the rows."""
    attach: Callable[[Logical], Logical] = lambda rows: rows

    def binder(self, subquery: BindSubquery, over: BindOver = refuse_over) -> ExpressionBinder:
        """A binder for items over the groups; its result must still go through ``over_groups``."""
        return ExpressionBinder(self.scope, self.aggregate, subquery, over)

    def key(self, key: Expression) -> Column:
        """Add a key; returns the column that holds it."""
        name = _free_name(key.name if isinstance(key, Column) else f"({key})", key, self.keys)
        self.keys[name] = key
        return Column(name, key.type)

    def aggregate(self, node: exp.Expr) -> Expression:
        """Add an aggregate call; returns the column that holds it."""
        written = call_in(node, self.scope.functions)
        if written is not None and written.name.lower() in GROUPING:
            if written is not node:
                raise error(f"{written.name.upper()} takes no FILTER", node)
            return self._grouping(written)
        binder = row_binder(self.scope, "another aggregate", self.subquery)
        call = aggregate_call(node, Binding(binder.bind, binder.condition, self._time, self.scope.functions))
        name = _free_name(str(call), call, self.calls)
        self.calls[name] = call
        return Column(name, call.type)

    def _time(self, node: exp.Expr) -> Expression:
        """The time of a row: the latest timestamp of the stream rows it is joined from."""
        columns = self.rows.stamped()[1] if self.rows is not None else ()
        if self.rows is None or not columns:
            word = call_in(node, self.scope.functions) or node
            hint = "name an order: MIN_BY(x, key), MAX_BY(x, key), COLLECT_LIST(x ORDER BY key)"
            raise error(
                f"{word.name.upper()} needs the order of rows, and these rows have no timestamps", node, hint
            )
        self.in_order = True
        return latest(columns, self.rows)

    def over_groups(self, bound: Expression, node: exp.Expr) -> Expression:
        """A bound item with its keys replaced by the key columns; other columns of the rows are rejected."""
        names = {e: self.sets.column(name) if self.sets else name for name, e in self.keys.items()}

        def key(e: Expression) -> Expression | None:
            length = intervals.difference(e)
            if length is not None and length in names:
                return intervals.micros_of(Column(names[length], length.type))
            return Column(names[e], e.type) if e in names else None

        replaced = transform(bound, key)
        for part in walk(replaced):
            if isinstance(part, Column) and part.name not in names.values() and not self._has(part.name):
                raise error(
                    f"column '{part.name}' is neither in GROUP BY nor in an aggregate",
                    _where_used(node, part, self.scope),
                    f"add it to GROUP BY or write e.g. MAX({part.name})",
                )
        return replaced

    def _grouping(self, node: exp.Anonymous) -> Expression:
        """Which keys a group does not have: GROUPING of one, or the bits of several, the last the lowest."""
        if self.sets is None:
            word = node.name.upper()
            raise error(f"{word} needs GROUP BY with ROLLUP, CUBE or GROUPING SETS", node)
        binder, names = row_binder(self.scope, "GROUPING"), {e: name for name, e in self.keys.items()}
        for argument in node.expressions:
            if binder.bind(argument) not in names:
                raise error(f"'{argument.sql()}' is not in GROUP BY", argument, "GROUPING takes its keys")
        one = node.name.lower() == "grouping"
        if one and len(node.expressions) != 1:
            raise error(f"GROUPING takes 1 argument, not {len(node.expressions)}", node, "see GROUPING_ID")
        self.attached.add(GROUPING_ID)
        wanted = [names[binder.bind(e)] for e in node.expressions] or list(self.sets.names)
        bits = self.sets.bits(wanted)
        return Call("cast", (bits,), pa.int8()) if one else bits

    def over(self, node: Logical) -> Aggregate:
        node = self.attach(node.stamped()[0] if self.in_order else node)
        if self.sets is None:
            return Aggregate(node, tuple(self.keys.items()), tuple(self.calls.items()))
        expanded, keys = self.sets.expanded(node, self.keys)
        return Aggregate(expanded, keys, tuple(self.calls.items()))

    def _has(self, name: str) -> bool:
        return name in self.calls or name in self.attached


def row_binder(
    scope: Scope, clause: str, subquery: BindSubquery | None = None, over: BindOver = refuse_over
) -> ExpressionBinder:
    """A binder for a clause over rows, which rejects aggregates, and subqueries unless given a hook."""

    def refuse(node: exp.Expr) -> Expression:
        call = call_in(node, scope.functions)
        assert call is not None
        hint = "write it in HAVING" if clause == "WHERE" else None
        raise error(f"the aggregate {call.name.upper()} is not allowed in {clause}", node, hint)

    def refuse_subquery(binder: ExpressionBinder, node: exp.Expr) -> Expression:
        raise unsupported(f"a subquery in {clause.replace('another', 'an')}", node)

    return ExpressionBinder(scope, refuse, subquery or refuse_subquery, over)


def is_grouped(select: exp.Select, items: Sequence[exp.Expr], scope: Scope) -> bool:
    """Whether a SELECT aggregates."""
    clauses = ("group", "having")
    return any(select.args.get(c) for c in clauses) or any(
        contains_aggregate(i, scope.functions) for i in items
    )


def bind_grouping(select: exp.Select, items: Sequence[exp.Expr], scope: Scope) -> Grouping:
    """The keys of GROUP BY: columns, expressions, SELECT aliases or positions in the SELECT list."""
    grouping, group = Grouping(scope), select.args.get("group")
    if group is None:
        return grouping
    for arg in ("totals", "all"):
        if group.args.get(arg):
            raise unsupported(f"GROUP BY {arg.upper()}", group)

    def key(node: exp.Expr) -> str:
        return grouping.key(row_binder(scope, "GROUP BY").bind(_key_meant(node, items, scope))).name

    sets = grouping_sets(group, key)
    if sets is not None and (grouping.keys or sets != ((),)):
        grouping.sets = GroupingSets(tuple(grouping.keys), sets)
    return grouping


def _free_name(name: str, what: object, taken: Mapping[str, object]) -> str:
    """A free name: two expressions may read the same and differ in type."""
    candidate, number = name, 1
    while taken.get(candidate, what) != what:
        number += 1
        candidate = f"{name} #{number}"
    return candidate


def item_meant(node: exp.Expr, items: Sequence[exp.Expr], scope: Scope) -> exp.Expr | None:
    """The SELECT item whose alias a name is, unless it is a column of FROM."""
    if isinstance(node, exp.Column) and not node.table and not scope.has(node.name):
        aliased = [i.this for i in items if isinstance(i, exp.Alias) and i.alias.lower() == node.name.lower()]
        return aliased[0] if aliased else None
    return None


def with_items(node: exp.Expr, items: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    """A condition of HAVING with SELECT items in place of their aliases, except inside subqueries."""
    if not any(item_meant(c, items, scope) for c in node.find_all(exp.Column)):
        return node
    node = node.copy()
    inside = {id(c) for query in node.find_all(exp.Query) for c in query.find_all(exp.Column)}

    def meant(part: exp.Expr) -> exp.Expr:
        item = item_meant(part, items, scope) if id(part) not in inside else None
        return item.copy() if item else part

    return node.transform(meant, copy=False)


def _key_meant(node: exp.Expr, items: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        return _at_position(node, items)
    return item_meant(node, items, scope) or node


def _at_position(node: exp.Literal, items: Sequence[exp.Expr]) -> exp.Expr:
    if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
        raise error(
            f"GROUP BY {node.name} is not a position in the SELECT list", node, f"it has {len(items)}"
        )
    return items[int(node.name) - 1].unalias()


def _where_used(node: exp.Expr, column: Column, scope: Scope) -> exp.Expr:
    """The first place in an item, outside aggregates and subqueries, that names a column."""
    for part in node.walk(
        bfs=False, prune=lambda n: is_aggregate(n, scope.functions) or isinstance(n, exp.Query)
    ):
        if isinstance(part, exp.Column) and not part.is_star:
            found = scope.own(part)
            if found and any(e == column for e in walk(found[1])):
                return part
    return node
