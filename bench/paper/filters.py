"""The experiments of the thesis's section 4.7: convergence, overhead, a change, changes at a rate.

Rates are rows per second of this process's CPU time in the pipelined-filter executor, the median of several
rounds in which all algorithms take turns; filters and probes are counted, so they have no noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean, median

import numpy as np

from bench.paper.figure import Row, Scale
from bench.paper.probes import Probes
from bench.streamon.offline import cost, optimal
from penstock.streamon.pipelined_filters import PipelinedFilters
from penstock.streamon.settings import DEFAULTS, Thresholds
from penstock.workloads.filters import FilterWorkload, permutations

ADAPTIVE = ("a-greedy", "sweep", "independent", "local-swaps")
UNIT = 40
"""Probes of a filter of cost 1 where costs vary. One into a table without collisions takes nanoseconds; so
many take as long as the look-up that the thesis's filter is in Penstock's engine (``lookup.seconds``)."""
CHUNK = 1 << 17
"""Tuples that reach the executor together, as a micro-batch's do."""

Settings = Callable[[str], Thresholds]
"""The thresholds of an algorithm, by its name."""


def as_penstock_runs_it(algorithm: str) -> Thresholds:
    """What queries use."""
    return DEFAULTS[algorithm]


def as_in_the_thesis(algorithm: str, probability: float | None = None) -> Thresholds:
    """Table 4.1 alone: profiled as much as it says, and no detected change starts the profile window anew."""
    known = DEFAULTS[algorithm]
    p = known.drop_profiling_probability if probability is None or algorithm == "static" else probability
    return replace(
        known, drop_profiling_probability=p, overhead_share=1e9, drift_std_errors=float("inf"), steady_after=0
    )


@dataclass
class Run:
    """One algorithm on one workload, and what it took so far."""

    name: str
    executor: PipelinedFilters
    filters: Probes
    times: np.ndarray
    seconds: float = 0.0

    @classmethod
    def start(
        cls,
        name: str,
        workload: FilterWorkload,
        thresholds: Thresholds | None,
        order: list[int] | None = None,
    ) -> Run:
        """With an order, that order stays."""
        executor = PipelinedFilters(workload.n, "static" if order else name, thresholds)
        if order:
            executor.ordering.order = order
        return cls(
            name, executor, Probes(workload), workload.times if workload.n == 1 else filter_times(workload)
        )

    def take(self, tuples: np.ndarray, chunk: int = CHUNK) -> float:
        """Process tuples; the CPU seconds it took."""
        began = time.process_time()
        for at in range(0, len(tuples), chunk):
            self.filters.tuples = tuples[at : at + chunk]
            self.executor.run(len(self.filters.tuples), self.filters, keep=self.filters)
        took = time.process_time() - began
        self.seconds += took
        return took

    def counts(self) -> np.ndarray:
        """Tuples, profiled ones; filters evaluated for processing, all with profiling; what all cost."""
        x = self.executor
        cost = float(self.filters.evaluated @ self.times)
        return np.array([x.tuples, x.profiled, x.evaluations, self.filters.evaluated.sum(), cost])


@cache
def measured_time(cost: int) -> float:
    """What a filter of ``cost`` probes takes for some tuples.

    Probes of one tuple overlap in the machine, and the executor handles a tuple once: a filter of ten probes
    takes less than ten times as long. An order that is to be the best in time has to know.
    """
    workload = FilterWorkload(n=1, costs=(cost,))
    run = Run.start("static", workload, None)
    stream = workload.tuples(CHUNK)
    seconds = min(run.take(stream) for _ in range(10 if cost < 50 else 5))
    return seconds


def filter_times(workload: FilterWorkload) -> np.ndarray:
    """What each filter takes a tuple, in that of the cheapest kind."""
    cheapest = int(workload.times.min())
    return np.array([measured_time(int(c)) / measured_time(cheapest) for c in workload.times])


def best_order(holds: np.ndarray, times: np.ndarray) -> list[int]:
    """The offline optimum."""
    return optimal((~holds).astype(np.uint8), times)


def order_cost(order: list[int], holds: np.ndarray, times: np.ndarray) -> float:
    """Expected cost of a tuple in an order (equation 4.1)."""
    return cost(order, (~holds).astype(np.uint8), times) / len(holds)


def started(workload: FilterWorkload, algorithms: tuple[str, ...], thresholds: Settings) -> list[Run]:
    """Runs of all algorithms on a workload; ``optimal`` is the order found offline."""
    best = best_order(workload.holds(), filter_times(workload))
    return [
        Run.start(
            name,
            workload,
            None if name == "optimal" else thresholds(name),
            best if name == "optimal" else None,
        )
        for name in algorithms
    ]


def converged(
    workload: FilterWorkload,
    algorithms: tuple[str, ...],
    scale: Scale,
    thresholds: Settings = as_in_the_thesis,
    rounds: int = 5,
    tuples: int = 400_000,
) -> list[Row]:
    """What every algorithm does on a stream that does not change, after it has converged (4.7.2)."""
    warm_up()
    runs = started(workload, algorithms, thresholds)
    for run in runs:
        for seed in range(3):
            run.take(workload.tuples(scale.tuples(tuples), seed))
    before = [run.counts() for run in runs]
    spent = [run.executor.seconds for run in runs]
    took: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        stream = workload.tuples(scale.tuples(tuples), 100 + number)
        for run, times in zip(runs, took, strict=True):
            times.append(run.take(stream) / len(stream))
    return [
        {
            "algorithm": run.name,
            "rows_per_second": 1 / median(times),
            **_per_tuple(run.counts() - was),
            **_shares({what: s - since[what] for what, s in run.executor.seconds.items()}),
        }
        for run, times, was, since in zip(runs, took, before, spent, strict=True)
    ]


