"""JOIN in FROM: inner and cross, left, right and full outer, left semi and anti; ON, USING and NATURAL.

Inner joins are collected, so that what stands side by side becomes one n-ary join; every other join
makes one input of what it joins. A column that USING names is in sight once: the left side's, the right
side's in a right join, whichever is not NULL in a full one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.cql.clauses.grouping import row_binder
from penstock.cql.clauses.joined import Joined
from penstock.cql.expressions.coercion import comparands
from penstock.cql.expressions.types import BOOLEAN
from penstock.cql.names.scope import Named, Scope
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.expression import Call, Expression, conjuncts
from penstock.plan.logical import OuterJoin, SemiJoin


@dataclass(frozen=True)
class Condition:
    """What two sides are joined on, and what is in sight of the two together."""

    conjuncts: list[Expression]
    scope: Scope


def join(left: Joined, right: Joined, node: exp.Join) -> Joined:
    """Two sides joined as a JOIN says."""
    words = tuple(w for w in (node.side, node.kind) if w and w not in ("INNER", "OUTER"))
    join_kind = KINDS.get(words)
    if join_kind is None or node.method not in ("", "NATURAL"):
        written = " ".join(w for w in (node.method, node.side, node.kind) if w)
        raise unsupported(f"{written} JOIN", node)
    merge = _MERGED.get(words, _left_one)
    return join_kind(left, right, node, _condition(left, right, node, merge))


JoinKind = Callable[[Joined, Joined, exp.Join, Condition], Joined]


def _inner(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
    both = left.beside(right, node.this)
    return replace(both, scope=on.scope, conjuncts=both.conjuncts + on.conjuncts)


def _outer(kind: str) -> JoinKind:
    def join_outer(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
        if not (node.args.get("on") or node.args.get("using") or node.method):
            raise error(f"{kind.upper()} JOIN needs a condition", node, "write ON or USING after it")
        return left.as_one(OuterJoin(left.plan(), right.plan(), kind, tuple(on.conjuncts)), on.scope)

    return join_outer


def _semi(anti: bool) -> JoinKind:
    def join_semi(left: Joined, right: Joined, node: exp.Join, on: Condition) -> Joined:
        semijoin = SemiJoin(left.plan(), right.plan(), tuple(on.conjuncts), anti)
        return left.as_one(semijoin, left.scope)

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
        sides = replace(scope, clause="this JOIN")
        bound = row_binder(sides, "ON").condition(node.args["on"], "ON")
        return Condition(conjuncts(bound), scope)
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
        raise error("NATURAL JOIN of two that have no column in common", node, hint)
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
        raise error(f"USING names '{name.name}', which one side does not have", name, hint)
    return found
