"""ORDER BY with LIMIT and OFFSET: the first rows of a relation at every instant.

The order is by the keys, then by all columns of the result, so that it never depends on chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.cql.names.scope import Named
from penstock.cql.settings import MOST_ROWS
from penstock.cql.syntax.errors import error, unsupported
from penstock.expression import Column, Expression
from penstock.functions import types
from penstock.plan.logical import Logical, Rank, SortKey
from penstock.schema import sql_name


@dataclass(frozen=True)
class Key:
    """An expression to order by."""

    expression: Expression
    descending: bool
    nulls_first: bool

    def sort_key(self, own: Mapping[Expression, Column]) -> SortKey:
        """The key in terms of columns."""
        return SortKey(own[self.expression].name, self.descending, self.nulls_first)


@dataclass(frozen=True)
class FirstRows:
    """ORDER BY with LIMIT and OFFSET, as written."""

    keys: Sequence[exp.Ordered]
    skip: int
    last: int | None

    @classmethod
    def of(cls, query: exp.Expr) -> FirstRows | None:
        """What a query says of its first rows; ORDER BY or LIMIT alone is rejected."""
        order, limit, offset = (query.args.get(arg) for arg in ("order", "limit", "offset"))
        if order is None and (limit or offset):
            hint = "a relation has no order: write ORDER BY to say which rows come first"
            raise unsupported(f"{'LIMIT' if limit else 'OFFSET'} without ORDER BY", limit or offset, hint)
        if order is None:
            return None
        if limit is None and offset is None:
            hint = "a relation has no order: add LIMIT for its first rows, or leave ORDER BY out"
            raise unsupported("ORDER BY without LIMIT", order, hint)
        skip = _whole_number(offset, "OFFSET") if offset else 0
        last = skip + _whole_number(limit, "LIMIT") if limit else None
        return cls(order.expressions, skip, last)

    def rank(self, node: Logical, groups: Sequence[str], keys: Sequence[SortKey]) -> Rank:
        check_ordered(node, self.keys[0])
        return Rank(node, tuple(groups), tuple(keys), "row_number", self.skip, self.last)


def _whole_number(clause: exp.Expr, word: str) -> int:
    if isinstance(clause, exp.Fetch):
        raise unsupported("FETCH FIRST", clause, "write LIMIT")
    number = clause.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise error(f"{word} takes a whole number", clause, f"as in {word} 10")
    if int(number.name) > MOST_ROWS:
        raise error(f"{word} {number.name} is too large", clause, "write a smaller number")
    return int(number.name)


def first_rows_of(relation: Logical, query: exp.Expr) -> Logical:
    """The first rows of a query's result, ordered by its columns: a set operation, or one in parentheses."""
    first = FirstRows.of(query)
    if first is None:
        return relation
    named = [(f.name, Column(f.name, f.type)) for f in relation.schema]
    keys = list[SortKey]()
    for ordered in first.keys:
        found = of_output(ordered.this, named)
        if found is None:
            hint = f"it has {', '.join(relation.schema.names)}"
            raise error("ORDER BY takes a column of the result here", ordered, hint)
        keys.append(key_of(found, ordered).sort_key({found: Column(str(found), found.type)}))
    return first.rank(relation, (), keys)


def of_output(node: exp.Expr, named: Sequence[Named]) -> Expression | None:
    """The output column that an item of ORDER BY names, or numbers by its position."""
    if isinstance(node, exp.Literal) and not node.is_string:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(named):
            at = f"ORDER BY {node.name} is not a position in the SELECT list"
            raise error(at, node, f"it has {len(named)}")
        return named[int(node.name) - 1][1]
    if isinstance(node, exp.Column) and not node.table:
        return next((e for name, e in named if name.casefold() == node.name.casefold()), None)
    return None


def check_ordered(node: Logical, at: exp.Expr) -> None:
    """Reject rows that cannot be ordered by all their columns."""
    for f in node.schema:
        if not types.is_ordered(f.type):
            raise error(f"type mismatch: column '{f.name}' is {sql_name(f.type)}, which has no order", at)


def key_of(expression: Expression, ordered: exp.Ordered) -> Key:
    """The key that an item of ORDER BY is."""
    if not types.is_ordered(expression.type):
        raise error(f"type mismatch: {sql_name(expression.type)} has no order", ordered)
    return Key(expression, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))