def _per_tuple(counts: np.ndarray) -> Row:
    tuples, profiled, filters, all_filters, cost = (float(c) for c in counts)
    return {
        "profiled_a_tuple": profiled / tuples,
        "filters_a_tuple": filters / tuples,
        "filters_with_profiling": all_filters / tuples,
        "cost_a_tuple": cost / tuples,
    }


def _shares(seconds: dict[str, float]) -> Row:
    total = sum(seconds.values())
    shares: Row = {what.replace(" ", "_"): 100 * s / total for what, s in seconds.items()}
    return {**shares, "overhead": 100 * (1 - seconds["tuple processing"] / total)}


def over_seeds(measured: list[list[Row]]) -> list[Row]:
    """The mean of the same rows measured with several seeds."""
    return [
        {k: v if isinstance(v, str) else mean(float(row[k]) for row in same) for k, v in same[0].items()}
        for same in zip(*measured, strict=True)
    ]


@dataclass
class Timeline:
    """What happens around a change of the stream (4.7.4)."""

    rows: list[Row]
    tuples_to_adapt: int
    """Tuples after the change until the order costs at most 10 % more than the new optimum, for good."""
    profiled_to_adapt: int
    """Profile tuples by then."""
    before: float
    after: float
    """Cost of the last orders before the change and at the end, over the optimum's."""


EVERY = 2000
"""The thesis counts filters evaluated over so many tuples."""
CLOSE = 1.1


def timeline(
    name: str, workload: FilterWorkload, scale: Scale, thresholds: Thresholds, change: int, until: int
) -> Timeline:
    """Permute the selectivities after ``change`` tuples, and count filters every 2000."""
    run = Run.start(name, workload, thresholds)
    _, like = permutations(workload.n, 2, workload.seed)
    holds, times = workload.holds(), workload.times
    now, best = holds, order_cost(best_order(holds, times), holds, times)
    rows: list[Row] = []
    before, adapted, profiled, since = 0.0, EVERY, 0, 0
    for at in range(0, scale.tuples(until), EVERY):
        if at == scale.tuples(change) // EVERY * EVERY:
            before = order_cost(run.executor.order, now, times) / best
            run.filters.like, now = like, holds[:, like]
            best = order_cost(best_order(now, times), now, times)
            since = run.executor.profiled
        was = run.counts()
        run.take(workload.tuples(EVERY, at))
        filters = int((run.counts() - was)[2])
        rows.append({"algorithm": name, "tuples": at + EVERY, "filters_evaluated": filters})
        if before and order_cost(run.executor.order, now, times) > CLOSE * best:
            adapted = at + 2 * EVERY - scale.tuples(change) // EVERY * EVERY
            profiled = run.executor.profiled - since
    after = order_cost(run.executor.order, now, times) / best
    return Timeline(rows, adapted, profiled, before, after)


def phases(workload: FilterWorkload, count: int) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Which filter behaves like which, phase by phase, with the best order of each."""
    holds = workload.holds()
    for like in permutations(workload.n, count, workload.seed):
        yield like, best_order(holds[:, like], filter_times(workload))


@cache
def warm_up() -> None:
    """Load all that is compiled: the first change that a process sees must not pay for it."""
    workload = FilterWorkload(spread=0.4)
    for name in ADAPTIVE:
        run = Run.start(name, workload, DEFAULTS[name])
        for seed, like in enumerate(permutations(workload.n, 4, 1)):
            run.filters.like = like
            run.take(workload.tuples(50_000, seed))


def changing(workload: FilterWorkload, period: int, tuples: int) -> list[Row]:
    """Total work on a stream whose selectivities are permuted at random every ``period`` tuples (4.7.4).

    Beside the algorithms: ``penstock``, A-Greedy as Penstock runs it; ``oracle``, which has the best order
    of each phase; ``fixed``, the best of all orders that stay.
    """
    warm_up()
    plan = list(phases(workload, max(2, tuples // period)))
    holds = workload.holds()
    ever = best_order(np.concatenate([holds[:, like] for like, _ in plan]), filter_times(workload))
    runs = [Run.start(a, workload, as_in_the_thesis(a)) for a in ADAPTIVE]
    runs.append(replace_name(Run.start("a-greedy", workload, None), "penstock"))
    runs.append(Run.start("oracle", workload, None, list(ever)))
    runs.append(Run.start("fixed", workload, None, ever))
    for number, (like, best) in enumerate(plan):
        for run in runs:
            run.filters.like = like
            if run.name == "oracle":
                run.executor.ordering.order = best
        for at in range(0, period, CHUNK):
            stream = workload.tuples(min(CHUNK, period - at), number * period + at)
            for run in runs:
                run.take(stream)
    changes = len(plan) - 1
    return [
        {"algorithm": r.name, "seconds": r.seconds, "changes": changes, **_per_tuple(r.counts())}
        for r in runs
    ]


def replace_name(run: Run, name: str) -> Run:
    """The same under another name."""
    run.name = name
    return run
