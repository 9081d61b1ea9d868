"""A sample of a join's results within a memory: SAMPLE (Srivastava and Widom, section 4).

A result in the sample carries its weight, the inverse of its inclusion probability, and the number of its
cluster; ``plan.estimates`` computes estimates and bounds from them. If the sample needs more memory than
there is, a cluster sample drops the clusters of lowest probability, which lowers the probability of the
others; a uniform sample is no longer uniform then, reports it, and takes a smaller fraction from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.approx import sampling
from penstock.approx.known_tuples import KnownTuples, earlier_tuples
from penstock.approx.memory_policy import BudgetPlanner, MemoryBudget, MemoryPolicy, WindowModels
from penstock.approx.models.frequency import limit
from penstock.approx.models.window import WindowModel
from penstock.approx.policies import NO_AGES
from penstock.approx.settings import LOWERED_AIM, RAISED_AIM, SAMPLE_FIT_TOLERANCE
from penstock.budget import Sample
from penstock.engine.joins.budget import Results
from penstock.engine.kernels.hashing import hash_integers
from penstock.engine.kernels.keeping import decide_first, keep_within, sample_results
from penstock.engine.snapshot import State
from penstock.measurement import Property, Reading, given

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class SamplingPlan(NamedTuple):
    """A plan of SAMPLE: the scheme, and the fraction of results, or of clusters, that it takes."""

    scheme: str
    fraction: float


class BestSample(BudgetPlanner[SamplingPlan]):
    """Re-optimizes: the scheme with the smaller error, and the largest fraction that fits into the memory."""

    def __init__(self, node: MemoryBudget, models: WindowModels) -> None:
        self._node, self._models = node, models
        self.plan = SamplingPlan("EQ_CLUSTER", 1.0)

    def reconsider(self, evidence: float, recall: Callable[[], SamplingPlan | None]) -> bool:
        before, scheme = self.plan, self._scheme(evidence)
        self.plan = SamplingPlan(scheme, self._fraction(scheme, evidence))
        return self.plan != before

    def _scheme(self, memory: float) -> str:
        goal, models = self._node.within.goal, self._models
        assert isinstance(goal, Sample)
        surprise = max((w.surprise for w in models.joining), default=np.inf)
        return sampling.pick(
            goal.scheme, self._node.aggregated, self._node.constant, self._by_size, surprise,
            lambda: sampling.uniform_is_better(models.windows, models.by_value, self._by_size, memory),
        )  # fmt: skip

    def _fraction(self, scheme: str, memory: float) -> float:
        windows = self._models.windows
        if sum(w.need for w in windows) <= memory:
            return 1.0 if scheme != "PPS_CLUSTER" else np.inf
        if scheme == "UNIFORM":
            return sampling.uniform_fraction(windows, self._models.by_value, memory)
        if scheme == "EQ_CLUSTER":
            return sampling.equal_fraction(windows, memory)
        return sampling.size_fraction(windows, memory)

    @property
    def _by_size(self) -> bool:
        """Whether clusters differ in size by more than chance."""
        a, b = self._models.windows
        return self._models.by_value and (sampling.unequal(a, b) or sampling.unequal(b, a))


class Sampler(MemoryPolicy[SamplingPlan]):
    """Keeps random tuples.

    Using frequencies where ages would do costs a sample little; without them large clusters are missed.
    """

    saved = (*MemoryPolicy.saved, "_aim", "_overran")
    format = 2
    tolerance = SAMPLE_FIT_TOLERANCE
    at_rows, at_bytes = Property.ERROR_AT_ROWS, Property.ERROR_AT_BYTES

    def __init__(self, node: MemoryBudget) -> None:
        super().__init__(node)
        self._aim, self._overran = 1.0, False
        self.shed["no room"] = [0, 0]

    def _start_planning(self) -> BestSample:
        return BestSample(self._node, self._models)

    def state(self) -> dict[str, State]:
        return {**super().state(), "plan": [self._scheme, self._fraction]}

    def _saved_plan(self, state: list[State]) -> SamplingPlan:
        return SamplingPlan(*state)

    def use(self, plan: SamplingPlan) -> None:
        self._scheme, self._fraction = plan

    def memory(self, rows: float) -> float:
        """Less than the available memory, as the sample size varies; less again if the last epoch did not
        fit.
        """
        return self._aim * sampling.safe(super().memory(rows))

    def _replan(self, now: int) -> None:
        self._aim = self._aim * LOWERED_AIM if self._overran else min(self._aim * RAISED_AIM, 1.0)
        self._overran = False
        super()._replan(now)

    def _decide(self, begin: int) -> None:
        for i, known in enumerate(self._known):
            new = np.arange(self._old[i], len(known))
            if self._scheme == "UNIFORM":
                self._decide_uniform(known, new, self._windows[i])
            else:
                self._decide_clusters(i, known, new)
        self._give_up_surplus(begin)

    def _decide_uniform(self, known: KnownTuples, new: Int64s, own: WindowModel) -> None:
        """Drop tuples that are not expected to reach their first sampled result."""
        expected = known.likely[new] if self._models.by_value else np.full(len(new), own.curve.total)
        known.chance[new] = self._fraction
        known.expected[new] = np.inf if self._fraction >= 1.0 else limit(expected, own.margin)
        following, until = known.following[new], known.until[new]
        decide_first(known.seed[new], self._fraction, known.expected[new], known.ts[new], following, until)
        known.following[new], known.until[new] = following, until

    def _decide_clusters(self, i: int, known: KnownTuples, new: Int64s) -> None:
        """Keep each tuple with its probability until it expires."""
        if self._scheme == "PPS_CLUSTER":
            size = sampling.sizes(known.key[new], self._windows[i], self._windows[1 - i])
        else:
            size = np.ones(len(new))
        known.expected[new] = size
        known.chance[new] = np.minimum(1.0, self._fraction * size)
        known.until[new] = np.where(known.draw[new] < known.chance[new], known.until[new], known.ts[new])
        # UNIFORM may have kept some: now all their results are in the sample, or none.
        known.following[new] = np.inf

    def _give_up_surplus(self, begin: int) -> None:
        """If there are still too many, drop those that would have been left out first."""
        a, b = self._known
        before = [h.until.copy() for h in self._known]
        last = keep_within(
            (a.ts, b.ts), (a.end, b.end), (a.until, b.until), (a.monitored, b.monitored),
            (self._margin_of(a), self._margin_of(b)), (NO_AGES, NO_AGES), np.zeros(2), np.array(self._old),
            np.ones(2), self._rows, begin,
        )  # fmt: skip
        for i, known in enumerate(self._known):
            if last[i] < 0:
                continue
            self.shed["no room"][i] += int((before[i] != known.until).sum())
            if self._scheme == "UNIFORM":
                self._overran = True
            else:
                most = known.draw[last[i]] / known.expected[last[i]]
                known.chance = np.minimum(known.chance, most * known.expected)

    def _margin_of(self, known: KnownTuples) -> Floats:
        """The margin by which tuples are in the sample; in a uniform sample all are equal."""
        return -known.draw if self._scheme == "UNIFORM" else known.expected / known.draw

    def results(self, ids: Sequence[Int64s], times: Sequence[Int64s]) -> Results:
        """The pairs that are in the sample, in timestamp order."""
        order = np.lexsort((ids[0], ids[1], np.maximum(times[0], times[1])))
        ids = [p[order] for p in ids]
        earlier, places, later, kept = earlier_tuples(self._known, ids, [t[order] for t in times])
        chance, clusters = np.ones(len(order)), np.zeros(len(order), np.int64)
        taken = np.zeros(len(order), np.bool_)
        for i, known in enumerate(self._known):
            here = np.flatnonzero(earlier == i)
            rows = places[here]
            taken[here] = self._sampled(known, rows, later[here], kept[here])
            chance[here] = known.chance[rows]
            clusters[here] = self._clusters(known, rows, ids[1 - i][here])
        self._note(earlier, places, later, taken)
        back = np.argsort(order)
        return Results(taken[back], (1.0 / np.maximum(chance, 1e-12))[back], clusters[back])

    @staticmethod
    def _clusters(known: KnownTuples, rows: Int64s, partners: Int64s) -> Int64s:
        """Numbers that the clusters of other partitions do not have; 0 of results that are certain.

        The results of a uniform sample are each a cluster of their own.
        """
        own = known.seed[rows].copy()
        by_itself = known.following[rows] < np.inf
        hash_integers(np.where(by_itself, partners, -1), own)
        return np.where(known.chance[rows] < 1.0, own.view(np.int64), 0)

    def _sampled(self, known: KnownTuples, rows: Int64s, times: Int64s, kept: Bools) -> Bools:
        """All results of sampled clusters; for a uniform sample the drawn ones."""
        whole = ~(known.following[rows] < np.inf)
        out = kept & whole
        single = np.flatnonzero(kept & ~whole)
        alive = np.ones(len(known), np.bool_)
        out[single] = sample_results(
            rows[single], times[single], alive, known.seed, known.chance, known.expected, known.number,
            known.following, known.until,
        )  # fmt: skip
        return out

    def _average_chance(self) -> float | None:
        """The mean probability over the kept tuples; in a sample by size each has its own."""
        if self._scheme != "PPS_CLUSTER":
            return float(self._fraction)
        chances = np.concatenate([h.chance for h in self._known])
        return float(1 / np.mean(1 / np.maximum(chances, 1e-12))) if len(chances) else None

    def _measure_goal(self) -> Iterator[Reading]:
        yield Reading(Property.POLICY, 0, self._scheme)
        yield from given(Property.SAMPLING_FRACTION, self._average_chance())
        yield from given(Property.MEASURED_FRACTION, self._found / self._all if self._all else None)

    def _quality(self, rows: float) -> float:
        """The expected error of a COUNT."""
        models = self._models
        if rows >= sum(w.need for w in models.windows):
            return 0.0
        return sampling.relative_error(models.windows, models.by_value, self._scheme, self.memory(rows))

    def _measure_window(self, i: int) -> Iterator[Reading]:
        yield Reading(Property.SURPRISE, self._windows[i].surprise)
