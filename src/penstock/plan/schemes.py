"""Schemes: ways in which a query's streams may be spread in one dimension.

A scheme proposes dimensions from the columns that operators compare and those by which their rows must meet.
``plan/distribution.py`` checks which proposals are right for a query, and ``plan/hypercube.py`` chooses how
many partitions each gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from penstock.expression import Column, Expression
from penstock.plan.distribution import Dimension, Key
from penstock.plan.facts import Equivalence, Origin, origin
from penstock.plan.logical import Logical, Source, WJoin, sources, walk
from penstock.plan.settings import MAX_PROPOSALS, SLICE_SPANS


def by_row(root: Logical) -> Iterator[Dimension]:
    """One stream split by row, the others broadcast; or all split by row where nothing compares them.

    Each pair of rows then meets once, whatever the join predicate: cross products, inequalities, bands.
    """
    numbers = [s.number for s in sources(root)]
    if len(numbers) > 1:
        yield Dimension.of(dict.fromkeys(numbers))
    for number in numbers:
        yield Dimension.of({number: None})


def by_group(root: Logical) -> Iterator[Dimension]:
    """By what must meet: groups, equal rows of the result, the partitions of a row window.

    One stream is split by those of its columns that identify such rows; the others are everywhere.
    """
    for node in walk(root):
        found: dict[int, list[Expression]] = {}
        known = {name: o for below in node.inputs for name, o in below.origins.items()}
        for number, e in filter(None, (origin(e, known) for e in node.meets_by)):
            found.setdefault(number, []).append(e)
        for number, key in found.items():
            yield Dimension.of({number: tuple(dict.fromkeys(key))})


def equal_keys(root: Logical) -> Iterator[Dimension]:
    """By what is compared: classes that the same streams are in together, each class, classes less a stream.

    A class with all streams in it is a common key; with some of them it is a dimension of a HyperCube, over
    which the others are replicated.
    """
    classes = _classes(root)
    everyone = {s.number for s in sources(root)}
    for keys in [*_composite(classes), *classes]:
        yield Dimension.of(dict(keys))
        # The other inputs of a union can be anywhere.
        yield Dimension.of({**dict.fromkeys(everyone), **keys})
        if 2 < len(keys) <= MAX_PROPOSALS:
            for left_out in keys:
                yield Dimension.of({number: key for number, key in keys.items() if number != left_out})


def _composite(classes: list[dict[int, Key]]) -> Iterator[dict[int, Key]]:
    """Keys of several columns: they spread rows more evenly than a single one."""
    by_streams: dict[frozenset[int], list[dict[int, Key]]] = {}
    for keys in classes:
        by_streams.setdefault(frozenset(keys), []).append(keys)
    for streams, several in by_streams.items():
        if len(several) > 1:
            yield {number: tuple(e for keys in several for e in keys[number]) for number in sorted(streams)}


def _classes(root: Logical) -> list[dict[int, Key]]:
    """One key per stream and class; the class of most streams first."""
    equal = Equivalence[Origin]()
    for node in walk(root):
        for a, b in node.compared():
            if a is not None and b is not None and a[0] != b[0] and a[1].type == b[1].type:
                equal.equate(a, b)
    keys: list[dict[int, Key]] = [{number: (e,) for number, e in reversed(c)} for c in equal.classes]
    return sorted((k for k in keys if len(k) > 1), key=len, reverse=True)


def by_time(root: Logical, partitions: int, batch_span: float) -> Iterator[Dimension]:
    """The streams of a W-join by slices of time: rows that join are within its windows of each other.

    It needs no equality. A row is copied to the slices before its own that the windows reach into, so slices
    are longer than the windows; but partitions work side by side only if a batch spans several slices.
    """
    for join in (n for n in walk(root) if isinstance(n, WJoin) and n.sliceable):
        ages = tuple(sorted(join.ages().items()))
        slice = min(_slices(join.between.span), key=lambda s: _busiest(s, ages, partitions, batch_span))
        if _busiest(slice, ages, partitions, batch_span) < 1:
            yield Dimension((), slice=slice, ages=ages, at_once=1 + batch_span / slice)


def _slices(span: int) -> list[int]:
    """Lengths of slices to compare."""
    return [max(span, 1) * times for times in SLICE_SPANS]


def _busiest(slice: int, ages: Sequence[tuple[int, int]], partitions: int, batch_span: float) -> float:
    """The share of a batch's rows that the busiest partition receives."""
    copies = 1 + sum(age for _, age in ages) / len(ages) / slice
    return copies / min(partitions, 1 + batch_span / slice)


def heavy_keys(root: Logical) -> Iterator[Dimension]:
    """As ``equal_keys``, with rows of the values that a stream declares as heavy spread by row.

    The other streams' rows of those values go to every coordinate, so each pair still meets once: where the
    spread row is. A key with most of the traffic does not cap a join at one partition.
    """
    leaves = {s.number: s for s in sources(root)}
    for dimension in equal_keys(root):
        heavy = tuple(_declared(dimension, leaves))
        if heavy:
            yield replace(dimension, heavy=heavy)


def _declared(dimension: Dimension, leaves: dict[int, Source]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The streams that spread, with their values; a value that several declare is spread by the first."""
    taken: set[Any] = set()
    for number, key in dimension.keys:
        values = heavy_values(leaves[number], key)
        own = tuple(v for v in values if v not in taken)
        taken.update(own)
        if own:
            yield number, own


def heavy_values(leaf: Source, key: Key | None) -> tuple[Any, ...]:
    """The values of a key of one column that a stream declares as heavy."""
    if key is None or len(key) != 1 or not isinstance(key[0], Column):
        return ()
    heavy = dict(leaf.definition.options.heavy)
    return heavy.get(key[0].name.removeprefix(f"{leaf.alias}."), ())


def partitioned_source(root: Logical) -> Iterator[Dimension]:
    """Rows stay in their source's partitions: streams declared as partitioned by the key they meet by.

    All rows of a task go to the partition of its number, so nothing is hashed and no batch is divided.
    Streams that are joined must be partitioned alike: the same number of partitions, the same keys in each.
    """
    declared = {s.number: _partitioned_by(s) for s in sources(root)}
    for dimension in equal_keys(root):
        if all(key is not None and set(key) == set(declared[number]) for number, key in dimension.keys):
            yield replace(dimension, by_source=True)
    for number, key in declared.items():
        if key:
            yield replace(Dimension.of({number: key}), by_source=True)


def _partitioned_by(leaf: Source) -> Key:
    names = [f"{leaf.alias}.{c}" for c in leaf.definition.options.partitioned_by]
    return tuple(Column(n, leaf.schema.field(n).type) for n in names)


# Of equally good dimensions the first is chosen.
SCHEMES: tuple[Callable[[Logical], Iterator[Dimension]], ...] = (
    partitioned_source,  # before what hashes by the same key
    heavy_keys,  # before equal_keys, which it improves on where a stream declares heavy values
    equal_keys,  # before by_group, since it splits most streams at once
    by_group,
    by_row,  # last, since it never brings equal results together
)


def proposals(root: Logical) -> list[Dimension]:
    """The first proposals of all schemes without duplicates: each costs a pass over the plan."""
    return list(dict.fromkeys(d for scheme in SCHEMES for d in islice(scheme(root), MAX_PROPOSALS)))
