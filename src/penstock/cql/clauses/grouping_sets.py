"""ROLLUP, CUBE and GROUPING SETS: one GROUP BY by several sets of keys.

Each row is expanded to one row per set, in which the keys that the set lacks are NULL, with the number of
the set; grouped by keys and number, these are the groups of all sets. GROUPING_ID has a bit per key, 1 where
the set lacks it, the last key the lowest. As in Spark a group has rows, also that of the empty set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from penstock.cql.settings import MOST_GROUPING_SETS
from penstock.cql.syntax.errors import error
from penstock.expression import Call, Column, Expression, Literal
from penstock.functions.types import BIGINT
from penstock.plan.logical import Expand, Logical

GROUPING_ID = "#grouping"
_NUMBER = Column("#set", BIGINT)

Key = Callable[[exp.Expr], str]
"""Binds a key; returns its name."""
KeySet = tuple[str, ...]


@dataclass(frozen=True)
class GroupingSets:
    """``names``: the keys of all sets in their order; a key that is in none of them is in all."""

    names: KeySet
    sets: tuple[KeySet, ...]

    def bits(self, names: Sequence[str]) -> Expression:
        """The bits of these keys as a number, the last the lowest."""
        if tuple(names) == self.names:
            return Column(GROUPING_ID, BIGINT)
        total: Expression = Literal(0, BIGINT)
        for place, name in enumerate(reversed(names)):
            bit = _div(Column(GROUPING_ID, BIGINT), 1 << (len(self.names) - 1 - self.names.index(name)))
            bit = Call("%", (bit, Literal(2, BIGINT)), BIGINT)
            total = Call("+", (total, Call("*", (bit, Literal(1 << place, BIGINT)), BIGINT)), BIGINT)
        return total

    def expanded(
        self, node: Logical, keys: Mapping[str, Expression]
    ) -> tuple[Expand, tuple[tuple[str, Expression], ...]]:
        """The rows for all sets, and the keys to group them by."""
        some = [n for n in self.names if self.column(n) != n]
        variants = []
        for number, kept in enumerate(self.sets):
            own = [(self.column(n), keys[n] if n in kept else Literal(None, keys[n].type)) for n in some]
            marks = ((GROUPING_ID, self._id(kept)), (_NUMBER.name, number))
            variants.append((*own, *((name, Literal(value, BIGINT)) for name, value in marks)))
        names = {n: self.column(n) for n in keys}
        grouped = [(names[n], Column(names[n], e.type) if n in some else e) for n, e in keys.items()]
        marked = [(GROUPING_ID, Column(GROUPING_ID, BIGINT)), (_NUMBER.name, _NUMBER)]
        return Expand(node, tuple(variants)), (*grouped, *marked)

    def column(self, name: str) -> str:
        """The column that holds a key, which is not that of the rows if some set lacks the key."""
        lacking = name in self.names and any(name not in kept for kept in self.sets)
        return f"#key {name}" if lacking else name

    def _id(self, kept: KeySet) -> int:
        return sum(1 << place for place, name in enumerate(reversed(self.names)) if name not in kept)


def _div(value: Expression, by: int) -> Expression:
    return Call("div", (value, Literal(by, BIGINT)), BIGINT) if by > 1 else value


def grouping_sets(group: exp.Group, key: Key) -> tuple[KeySet, ...] | None:
    """The sets of a GROUP BY, each key bound once; None if it has one set, of all its keys."""
    elements = [_sets(e, key) for e in group.expressions]
    after = [e for arg in ("rollup", "cube", "grouping_sets") for e in group.args.get(arg) or ()]
    if after:  # GROUP BY a, b WITH ROLLUP; GROUP BY a, b GROUPING SETS (...)
        units = [unit for element in elements for unit in element]
        elements = [_of_units(after[0], units) if not after[0].expressions else _sets(after[0], key)]
        if strange := set(_merged([n for e in elements for n in e])) - set(_merged(units)):
            hint = "write it before GROUPING SETS, or a comma there"
            raise error(f"'{min(strange)}' is in GROUPING SETS but not in GROUP BY", after[0], hint)
    elif not any(isinstance(e, _KINDS) for e in group.expressions):
        return None
    found = [_merged(choice) for choice in product(*elements)]
    if len(found) > MOST_GROUPING_SETS:
        raise error(f"GROUP BY has {len(found)} sets of keys", group, f"at most {MOST_GROUPING_SETS}")
    keys = _merged(found)
    if len(keys) >= MOST_GROUPING_SETS:  # GROUPING_ID has a bit of a BIGINT for each
        raise error(f"the sets of GROUP BY have {len(keys)} keys", group, f"at most {MOST_GROUPING_SETS - 1}")
    return tuple(found)


_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def _sets(node: exp.Expr, key: Key) -> list[KeySet]:
    """The sets that an element of GROUP BY is."""
    if isinstance(node, exp.GroupingSets):
        return [found for e in node.expressions for found in _sets_within(e, key)]
    if isinstance(node, exp.Rollup | exp.Cube):
        return _of_units(node, [_unit(e, key) for e in node.expressions])
    return [_unit(node, key) if isinstance(node, exp.Tuple) else (key(node),)]


def _sets_within(node: exp.Expr, key: Key) -> list[KeySet]:
    return _sets(node, key) if isinstance(node, _KINDS) else [_unit(node, key)]


def _unit(node: exp.Expr, key: Key) -> KeySet:
    """Keys that come and go together: one, or several in parentheses."""
    if isinstance(node, exp.Tuple):
        return tuple(key(e) for e in node.expressions)
    return (key(node.unnest()),)


def _of_units(node: exp.Expr, units: Sequence[KeySet]) -> list[KeySet]:
    """ROLLUP: all units, then one less each time. CUBE: every choice of units."""
    if isinstance(node, exp.Rollup):
        return [_merged(units[:count]) for count in range(len(units), -1, -1)]
    if len(units) >= MOST_GROUPING_SETS.bit_length():
        raise error(f"CUBE of {len(units)} keys has too many sets", node, f"at most {MOST_GROUPING_SETS}")
    return [_merged(chosen) for chosen in _choices(units)]


def _choices(units: Sequence[KeySet]) -> Iterator[list[KeySet]]:
    for kept in product((True, False), repeat=len(units)):
        yield [unit for unit, keep in zip(units, kept, strict=True) if keep]


def _merged(parts: Sequence[KeySet]) -> KeySet:
    return tuple(dict.fromkeys(name for part in parts for name in part))
