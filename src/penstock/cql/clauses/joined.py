"""FROM items joined so far, and whether something links all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.cql.names.scope import Item, Scope
from penstock.cql.syntax.errors import error
from penstock.expression import Expression, columns
from penstock.plan.logical import Join, Logical, Select


@dataclass(frozen=True)
class Input:
    """An input of an inner join: its plan, the alias it is called by in errors, where it stands."""

    node: Logical
    alias: str
    at: exp.Expr


@dataclass(frozen=True)
class Joined:
    """The inputs of one inner join with its conjuncts, and what is in sight.

    ``crossed`` are sets of aliases that CROSS JOIN put beside each other in so many words.
    """

    scope: Scope
    inputs: list[Input]
    conjuncts: list[Expression] = field(default_factory=list)
    crossed: list[set[str]] = field(default_factory=list)

    @classmethod
    def of(cls, item: Item, at: exp.Expr) -> Joined:
        """One item."""
        return cls(Scope.of(item), [Input(item.node, item.alias, at)])

    def beside(self, other: Joined, at: exp.Expr) -> Joined:
        """Both, as inputs of one inner join."""
        return Joined(
            self.scope.joined(other.scope, at),
            self.inputs + other.inputs,
            self.conjuncts + other.conjuncts,
            self.crossed + other.crossed,
        )

    def as_one(self, node: Logical, scope: Scope) -> Joined:
        """A join that is no inner one: from here on a single input, called by its first alias."""
        return Joined(scope, [Input(node, self.inputs[0].alias, self.inputs[0].at)])

    def plan(self, conjuncts: Iterable[Expression] = ()) -> Logical:
        """The plan of the join under its own and more conjuncts."""
        every = (*self.conjuncts, *conjuncts)
        if len(self.inputs) == 1:
            return Select(self.inputs[0].node, every) if every else self.inputs[0].node
        _check_linked(self, every)
        return Join(tuple(i.node for i in self.inputs), every, cross=bool(self.crossed))


def _check_linked(joined: Joined, conjuncts: Sequence[Expression]) -> None:
    """Every input is linked to the others by some conjunct, or by a CROSS JOIN in so many words."""
    aliases = [i.alias for i in joined.inputs]
    groups = [{a} for a in aliases]
    for linked in (*joined.crossed, *(_aliases(c, joined.inputs) for c in conjuncts)):
        groups = _merged(groups, linked)
    if len(groups) > 1:
        firsts = [min(map(aliases.index, g)) for g in groups]
        *names, last = (f"'{aliases[i]}'" for i in firsts)
        raise error(
            f"{', '.join(names)} and {last} have no join predicate",
            joined.inputs[firsts[1]].at,
            "write CROSS JOIN if every pair is meant",
        )


def _merged(groups: list[set[str]], linked: set[str]) -> list[set[str]]:
    touched = [g for g in groups if g & linked]
    if len(touched) < 2:
        return groups
    merged = set().union(*touched)
    return [merged if g is touched[0] else g for g in groups if g is touched[0] or g not in touched]


def _aliases(conjunct: Expression, inputs: Sequence[Input]) -> set[str]:
    names = columns(conjunct)
    return {i.alias for i in inputs if not names.isdisjoint(i.node.schema.names)}
