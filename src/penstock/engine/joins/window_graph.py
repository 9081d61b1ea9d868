"""Windows between the streams of a join: how much later than a row of one a row of another may be.

``bounds[i][j]`` is the most by which the timestamp of stream j's row may exceed that of stream i's row. They
are closed by shortest paths (Hammad et al., section 5.2): if a row of B is at most 1 after that of A, and
that of C at most 2 after that of B, then C is at most 3 after A. From the closed bounds follows how long a
row is needed: a row of stream i joins no row that comes more than ``reach(i)`` after it.

>>> graph = WindowGraph.closed(("A.#ts", "B.#ts", "C.#ts"), {(0, 1): 1, (1, 0): 0, (1, 2): 2, (2, 1): 2})
>>> graph.bounds
((0, 1, 3), (0, 0, 2), (2, 2, 0))
>>> [graph.reach(i) for i in range(3)], [graph.age(i) for i in range(3)]
([3, 2, 2], [2, 2, 3])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations

import numpy as np

from penstock.engine.element import Bools, Int64s
from penstock.schema import TimeDomain


class UnconnectedError(Exception):
    """No windows connect some streams; ``groups`` are the numbers of those that are connected."""

    def __init__(self, groups: list[list[int]]) -> None:
        super().__init__(groups)
        self.groups = groups


@dataclass(frozen=True)
class WindowGraph:
    """``columns``: by stream, the column of its timestamps; ``bounds``: closed, by stream and stream.

    ``path``: the streams in an order in which, or in the reverse of which, their rows must be.
    """

    columns: tuple[str, ...]
    bounds: tuple[tuple[int, ...], ...]
    path: tuple[int, ...] = ()

    @classmethod
    def closed(
        cls, columns: Sequence[str], given: Mapping[tuple[int, int], int], path: Sequence[int] = ()
    ) -> WindowGraph:
        """The closure of the given bounds; raises ``UnconnectedError`` where one does not exist."""
        count = range(len(columns))
        d: list[list[int | None]] = [[0 if i == j else given.get((i, j)) for j in count] for i in count]
        for k in count:
            for i in count:
                for j in count:
                    first, then = d[i][k], d[k][j]
                    if first is not None and then is not None:
                        known = d[i][j]
                        d[i][j] = first + then if known is None else min(known, first + then)
        groups = {tuple(j for j in count if d[i][j] is not None) for i in count}
        if len(groups) > 1:
            raise UnconnectedError([list(g) for g in sorted(groups)])
        bounds = tuple(tuple(b for b in row if b is not None) for row in d)
        return cls(tuple(columns), bounds, tuple(path))

    def __len__(self) -> int:
        return len(self.columns)

    def reach(self, i: int) -> int:
        """How long after a row of stream i a row that joins it may come."""
        return max(self.bounds[i])

    def age(self, i: int) -> int:
        """How long before a row of stream i a row that joins it may have come."""
        return max(row[i] for row in self.bounds)

    @property
    def span(self) -> int:
        """The most by which two rows of a result may be apart."""
        return max(map(max, self.bounds))

    @property
    def uniform(self) -> bool:
        """Whether one window is between all streams."""
        return {b for i, row in enumerate(self.bounds) for j, b in enumerate(row) if i != j} == {self.span}

    def both_ways(self) -> tuple[WindowGraph, WindowGraph]:
        """The windows of a path in its order, and in the reverse one."""
        forward, backward = (self._directed(path) for path in (self.path, self.path[::-1]))
        return forward, backward

    def _directed(self, path: Sequence[int]) -> WindowGraph:
        given = {(i, j): b for i, row in enumerate(self.bounds) for j, b in enumerate(row) if i != j}
        given |= {(b, a): 0 for a, b in pairwise(path)}
        return WindowGraph.closed(self.columns, given)

    def holds(self, times: Sequence[Int64s]) -> Bools:
        """Which tuples are within the windows; ``times``: by stream, the timestamps of their rows."""
        ok = np.ones(len(times[0]), np.bool_)
        for i, j in permutations(range(len(times)), 2):
            ok &= times[j] - times[i] <= self.bounds[i][j]
        if len(self.path) < 3:
            return ok
        pairs = [(times[a], times[b]) for a, b in pairwise(self.path)]
        forward, backward = ([a <= b for a, b in pairs], [a >= b for a, b in pairs])
        return ok & (np.logical_and.reduce(forward) | np.logical_and.reduce(backward))

    def text(self, labels: Sequence[str], time: TimeDomain) -> str:
        """The windows in CQL; ``labels``: names of the streams."""
        if self.uniform and not self.path:
            return f"WINDOW {time.length(self.span)}"
        said = [self._pair(i, j, labels, time) for i, j in combinations(range(len(self)), 2)]
        path = ", ".join(labels[i] for i in self.path)
        return " AND ".join([*([f"in the order {path} or the reverse"] if path else []), *said])

    def _pair(self, i: int, j: int, labels: Sequence[str], time: TimeDomain) -> str:
        bounds = self.bounds[i][j], self.bounds[j][i]
        later, earlier = map(time.length, bounds)
        if later == earlier:
            return f"WINDOW ({labels[i]}, {labels[j]}) {later}"
        if not bounds[1]:
            return f"DWINDOW ({labels[i]}, {labels[j]}) {later}"
        if not bounds[0]:
            return f"DWINDOW ({labels[j]}, {labels[i]}) {earlier}"
        return f"{labels[j]} from {earlier} before {labels[i]} to {later} after"

    def among(self, members: Sequence[int]) -> WindowGraph:
        """The windows between some of the streams."""
        bounds = tuple(tuple(self.bounds[i][j] for j in members) for i in members)
        path = [members.index(i) for i in self.path if i in members]
        return WindowGraph(tuple(self.columns[i] for i in members), bounds, tuple(path))
