"""Pipelined filters for measuring orders of them (thesis 4.7): membership of a tuple in n relations.

Stream S0 carries values drawn uniformly from a domain; filter Fi lets a value through if relation Ri, about
10,000 values, holds it. The n filters are in ceil(n / correlation factor) groups: filters of one group agree
on 80 % of the tuples, filters of different groups are independent. What the relations hold is known for the
whole domain, so every selectivity, conditional or not, is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Holds = npt.NDArray[np.bool_]

AGREEMENT = 0.8
"""Share of tuples on which two filters of a group agree (4.7.2); independent ones may agree on more."""


@dataclass(frozen=True)
class FilterWorkload:
    """``n`` filters with table 4.1's defaults.

    ``selectivity`` is the mean of all groups' unconditional selectivities, which are spread evenly over
    ``selectivity`` +- ``spread``; ``costs`` is the number of probes per tuple of each filter; ``entries`` the
    values a relation holds at the mean selectivity.
    """

    n: int = 8
    correlation_factor: int = 2
    selectivity: float = 0.5
    spread: float = 0.0
    costs: tuple[int, ...] = ()
    entries: int = 10_000
    seed: int = 1

    @property
    def domain(self) -> int:
        """The number of different values."""
        return round(self.entries / self.selectivity)

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The group of each filter; the filters of a group are neighbours."""
        return np.arange(self.n) // self.correlation_factor

    @property
    def selectivities(self) -> npt.NDArray[np.float64]:
        """The unconditional selectivity of each filter, that of its group."""
        of_group = np.linspace(-self.spread, self.spread, int(self.groups[-1]) + 1)
        return self.selectivity + (of_group[self.groups] if self.groups[-1] else np.zeros(self.n))

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """The cost per tuple of each filter."""
        return np.array(self.costs or (1,) * self.n, np.float64)

    def holds(self) -> Holds:
        """Which values (a row each) which relation (a column each) holds."""
        random = np.random.default_rng(self.seed)
        s, groups = self.selectivities, self.groups
        # A filter does with probability c what its group does, and else what it would alone: two filters of
        # a group then agree on c^2 + (1 - c^2) * (s^2 + (1 - s)^2) of the tuples.
        alone = s**2 + (1 - s) ** 2
        c = np.sqrt(np.clip((AGREEMENT - alone) / (1 - alone), 0, 1))
        of_group = random.random((self.domain, int(groups[-1]) + 1))[:, groups]
        own = random.random((self.domain, self.n))
        follows = random.random((self.domain, self.n)) < c
        return np.where(follows, of_group, own) < s

    def tuples(self, count: int, seed: int = 0) -> npt.NDArray[np.int32]:
        """Tuples of S0; another seed, other tuples."""
        return np.random.default_rng((self.seed, seed)).integers(0, self.domain, count, np.int32)


def permutations(n: int, count: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Changes of filter characteristics: which filter each one behaves like, phase by phase.

    A change permutes the selectivities at random (4.7.4); what a filter costs stays with the filter.
    """
    random = np.random.default_rng(seed)
    return [np.arange(n), *(random.permutation(n) for _ in range(count - 1))]
