"""What constraints say of the inputs of a join: the directed join graph (thesis 6.2), what closes its edges.

An input i is *closed* toward an input j for one of its rows once no row of j still to come joins that row.
That follows from a constraint of j: the row's match has arrived and no other row has its key; j is ordered
by the joined column and has passed the row's value; the cluster of that value is over. Or it follows from a
reference of i to j: the time in which the row referred to may come is over.

An edge i → j of the directed join graph says that a row of i joins at most one row of j at any instant: the
joined columns of j have a key. A *lasting* key is never used again (PRIMARY KEY of a stream); a relation's
may be, after its row left, so it closes nothing.

A *monitored* constraint is one that the streams may happen to obey: its k is found while the join runs, and
may be wrong (``k_mon``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from penstock.constraint import Use, Within


@dataclass(frozen=True)
class InputKey:
    """No two rows of ``input`` agree in the keys of all ``classes``."""

    input: int
    classes: tuple[int, ...]
    lasting: bool
    text: str = ""
    monitored: bool = False


@dataclass(frozen=True)
class InputReference:
    """Of a row of ``parent``, the rows of ``child`` with equal keys in ``classes`` come within k of it."""

    parent: int
    child: int
    classes: tuple[int, ...]
    within: Within
    text: str = ""
    monitored: bool = False


@dataclass(frozen=True)
class InputArrival:
    """The keys of one class, those of a stream's ``column``, arrive at ``input`` ordered or clustered."""

    kind: str
    input: int
    of_class: int
    within: Within
    column: str = ""
    text: str = ""
    monitored: bool = False


Monitored = InputKey | InputReference | InputArrival


@dataclass(frozen=True)
class Counted:
    """An input of which all rows of the stream are counted, those of other partitions and those that filters
    drop too. ``columns``: by class, the column of the counted rows that has its key; ``own``: the column that
    marks the partition's own rows, if others come too.
    """

    input: int
    columns: tuple[tuple[int, str], ...]
    own: str | None = None


