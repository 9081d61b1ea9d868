"""Facts about expressions: what they read, which input they belong to, what is equal, who may evaluate them.

The binder, the rewrite rules, the join graph, the logical operators and the schemes all use these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import Generic, TypeVar

from penstock.expression import Call, Column, Expression, columns, connected, transform, walk
from penstock.functions import for_catalyst, may_raise
from penstock.plan.settings import MAX_HOST_TERMS

T = TypeVar("T", bound=Hashable)
Named = tuple[tuple[str, Expression], ...]
"""Expressions with the names of the columns they become."""
Origin = tuple[int, Expression]
"""The number of a stream or relation, and an expression over its columns."""
NotNull = Collection[str] | None
"""Columns that are never NULL, so that a declared key of them tells rows apart; None: no key may be used."""
Origins = dict[str, Origin]
"""For the columns of a plan that come from one stream each: from where."""


# what an expression reads


def reads(expressions: Iterable[Expression]) -> set[str]:
    """The names of the columns that expressions read."""
    return set().union(*(columns(e) for e in expressions))


def over(names: Collection[str]) -> Callable[[Expression], bool]:
    """Whether an expression reads columns, and only these."""
    return lambda e: bool(read := columns(e)) and read.issubset(names)


def apart_from(names: Collection[str]) -> Callable[[Expression], bool]:
    """Whether an expression reads none of these columns."""
    return lambda e: columns(e).isdisjoint(names)


def input_of(expression: Expression, schemas: Sequence[Collection[str]]) -> int | None:
    """The input that an expression reads, by its position; None unless it is exactly one."""
    return next((i for i, names in enumerate(schemas) if over(names)(expression)), None)


# what equals what


def equality(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """The two sides of an equality."""
    if isinstance(conjunct, Call) and conjunct.function == "=":
        left, right = conjunct.args
        return left, right
    return None


def equal_columns(conjuncts: Iterable[Expression]) -> Iterator[tuple[Column, Column]]:
    """The pairs of columns of one type that conjuncts make equal."""
    for left, right in filter(None, map(equality, conjuncts)):
        if isinstance(left, Column) and isinstance(right, Column) and left.type == right.type:
            yield left, right


def not_null(conjuncts: Iterable[Expression]) -> frozenset[str]:
    """Columns that are NULL in no row for which all conjuncts are true."""
    strict = ("=", "<", "<=", ">", ">=", "isnotnull")
    read = (c.args for c in conjuncts if isinstance(c, Call) and c.function in strict)
    return frozenset(e.name for args in read for e in args if isinstance(e, Column))


def with_equal(known: Collection[str], conjuncts: Iterable[Expression]) -> frozenset[str]:
    """These columns, and those that conjuncts make equal to one of them."""
    pairs = [{left.name, right.name} for left, right in equal_columns(conjuncts)]
    found = frozenset(known)
    while more := frozenset().union(*(pair for pair in pairs if pair & found)) - found:
        found |= more
    return found


def equal_sides(
    conjunct: Expression, here: Callable[[Expression], bool], there: Callable[[Expression], bool]
) -> tuple[Expression, Expression] | None:
    """The sides of an equality of which one satisfies ``here`` and the other ``there``, in that order."""
    sides = equality(conjunct)
    for a, b in (sides, sides[::-1]) if sides else ():
        if here(a) and there(b):
            return a, b
    return None


class Equivalence(Generic[T]):
    """Equivalence classes.

    >>> equal = Equivalence[str]()
    >>> for pair in ("ab", "cd", "bc"):
    ...     equal.equate(*pair)
    >>> equal.classes
    [['a', 'b', 'c', 'd']]
    """

    def __init__(self) -> None:
        self._class_of: dict[T, list[T]] = {}
        self._numbers: dict[int, int] = {}
        self._made = count()

    @property
    def classes(self) -> list[list[T]]:
        """The classes; the one changed last is the last."""
        distinct = {id(c): c for c in self._class_of.values()}
        return sorted(distinct.values(), key=lambda c: self._numbers[id(c)])

    def equate(self, *members: T) -> None:
        """Merge the classes of these members."""
        touched = {id(c): c for c in map(self._class_of.get, members) if c is not None}
        first, *others = sorted(touched.values(), key=lambda c: self._numbers[id(c)]) or [list[T]()]
        for member in dict.fromkeys(m for c in (*others, members) for m in c):
            if self._class_of.get(member) is not first:
                first.append(member)
                self._class_of[member] = first
        self._numbers[id(first)] = next(self._made)


def conjunction(conjuncts: Sequence[Expression]) -> Expression | None:
    """Several predicates as one."""
    return connected("and", conjuncts) if conjuncts else None


# who may evaluate it


def for_host(conjuncts: Sequence[Expression]) -> tuple[Expression, ...]:
    """The predicates that Catalyst evaluates.

    Registered functions run in the engine. So do predicates that may fail on rows that another predicate
    rejects (``b <> 0 AND a / b > 1``): Spark guarantees no order of evaluation. So do thousands of terms, for
    which Catalyst takes minutes.
    """
    plain = [c for c in conjuncts if for_catalyst(c) and (len(conjuncts) == 1 or not may_raise(c))]
    sizes = accumulate(sum(1 for _ in walk(c)) for c in plain)
    return tuple(c for c, size in zip(plain, sizes, strict=True) if size <= MAX_HOST_TERMS)


# where it comes from


def origin(expression: Expression, known: Mapping[str, Origin]) -> Origin | None:
    """The origin of an expression, if a host can evaluate it on every row."""
    read = columns(expression)
    sources = {known[c][0] for c in read if c in known}
    if len(sources) != 1 or not read <= known.keys():
        return None
    traced = transform(expression, lambda e: known[e.name][1] if isinstance(e, Column) else None)
    return (sources.pop(), traced) if for_catalyst(traced) and not may_raise(traced) else None


def origins_of(shown: Named, known: Mapping[str, Origin]) -> Origins:
    """The origins of named expressions."""
    traced = {name: origin(e, known) for name, e in shown}
    return {name: o for name, o in traced.items() if o is not None}
