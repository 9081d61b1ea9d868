"""Full joins as the sum of two directions, each measured alone with every access method, and by the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from bench.paper.window_joins import EQUALITY, LEAST_BATCH, OneWay, compared
from penstock.cost.calibrate import fit
from penstock.cost.calibrate import measure as calibrate
from penstock.cost.model import BY_LETTER, METHODS, ByCost, Workload

APART = 1.1
"""Costs that differ by less than a tenth have no order."""


@cache
def calibrated() -> ByCost:
    """The chooser with weights that were measured now, once for all figures."""
    return ByCost(fit(list(calibrate())))


@dataclass(frozen=True)
class Costs:
    """Of one direction, by method: nanoseconds a row that arrives, measured and by the model."""

    measured: dict[str, float]
    model: dict[str, float]

    @property
    def chosen(self) -> str:
        """What the model finds cheapest."""
        return min(self.model, key=self.model.__getitem__)


def direction(way: OneWay, methods: Sequence[str], rows: int) -> Costs:
    """Measure one direction."""
    total = way.probes + way.updates
    window = max(way.window, LEAST_BATCH)
    model = calibrated().costs(way.probes / total, way.updates / total, window, methods)
    measured = compared(way, methods, rows)
    return Costs({m: s * 1e9 for m, s in measured.items()}, {m: s * 1e9 for m, s in model.items()})


@dataclass(frozen=True)
class FullJoin:
    """Both directions of a join; a combination has the letter of the structure on A, then that on B."""

    into_a: Costs
    into_b: Costs

    def measured(self) -> dict[str, float]:
        """Nanoseconds a row by combination."""
        return _sums(self.into_a.measured, self.into_b.measured)

    def model(self) -> dict[str, float]:
        """What the model says of them."""
        return _sums(self.into_a.model, self.into_b.model)

    @property
    def chosen(self) -> str:
        """The combination that the model finds cheapest."""
        return METHODS[self.into_a.chosen].letter + METHODS[self.into_b.chosen].letter

    def over_best(self) -> float:
        """What the chosen combination costs over the measured best."""
        measured = self.measured()
        return measured[self.chosen] / min(measured.values())

    def asymmetric_gain(self) -> float:
        """By how much the best symmetric combination costs more than the best asymmetric one."""
        alike: dict[bool, list[float]] = {True: [], False: []}
        for name, cost in self.measured().items():
            alike[name[0] == name[1]].append(cost)
        return min(alike[True]) / min(alike[False]) - 1

    def ordered_alike(self) -> tuple[int, int]:
        """Of the pairs of combinations that differ: how many the model orders as measured, and all."""
        measured, model = self.measured(), self.model()
        differ = [
            (a, b)
            for a, b in combinations(measured, 2)
            if max(measured[a], measured[b]) > APART * min(measured[a], measured[b])
        ]
        return sum((measured[a] < measured[b]) == (model[a] < model[b]) for a, b in differ), len(differ)


def _sums(on_a: dict[str, float], on_b: dict[str, float]) -> dict[str, float]:
    return {METHODS[a].letter + METHODS[b].letter: x + y for a, x in on_a.items() for b, y in on_b.items()}


def full_join(
    workload: Workload, methods: Sequence[str], rows: int, predicate: str = EQUALITY
) -> FullJoin:  # fmt: skip
    """Measure both directions."""
    into_a = OneWay(workload.rate_b, workload.rate_a, int(workload.window_a), predicate)
    into_b = OneWay(workload.rate_a, workload.rate_b, int(workload.window_b), predicate)
    return FullJoin(direction(into_a, methods, rows), direction(into_b, methods, rows))


def letters(methods: Sequence[str]) -> list[str]:
    """The names of methods by their letters."""
    return [BY_LETTER[letter].name for letter in methods]