@dataclass(frozen=True)
class JoinConstraints:
    """The constraints of a join with ``classes`` of equal columns, by the inputs that are in each.

    ``rows``: by input, the rows that its row window has. ``counted``: the inputs that are counted, in the
    order of the join's further inputs. ``unused``: constraints that are not used, with the reason. ``use``:
    how they are exploited.
    """

    classes: tuple[tuple[int, ...], ...]
    inputs: int
    keys: tuple[InputKey, ...] = ()
    references: tuple[InputReference, ...] = ()
    arrivals: tuple[InputArrival, ...] = ()
    rows: tuple[int | None, ...] = ()
    counted: tuple[Counted, ...] = ()
    unused: tuple[str, ...] = ()
    use: Use = Use("declared")

    @cached_property
    def monitored(self) -> tuple[Monitored, ...]:
        """The constraints whose k is found while the join runs; references along the tree only."""
        near = {*self.tree, *((j, i) for i, j in self.tree)}
        references = (r for r in self.references if (r.parent, r.child) in near)
        every: tuple[Monitored, ...] = (*self.keys, *references, *self.arrivals)
        return tuple(c for c in every if c.monitored)

    def shared(self, i: int, j: int) -> tuple[int, ...]:
        """The classes that join two inputs."""
        return tuple(c for c, members in enumerate(self.classes) if i in members and j in members)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The inputs that equalities join, in both directions."""
        joined = [(i, j) for i, j in combinations(range(self.inputs), 2) if self.shared(i, j)]
        return tuple(sorted([*joined, *((j, i) for i, j in joined)]))

    def key_of(self, i: int, j: int, lasting: bool = False) -> InputKey | None:
        """The declared key of j by which a row of i joins at most one row of j."""
        keys = (k for k in self._keys_at(i, j) if not k.monitored)
        return next((k for k in keys if k.lasting or not lasting), None)

    def found_key(self, i: int, j: int) -> InputKey | None:
        """The same, if it is monitored."""
        return next((k for k in self._keys_at(i, j) if k.monitored), None)

    def _keys_at(self, i: int, j: int) -> Iterator[InputKey]:
        return (k for k in self.keys if k.input == j and set(k.classes) <= set(self.shared(i, j)))

    def references_of(self, i: int, j: int) -> list[InputReference]:
        return [r for r in self.references if (r.parent, r.child) == (i, j)]

    def arrivals_at(self, i: int, j: int) -> list[InputArrival]:
        """The arrivals at j that close rows of i toward it."""
        return [a for a in self.arrivals if a.input == j and a.of_class in self.shared(i, j)]

    def closes(self, i: int, j: int) -> bool:
        """Whether rows of i may ever be closed toward j."""
        keys = self.key_of(i, j, lasting=True) or self.found_key(i, j)
        return bool(self.references_of(i, j) or self.arrivals_at(i, j) or keys)

    def finishes(self, i: int, apart_from: int = -1) -> bool:
        """Whether rows of i may be closed in all directions, along the tree."""
        if not self.connected:
            return False
        beside = [j for j in self.beside(i) if j != apart_from]
        return all(self.closes(i, j) and self.finishes(j, i) for j in beside)

    def bounded(self, i: int, apart_from: int = -1) -> bool:
        """Whether rows of i surely are, in a time or number of rows that does not depend on their matches."""
        if not self.connected:
            return False
        beside = [j for j in self.beside(i) if j != apart_from]
        return all(self._surely_closes(i, j) and self.bounded(j, i) for j in beside)

    def _surely_closes(self, i: int, j: int) -> bool:
        """By what is declared."""
        ordered = any(a.kind == "ordered" and not a.monitored for a in self.arrivals_at(i, j))
        return ordered or any(not r.monitored for r in self.references_of(i, j))

    def needs_no(self, i: int, j: int) -> bool:
        """Whether rows of i learn only from the No component of j that their row of j cannot join.

        A reference to j or an order of j tells it too (thesis 6.6.1, 6.8.5), or an input between them.
        """
        if self.key_of(i, j, lasting=True) is None or j not in self.beside(i):
            return False
        return not self._surely_closes(i, j)

    def may_keep_no(self, i: int, j: int) -> bool:
        """Whether the No component of j may tell rows of i earlier what a reference or order tells them too
        (6.10): its keys are forgotten once i has passed them.
        """
        key = self.key_of(i, j, lasting=True)
        if key is None or j not in self.beside(i):
            return False
        passes = any(a.input == i and a.of_class in key.classes and not a.monitored for a in self.arrivals)
        return passes and self._surely_closes(i, j)

    @property
    def texts(self) -> list[str]:
        """Those declared, in words."""
        every: tuple[Monitored, ...] = (*self.keys, *self.references, *self.arrivals)
        return [c.text for c in every if not c.monitored]

    @cached_property
    def useful(self) -> bool:
        """Whether there is anything to exploit."""
        return any(self.closes(i, j) for i, j in self.pairs)

    # the directed join graph

    @cached_property
    def tree(self) -> tuple[tuple[int, int], ...]:
        """Edges that link all inputs that equalities link, those first that constraints close most; of equal
        ones the many-one joins, which are the edges of the thesis.
        """

        def weight(pair: tuple[int, int]) -> tuple[int, bool, int, int]:
            i, j = pair
            both = ((i, j), (j, i))
            keys = {p: self.key_of(*p, lasting=True) is not None for p in both}
            closed = sum(self.closes(*p) + (self._surely_closes(*p) or keys[p]) for p in both)
            return -closed, not any(keys.values()), -len(self.shared(i, j)), abs(i - j)

        group, found = list(range(self.inputs)), []
        for i, j in sorted((p for p in self.pairs if p[0] < p[1]), key=weight):
            if group[i] != group[j]:
                found.append((i, j))
                group = [group[i] if g == group[j] else g for g in group]
        return tuple(found)

    @cached_property
    def used(self) -> tuple[tuple[int, int], ...]:
        """The pairs along which rows are closed: those of the tree, and others where that is sure."""
        linked = {*self.tree, *((j, i) for i, j in self.tree)}
        return tuple(p for p in self.pairs if p in linked or self._surely_closes(*p))

    @property
    def connected(self) -> bool:
        """Whether equalities link all inputs."""
        return len(self.tree) == self.inputs - 1

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The many-one joins (parent, child) among the tree's edges."""
        return tuple(filter(None, (self._directed(i, j) for i, j in self.tree)))

    def _directed(self, i: int, j: int) -> tuple[int, int] | None:
        forward, backward = self.key_of(i, j), self.key_of(j, i)
        if forward and backward:  # one-one: as it is referred to
            return (j, i) if self.references_of(j, i) and not self.references_of(i, j) else (i, j)
        return (i, j) if forward else (j, i) if backward else None

    def children(self, i: int) -> list[int]:
        return [c for p, c in self.edges if p == i]

    def parents(self, i: int) -> list[int]:
        return [p for p, c in self.edges if c == i]

    @property
    def roots(self) -> list[int]:
        return [i for i in range(self.inputs) if not self.parents(i)]

    def reachable(self, i: int) -> set[int]:
        """The inputs of the graph that a row of i leads to, i included."""
        return {i}.union(*(self.reachable(c) for c in self.children(i)))

    @cached_property
    def shape(self) -> str:
        """``tree``: a directed tree as in the thesis; else what it is not."""
        if not self.connected:
            return "not connected"
        if any(not self._along_tree(i, j) for i, j in self.pairs):
            return "cyclic"
        return "tree" if len(self.edges) == len(self.tree) else "many-many"

    def _along_tree(self, i: int, j: int) -> bool:
        """Whether all that joins two inputs holds along the tree's path between them."""
        path = self._path(i, j)
        links = list(zip(path, path[1:], strict=False))
        return all(c in self.shared(a, b) for c in self.shared(i, j) for a, b in links)

    def _path(self, i: int, j: int) -> list[int]:
        paths, reached = [[i]], {i}
        for path in paths:
            if path[-1] == j:
                return path
            more = [n for n in self.beside(path[-1]) if n not in reached]
            reached.update(more)
            paths += [[*path, n] for n in more]
        return []

    def beside(self, i: int) -> Iterator[int]:
        """The inputs next to one in the tree."""
        return (b if a == i else a for a, b in self.tree if i in (a, b))
