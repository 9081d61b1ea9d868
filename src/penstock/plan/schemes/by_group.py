"""Hash by what must meet: groups, equal rows of the result, the partitions of a row window.

One stream is split by those of its columns that tell such rows apart; the others are everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.expression import Column, Expression
from penstock.plan import logical
from penstock.plan.distribution import Dimension
from penstock.plan.lineage import Origins, origin, origins
from penstock.plan.logical import Logical


def by_group(root: Logical) -> Iterator[Dimension]:
    """For each such operator and each stream with columns in it, those together."""
    for node in logical.walk(root):
        match node:
            case logical.Aggregate(below, keys, _):
                yield from _each_stream([e for _, e in keys], origins(below))
            case logical.Window(_, spec) if spec.partition_by:
                yield from _each_stream(_columns(node, spec.partition_by), origins(node))
            case logical.Distinct() | logical.Project():
                yield from _each_stream(_columns(node, node.schema.names), origins(node))


def _columns(node: Logical, names: Sequence[str]) -> list[Expression]:
    return [Column(name, node.schema.field(name).type) for name in names]


def _each_stream(wanted: Sequence[Expression], known: Origins) -> Iterator[Dimension]:
    found: dict[int, list[Expression]] = {}
    for number, e in filter(None, (origin(e, known) for e in wanted)):
        found.setdefault(number, []).append(e)
    for number, key in found.items():
        yield Dimension.of({number: tuple(dict.fromkeys(key))})
