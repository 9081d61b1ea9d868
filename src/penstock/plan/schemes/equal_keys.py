"""Hash by join attributes: streams that an equality or a set operation compares meet by the compared values.

Each equivalence class of compared columns is a dimension: with all streams in it a common key, with some of
them a dimension of a HyperCube, over which the others are replicated.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.expression import Call
from penstock.plan import logical
from penstock.plan.distribution import Dimension, Key
from penstock.plan.lineage import Origin, origin, origins
from penstock.plan.logical import Logical


def equal_keys(root: Logical) -> Iterator[Dimension]:
    """Classes that the same streams are in together, each class alone, and classes less a stream."""
    classes = _classes(root)
    everyone = {s.number for s in logical.spreadable(root)}
    combines = any(isinstance(n, logical.SetOperation) for n in logical.walk(root))
    for keys in [*_composite(classes), *classes]:
        yield Dimension.of(dict(keys))
        if combines:
            # What a union puts beside them can be anywhere.
            yield Dimension.of({**dict.fromkeys(everyone), **keys})
        if len(keys) > 2:
            for left_out in keys:
                yield Dimension.of({number: key for number, key in keys.items() if number != left_out})


def _composite(classes: list[dict[int, Key]]) -> Iterator[dict[int, Key]]:
    """Keys of several columns: they spread better than each of them."""
    by_streams: dict[frozenset[int], list[dict[int, Key]]] = {}
    for keys in classes:
        by_streams.setdefault(frozenset(keys), []).append(keys)
    for streams, several in by_streams.items():
        if len(several) > 1:
            yield {number: tuple(e for keys in several for e in keys[number]) for number in sorted(streams)}


def _classes(root: Logical) -> list[dict[int, Key]]:
    """One key a stream and class; the class of most streams first."""
    groups: list[list[Origin]] = []
    for pair in _compared(root):
        touching = [g for g in groups if any(o in g for o in pair)]
        groups = [g for g in groups if g not in touching]
        groups.append(list(dict.fromkeys([o for g in touching for o in g] + list(pair))))
    keys: list[dict[int, Key]] = [{number: (e,) for number, e in reversed(g)} for g in groups]
    return sorted((k for k in keys if len(k) > 1), key=len, reverse=True)


def _compared(root: Logical) -> Iterator[tuple[Origin, Origin]]:
    for node in logical.walk(root):
        if isinstance(node, logical.Join | logical.OuterJoin | logical.SemiJoin):
            known = {n: o for below in logical.inputs(node) for n, o in origins(below).items()}
            for conjunct in node.conjuncts:
                if isinstance(conjunct, Call) and conjunct.function == "=":
                    yield from _pair(*(origin(side, known) for side in conjunct.args))
        elif isinstance(node, logical.SetOperation):
            left, right = origins(node.left), origins(node.right)
            for a, b in zip(node.left.schema.names, node.right.schema.names, strict=True):
                yield from _pair(left.get(a), right.get(b))


def _pair(a: Origin | None, b: Origin | None) -> Iterator[tuple[Origin, Origin]]:
    if a is not None and b is not None and a[0] != b[0] and a[1].type == b[1].type:
        yield a, b
