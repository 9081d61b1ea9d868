"""Windows between streams by their definition: conditions on timestamps, and how long a row can join."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations


@dataclass
class Windows:
    """``bounds``: by two streams, the most by which the second may be later; ``paths``: streams in order."""

    bounds: dict[tuple[str, str], int]
    paths: list[list[str]]
    members: list[str]

    @property
    def reach(self) -> dict[str, int]:
        """By stream, how much later than a row of it the last row that joins it may come."""
        return {a: max(self._longest(a, b) for b in self.members if b != a) for a in self.members}

    def _longest(self, a: str, b: str) -> int:
        """The least that the bounds allow, over all ways from one stream to the other."""
        between = [m for m in self.members if m not in (a, b)]
        ways = [(a, *middle, b) for n in range(len(between) + 1) for middle in permutations(between, n)]
        sums = []
        for way in ways:
            steps = [self.bounds.get(pair) for pair in pairwise(way)]
            if None not in steps:
                sums.append(sum(s for s in steps if s is not None))
        return min(sums)

    def condition(self, times: Mapping[str, str]) -> str:
        """The windows as SQL over the timestamps."""
        parts = [f"{times[b]} - {times[a]} <= {most}" for (a, b), most in self.bounds.items()]
        for path in self.paths:
            ways = [_in_order([times[a] for a in way]) for way in (path, path[::-1])]
            parts.append(f"(({ways[0]}) OR ({ways[1]}))")
        return f"({' AND '.join(parts)})"


def _in_order(times: Sequence[str]) -> str:
    return " AND ".join(f"{a} <= {b}" for a, b in pairwise(times))


def windows_between(
    words: Sequence[str], streams: list[str], unset: list[str], ticks: Callable[[str], int]
) -> Windows:
    """The windows of a clause. ``unset``: the streams that have no window of their own."""
    found, named, all_of_them = Windows({}, [], []), list[str](), False
    for text in re.split(r"\bAND\b", " ".join(words)):
        form = re.fullmatch(r"\s*(D?WINDOW)(\s+PATH)?\s*(?:\((.*?)\))?\s*=?\s*(.*?)\s*", text, re.DOTALL)
        assert form is not None, text
        names = [n.strip() for n in form[3].split(",")] if form[3] else list(streams)
        all_of_them |= not form[3]
        named += names
        sizes = [ticks(size.strip()) for size in form[4].strip("()").split(",")]
        if form[2]:
            found.paths.append(names)
            pairs = [(names[n], names[n + 1], size) for n, size in enumerate(sizes)]
        else:
            pairs = [(a, b, sizes[0]) for k, a in enumerate(names) for b in names[k + 1 :]]
        for a, b, most in pairs:
            _narrow(found.bounds, (a, b), most)
            _narrow(found.bounds, (b, a), 0 if form[1] == "DWINDOW" else most)
    found.members = [s for s in streams if all_of_them or s in named or s in unset]
    return found


def _narrow(bounds: dict[tuple[str, str], int], pair: tuple[str, str], most: int) -> None:
    bounds[pair] = min(most, bounds.get(pair, most))
