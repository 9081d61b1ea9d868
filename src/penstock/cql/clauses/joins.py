"""JOIN in FROM: inner and cross, left, right and full outer, semi and anti; ON, USING and NATURAL.

Adjacent inner joins are collected into one n-ary join; every other join becomes a single input. A column
that USING names is visible once: the left side's, the right side's in a right join, the one that is not NULL
in a full join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.cql.clauses.grouping import row_binder
from penstock.cql.clauses.subqueries import Attachments
from penstock.cql.expressions.coercion import comparands
from penstock.cql.names.context import Context
from penstock.cql.names.scope import Item, Named, Scope
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nesting import chain
from penstock.expression import Call, Expression, columns, conjuncts
from penstock.functions.types import BOOLEAN
from penstock.plan.facts import Equivalence
from penstock.plan.logical import Join, Logical, OuterJoin, Select, SemiJoin, WindowGraph, WJoin


@dataclass(frozen=True)
class JoinInput:
    """An input of an inner join: its plan, its alias in errors, its position."""

    node: Logical
    alias: str
    at: exp.Expr


@dataclass(frozen=True)
class Joined:
    """The inputs of one inner join with its conjuncts and its scope.

    ``crossed`` are sets of aliases that CROSS JOIN joins explicitly. ``deferred`` are conditions of ON with
    subqueries, which an inner join has in common with WHERE; another join takes them in. ``between``: windows
    between its streams.
    """

    scope: Scope
    inputs: list[JoinInput]
    conjuncts: list[Expression] = field(default_factory=list)
    crossed: list[set[str]] = field(default_factory=list)
    deferred: list[exp.Expr] = field(default_factory=list)
    between: WindowGraph | None = None

    @classmethod
    def of(cls, item: Item, at: exp.Expr) -> Joined:
        return cls(Scope.of(item), [JoinInput(item.node, item.alias, at)])

    def beside(self, other: Joined, at: exp.Expr) -> Joined:
        """Both sides as inputs of one inner join."""
        return Joined(
            self.scope.joined(other.scope, at),
            self.inputs + other.inputs,
            self.conjuncts + other.conjuncts,
            self.crossed + other.crossed,
            self.deferred + other.deferred,
        )

    def as_one(self, node: Logical, scope: Scope) -> Joined:
        """A join that is not inner, as a single input with its first alias."""
        return Joined(scope, [JoinInput(node, self.inputs[0].alias, self.inputs[0].at)])

    def plan(self, conjuncts: Iterable[Expression] = ()) -> Logical:
        """The plan of the join under its own and more conjuncts."""
        every = (*self.conjuncts, *conjuncts)
        if len(self.inputs) == 1:
            return Select(self.inputs[0].node, every) if every else self.inputs[0].node
        _check_linked(self, every)
        parts = tuple(i.node for i in self.inputs)
        if self.between is not None:
            return WJoin(parts, every, bool(self.crossed), between=self.between)
        return Join(parts, every, cross=bool(self.crossed))


def _check_linked(joined: Joined, conjuncts: Sequence[Expression]) -> None:
    """Every input is linked to the others by some conjunct, or by an explicit CROSS JOIN."""
    aliases = [i.alias for i in joined.inputs]
    linked = Equivalence[str]()
    for group in (*({a} for a in aliases), *joined.crossed, *(_aliases(c, joined.inputs) for c in conjuncts)):
        linked.equate(*(a for a in aliases if a in group))
    if len(linked.classes) > 1:
        firsts = sorted(min(map(aliases.index, c)) for c in linked.classes)
        *names, last = (f"'{aliases[i]}'" for i in firsts)
        raise error(
            f"{', '.join(names)} and {last} have no join predicate",
            joined.inputs[firsts[1]].at,
            "write CROSS JOIN if every pair is meant",
        )


def _aliases(conjunct: Expression, inputs: Sequence[JoinInput]) -> set[str]:
    names = columns(conjunct)
    return {i.alias for i in inputs if not names.isdisjoint(i.node.schema.names)}


@dataclass(frozen=True)
class Condition:
    """The conditions of a join of two sides, and the scope of both together; see ``Joined.deferred``."""

    conjuncts: list[Expression]
    scope: Scope
    deferred: list[exp.Expr] = field(default_factory=list)


def join(left: Joined, right: Joined, node: exp.Join, context: Context) -> Joined:
    """Two sides joined by a JOIN."""
    words = tuple(w for w in (node.side, node.kind) if w and w not in ("INNER", "OUTER"))
    join_kind = KINDS.get(words)
    if join_kind is None or node.method not in ("", "NATURAL"):
        written = " ".join(w for w in (node.method, node.side, node.kind) if w)
        raise unsupported(f"{written} JOIN", node)
    merge = _MERGED.get(words, _left_one)
    on = _condition(left, right, node, merge)
    if join_kind is not _inner:
        left, right = _settled(left, context), _settled(right, context)
        left, right, on = _with_subqueries(left, right, on, context)
    return join_kind(left, right, node, on)


def _settled(side: Joined, context: Context) -> Joined:
    """A side of a join that is not inner, with the subqueries in ON of its own inner joins."""
    if not side.deferred:
        return side
    scope = replace(side.scope, functions=context.functions)
    attachments = Attachments(context, scope)
    binder, bound = row_binder(scope, "ON", attachments.value), list[Expression]()
    for part in side.deferred:
        if not attachments.semijoin(part, binder):
            bound += conjuncts(binder.condition(part, "ON"))
    node = attachments.over(side.plan())
    return side.as_one(Select(node, tuple(bound)) if bound else node, side.scope)


def _with_subqueries(
    left: Joined, right: Joined, on: Condition, context: Context
) -> tuple[Joined, Joined, Condition]:
    """Both sides with the values of the subqueries in ON as further columns, which the condition reads."""
    if not on.deferred:
        return left, right, on
    scope = replace(on.scope, functions=context.functions)
    attachments = Attachments(context, scope)
    binder = row_binder(scope, "ON", attachments.value)
    bound = [c for part in on.deferred for c in conjuncts(binder.condition(part, "ON"))]
    one, other = attachments.onto((left.plan(), right.plan()), on.deferred[0])
    sides = left.as_one(one, left.scope), right.as_one(other, right.scope)
    return *sides, Condition(on.conjuncts + bound, on.scope)


JoinKind = Callable[[Joined, Joined, exp.Join, Condition], Joined]


def _inner(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
    both = left.beside(right, node.this)
    # ON TRUE means every pair, and ON FALSE none: the condition is there, though it links no columns.
    constant = bool(node.args.get("on")) and not any(columns(c) for c in on.conjuncts)
    both.deferred.extend(on.deferred)
    crossed = both.crossed + ([{i.alias for i in both.inputs}] if constant else [])
    return replace(both, scope=on.scope, conjuncts=both.conjuncts + on.conjuncts, crossed=crossed)


def _outer(kind: str) -> JoinKind:
    def join_outer(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
        if not (node.args.get("on") or node.args.get("using") or node.method):
            raise error(f"{kind.upper()} JOIN needs a condition", node, "write ON or USING after it")
        return left.as_one(OuterJoin(left.plan(), right.plan(), kind, tuple(on.conjuncts)), on.scope)

    return join_outer


def _semi(anti: bool, of_right: bool = False) -> JoinKind:
    def join_semi(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
        kept, other = (right, left) if of_right else (left, right)
        return kept.as_one(SemiJoin(kept.plan(), other.plan(), tuple(on.conjuncts), anti), kept.scope)

    return join_semi


KINDS: dict[tuple[str, ...], JoinKind] = {
    (): _inner,
    ("CROSS",): _inner,
    ("LEFT",): _outer("left"),
    ("RIGHT",): _outer("right"),
    ("FULL",): _outer("full"),
    ("SEMI",): _semi(anti=False),
    ("LEFT", "SEMI"): _semi(anti=False),
    ("ANTI",): _semi(anti=True),
    ("LEFT", "ANTI"): _semi(anti=True),
    ("RIGHT", "SEMI"): _semi(anti=False, of_right=True),
    ("RIGHT", "ANTI"): _semi(anti=True, of_right=True),
}

Merge = Callable[[Expression, Expression, exp.Expr], Expression]


def _left_one(left: Expression, right: Expression, at: exp.Expr) -> Expression:
    return left


def _right_one(left: Expression, right: Expression, at: exp.Expr) -> Expression:
    return right


def _whichever(left: Expression, right: Expression, at: exp.Expr) -> Expression:
    both = comparands((left, right), at)
    return Call("coalesce", tuple(both), both[0].type)


_MERGED: dict[tuple[str, ...], Merge] = {("RIGHT",): _right_one, ("FULL",): _whichever}


def _condition(left: Joined, right: Joined, node: exp.Join, merge: Merge) -> Condition:
    scope = left.scope.joined(right.scope, node.this)
    if node.args.get("on"):
        binder = row_binder(replace(scope, clause="this JOIN"), "ON")
        on = node.args["on"].unnest()
        parts = [t.unnest() for t in chain(on)] if isinstance(on, exp.And) else [on]
        deferred = [p for p in parts if p.find(exp.Query)]
        plain = [p for p in parts if not p.find(exp.Query)]
        bound = [c for p in plain for c in conjuncts(binder.condition(p, "ON"))]
        return Condition(bound, scope, deferred)
    names = _common_names(left, right, node) if node.method else node.args.get("using") or ()
    if not names:
        return Condition([], scope)
    return _using(
        [n.this if isinstance(n, exp.Column) else n for n in names], left.scope, right.scope, scope, merge
    )


def _common_names(left: Joined, right: Joined, node: exp.Join) -> list[exp.Expr]:
    taken = {n.casefold() for n, _ in right.scope.visible}
    names = [n for n, _ in left.scope.visible if n.casefold() in taken]
    if not names:
        hint = f"{left.scope.columns_hint()}; {right.scope.columns_hint()}"
        raise error("the sides of NATURAL JOIN have no column in common", node, hint)
    return [exp.to_identifier(n).update_positions(node) for n in names]


def _using(names: list[exp.Expr], left: Scope, right: Scope, both: Scope, merge: Merge) -> Condition:
    equal, merged, gone = list[Expression](), list[Named](), set[str]()
    for name in names:
        (own, on_left), (_, on_right) = _side(left, name), _side(right, name)
        equal.append(Call("=", tuple(comparands((on_left, on_right), name)), BOOLEAN))
        merged.append((own, merge(on_left, on_right, name)))
        gone.add(own.casefold())
    rest = [pair for pair in both.visible if pair[0].casefold() not in gone]
    return Condition(equal, replace(both, visible=merged + rest))


def _side(scope: Scope, name: exp.Expr) -> Named:
    found = scope.bare(name.name, name)
    if found is None:
        hint = did_you_mean(name.name, [n for n, _ in scope.visible], scope.columns_hint())
        raise error(f"USING column '{name.name}' is not on both sides", name, hint)
    return found
