"""Where a random case comes from: a row of choices, each the number of an option.

Hypothesis supplies the seed of the row, and so says which cases run and finds a failing one again. The
choices themselves are uniform: of Hypothesis's own draws half were variations of one query. They are kept,
so that a case can be made small by leaving choices out and taking simpler ones (``minimal``); the first
option of a choice is the simplest, and where the row has ended it is the one taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

seeds = st.binary(min_size=8, max_size=8).map(lambda b: int.from_bytes(b))


class Choices:
    """Choices as they were made, then new ones at random, or the simplest."""

    def __init__(self, made: Sequence[int] = (), random: Random | None = None) -> None:
        self._before, self._random = list(made), random
        self.made: list[int] = []

    def index(self, count: int) -> int:
        at = len(self.made)
        if at < len(self._before):
            choice = min(self._before[at], count - 1)
        else:
            choice = self._random.randrange(count) if self._random else 0
        self.made.append(choice)
        return choice

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return options[0] if len(options) == 1 else options[self.index(len(options))]

    def chance(self, one_in: int) -> bool:
        """True now and then."""
        return self.index(one_in) == one_in - 1

    def some(self, options: Sequence[Any], least: int, most: int) -> list[Any]:
        """A few different ones of the options."""
        left, found = list(options), []
        for _ in range(min(self.pick(*range(least, most + 1)), len(left))):
            found.append(left.pop(self.index(len(left))))
        return found


Fails = Callable[[list[int]], list[int] | None]
"""Whether the case of a row of choices fails: the row that was then made, or None."""


def minimal(made: list[int], fails: Fails, seconds: float = 60) -> list[int]:
    """A shorter and simpler row of choices that fails too."""
    until = time.monotonic() + seconds
    best, improved = made, True
    while improved and time.monotonic() < until:
        improved = False
        for candidate in _simpler(best):
            if time.monotonic() > until:
                break
            found = fails(candidate)
            if found is not None and (len(found), found) < (len(best), best):
                best, improved = found, True
                break
    return best


def _simpler(made: list[int]) -> Iterator[list[int]]:
    """Rows with a run of choices left out, or with simpler ones in its place."""
    size = max(len(made) // 2, 1)
    while size:
        for start in range(0, len(made), size):
            yield made[:start] + made[start + size :]
            if any(made[start : start + size]):
                yield made[:start] + [0] * len(made[start : start + size]) + made[start + size :]
        size //= 2
    for at, choice in enumerate(made):
        if choice > 1:
            yield [*made[:at], choice - 1, *made[at + 1 :]]
