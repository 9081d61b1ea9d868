"""MAXIMIZE RESULTS keeps what the paper's examples keep, and finds what its equations say."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from budget_feed import Run, Stream, budget_join, by_age, by_value, evenly
from longer import sized

import penstock
from penstock import budget
from penstock.approx.models.age import AgeCurve
from penstock.approx.models.frequency import Frequencies
from penstock.approx.policies import NO_AGES, POLICIES
from penstock.budget import Maximize
from penstock.engine.kernels.keeping import keep_within
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Property, measured
from penstock.schema import TimeDomain
from penstock.workloads.memory_limited import curve, shares

pytestmark = pytest.mark.slow  # many runs; the random queries of make test-fast have budgets too

LENGTH = 400


def keep(
    ts: np.ndarray, length: int, priority: np.ndarray, rows: int, by_age: np.ndarray | None = None,
    room: int | None = None, watched: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Until when tuples of one window are kept, of which there may be so many."""
    until, nobody = ts + length, np.empty(0, np.int64)
    watched = np.zeros(len(ts), np.bool_) if watched is None else watched
    keep_within(
        (ts, nobody), (ts + length, nobody), (until, nobody), (watched, np.empty(0, np.bool_)),
        (priority.astype(np.float64), np.empty(0)), (NO_AGES if by_age is None else by_age, NO_AGES),
        np.array([0.0 if by_age is None else 1.0, 0.0]), np.zeros(2, np.int64),
        np.array([rows if room is None else room, 0.0]), rows, 0,
    )  # fmt: skip
    return until


def kept_by_age(results: tuple[float, ...], memory: int, ticks: int) -> list[list[int]]:
    """The tuples in memory at each time from 1 on, one arriving at each; they are called by that time."""
    ages = AgeCurve(results)
    ts = np.arange(1, ticks + 1)
    until = keep(ts, ages.window, np.zeros(ticks), memory, ages.priorities)
    return [[int(s) for s, u in zip(ts, until, strict=True) if s <= t < u] for t in ts]


@pytest.mark.parametrize(
    ("memory", "diagram"),
    [
        (1, [[1], [1], [1], [4], [4], [4], [7]]),
        (2, [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7]]),
    ],
)
def test_example_3_3(memory: int, diagram: list[list[int]]) -> None:
    assert kept_by_age((1, 1, 2, 1), memory, 7) == diagram


def test_example_3_3_gives_4_results_every_3_time_units() -> None:
    results = (1, 1, 2, 1)
    held = kept_by_age(results, 1, 300)
    given = [sum(results[t - s] for s in alive) for t, alive in enumerate(held, 1)]
    assert sum(given[:3]) == sum(given[3:6]) == 4
    assert sum(given) == 400


def test_example_3_4() -> None:
    """Greedy priorities where the curve has a minimum: 4 a time unit; each kept for M would give 3."""
    results = (3, 0, 2)
    held = kept_by_age(results, 2, 101)
    assert held[:7] == [[1], [1, 2], [1, 3], [3, 4], [3, 5], [5, 6], [5, 7]]
    given = [sum(results[t - s] for s in alive) for t, alive in enumerate(held, 1)]
    assert given[:7] == [3, 3, 5, 3, 5, 3, 5]
    assert sum(given[1:]) == 400


def best_of_all(results: tuple[float, ...], memory: int, ticks: int) -> float:
    """The most results that any choice gives, by trying all of them."""
    window, best = len(results), {(): 0.0}
    for _ in range(ticks):
        after: dict[tuple[int, ...], float] = {}
        for ages, so_far in best.items():
            there = (*(a + 1 for a in ages if a + 1 < window), 0)
            for out in [None, *range(len(there))] if len(there) <= memory else range(len(there)):
                chosen = tuple(a for k, a in enumerate(there) if k != out)
                total = so_far + sum(results[a] for a in chosen)
                after[chosen] = max(after.get(chosen, 0.0), total)
        best = after
    return max(best.values())


@pytest.mark.parametrize("results", [(1, 1, 2, 1), (0, 1, 3, 2), (5, 3, 1, 0), (1, 2, 3, 4), (0, 0, 4, 0)])
@pytest.mark.parametrize("memory", [1, 2, 3])
def test_age_is_the_best_where_the_curve_has_no_minima(results: tuple[float, ...], memory: int) -> None:
    ticks = 36
    held = kept_by_age(results, memory, ticks)
    given = sum(results[t - s] for t, alive in enumerate(held, 1) for s in alive)
    best = best_of_all(results, memory, ticks)
    # The best knows that the world ends and makes the most of the last window.
    assert best - given <= memory * max(results)


@pytest.mark.parametrize("results", [(1, 1, 2, 1), (0, 1, 3, 2), (5, 3, 1, 0), (1, 2, 3, 4), (0, 0, 4, 0)])
@pytest.mark.parametrize("memory", [1, 2, 3])
def test_age_keeps_no_tuple_that_the_optimum_would_not(results: tuple[float, ...], memory: int) -> None:
    """Section 3.2.1: up to k_opt some are kept for just as long and the others not at all, else all for M."""
    ages, ts = AgeCurve(results), np.arange(60)
    lasted = (keep(ts, ages.window, np.zeros(60), memory, ages.priorities) - ts)[8:-8]
    assert set(lasted.tolist()) <= ({0, ages.best_age} if memory <= ages.best_age else {memory})


def simple(
    name: str, ts: np.ndarray, length: int, keys: np.ndarray, shares: np.ndarray, room: int
) -> np.ndarray:
    """The same decisions, tuple by tuple and slowly."""
    until, held = ts + length, list[int]()
    for i, t in enumerate(ts):
        held = [j for j in held if ts[j] + length > t] + [i]
        if len(held) > room:
            worth = {
                "RECENT": lambda j: (j, j),
                "UNTIL_EXPIRY": lambda j: (-j, j),
                "PROB": lambda j: (shares[keys[j]], j),
            }[name]
            out = min(held, key=worth)
            held.remove(out)
            until[out] = t
    return until


@pytest.mark.parametrize("name", ["RECENT", "UNTIL_EXPIRY", "PROB"])
@pytest.mark.parametrize("seed", range(5))
def test_kernels_decide_as_the_policies_say(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    count, length, room = 200, int(random.integers(5, 40)), int(random.integers(1, 20))
    ts = np.sort(random.integers(0, 150, count))
    keys, shares = random.integers(0, 6, count), random.random(6)
    priority = {"RECENT": np.arange(count), "UNTIL_EXPIRY": -np.arange(count), "PROB": shares[keys]}[name]
    until = keep(ts, length, priority, room)
    assert until.tolist() == simple(name, ts, length, keys, shares, room).tolist()


@pytest.mark.share(2)
@pytest.mark.parametrize("shape", ["INC", "DEC", "BELL"])
@pytest.mark.parametrize("part", [0.1, 0.5])
def test_recall_is_what_equation_3_says(shape: str, part: float) -> None:
    """Learned from the stream alone, within 3 points."""
    streams = by_age(shape, LENGTH, 5, 12 * LENGTH)
    rows = int(part * 5 * LENGTH)
    run = Run(budget_join(rows, Maximize(), (LENGTH, 1)), streams)
    theory = AgeCurve(tuple(curve(shape))).recall(rows, 5 * LENGTH / 20)
    learned = np.searchsorted(streams[1].ts, 4 * LENGTH)
    found = sum(b >= learned for _, b in run.pairs()) / (len(streams[1].ts) - learned)
    assert found == pytest.approx(theory, abs=0.03)
    assert run.measured.text(Property.POLICY) == "AGE"
    assert run.measured.value(Property.EXPECTED_RECALL) == pytest.approx(theory, abs=0.08)
    assert run.measured.value(Property.MEASURED_RECALL) == pytest.approx(theory, abs=0.1)
    assert run.most <= rows


def test_recent_finds_next_to_nothing_where_results_come_late() -> None:
    streams = by_age("INC", LENGTH, 5, 6 * LENGTH)
    found = {
        u: len(Run(budget_join(200, Maximize(u), (LENGTH, 1)), streams).pairs()) for u in ("AGE", "RECENT")
    }
    assert found["AGE"] > 5 * found["RECENT"]


def test_frequent_values_are_kept_where_they_matter() -> None:
    """Inversely correlated: what is rare on the first stream is frequent on the second (3.3)."""
    parts = shares(1.0)[::-1], shares(1.0)
    streams = by_value(parts, (2, 2), 12 * LENGTH)
    rows = 200
    every = len(Run(budget_join(10**6, Maximize("RECENT"), (LENGTH, 1)), streams).pairs())
    found = {
        u: len(Run(budget_join(rows, Maximize(u), (LENGTH, 1)), streams).pairs()) / every
        for u in (None, "RANDOM", "RECENT")
    }
    own, other = (dict(enumerate(s)) for s in parts)
    theory = Frequencies(own, other, 2, 2, LENGTH).recall(rows)
    assert found[None] == pytest.approx(theory, abs=0.06)
    assert found[None] > 1.5 * found["RANDOM"]
    run = Run(budget_join(rows, Maximize(), (LENGTH, 1)), streams)
    assert tuple(map(run.measured.text, (Property.MODEL, Property.POLICY))) == ("frequency", "PROB")


@pytest.mark.parametrize("order", [1, -1])
def test_the_model_that_fits_is_found_soon(order: int) -> None:
    """Nearly as much as if it had been told; a window that gives nothing has no say."""
    every = np.zeros(2)
    for seed in range(sized(2, 3)):
        streams = by_value((shares(0.7)[::order], shares(0.7)), (2, 2), 8 * LENGTH, seed)
        runs = [Run(budget_join(200, Maximize(u), (LENGTH, 1)), streams) for u in (None, "PROB")]
        every += [len(run.pairs()) for run in runs]
    assert every[0] > 0.85 * every[1]


def test_what_is_found_does_not_depend_on_steps() -> None:
    streams = by_age("BELL", LENGTH, 2, 5 * LENGTH)
    every = [Run(budget_join(150, Maximize(), (LENGTH, LENGTH)), streams, steps) for steps in (1, 7, 100)]
    assert every[0].pairs() == every[1].pairs() == every[2].pairs()
    assert len({run.measured.value(Property.EXPECTED_RECALL) for run in every[::2]}) == 1


def test_a_snapshot_goes_on_alike() -> None:
    streams = by_age("INC", LENGTH, 2, 4 * LENGTH)
    one, two = (Run(budget_join(100, Maximize(), (LENGTH, 1)), streams, 0) for _ in range(2))
    for begin in range(0, 4 * LENGTH, LENGTH):
        one.step(begin, begin + LENGTH)
        two.operator = pickle.loads(pickle.dumps(two.operator))
        two.step(begin, begin + LENGTH)
    assert one.pairs() == two.pairs()


def test_never_over_the_budget_and_all_of_it_used() -> None:
    random = np.random.default_rng(3)
    bursts = np.sort(random.choice(4 * LENGTH, 4_000, p=_bursts(4 * LENGTH)))
    keys = random.integers(0, 50, len(bursts))
    streams = (
        Stream(bursts, keys, bursts * 1.0),
        Stream(evenly(2, 4 * LENGTH), random.integers(0, 50, 8 * LENGTH), bursts),
    )
    run = Run(budget_join(300, Maximize(), (LENGTH, LENGTH)), streams, 50)
    assert 280 <= run.most <= 300


def _bursts(ticks: int) -> np.ndarray:
    shares = 1.1 + np.sin(np.arange(ticks) / 40) ** 9
    return shares / shares.sum()


@pytest.mark.parametrize("using", [None, *budget.POLICIES])
def test_a_budget_that_suffices_sheds_nothing(using: str | None) -> None:
    streams = by_value((shares(0.5), shares(0.5)), (1, 1), 3 * LENGTH)
    rows = 2 * LENGTH + 100
    run = Run(budget_join(rows, Maximize(using), (LENGTH, LENGTH)), streams)
    assert run.pairs() == Run(budget_join(10**6, Maximize("RECENT"), (LENGTH, LENGTH)), streams).pairs()
    assert run.measured.total(Property.SHED) == 0
    assert run.measured.value(Property.EXPECTED_RECALL) == 1.0


TEXT = "SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"
ROWS = {n: [(t // 4, {"k": t % 7, "n": t}) for t in range(400)] for n in "AB"}


@pytest.mark.parametrize("partitions", [1, 3])
def test_in_cql_a_part_of_the_exact_answer(partitions: int) -> None:
    exact = [str(e) for e in penstock.evaluate(TEXT, ROWS)]
    goal = "WITHIN MEMORY 60 ROWS MAXIMIZE RESULTS"
    some = [str(e) for e in penstock.evaluate(f"{TEXT} {goal}", ROWS, partitions=partitions)]
    assert 0 < len(some) < len(exact)
    assert set(some) <= set(exact)
    every = penstock.evaluate(f"{TEXT} WITHIN MEMORY 1 GB MAXIMIZE RESULTS", ROWS, partitions=partitions)
    assert sorted(str(e) for e in every) == sorted(exact)


def found_by_instants(goal: str, seed: int) -> int:
    """Results of two streams of 4 rows a second with 20 keys, all alike, with a quarter of the memory."""
    keys = np.random.default_rng(seed).integers(0, 20, (2, 400))
    rows = {n: [(i // 4, {"k": int(k), "n": i}) for i, k in enumerate(keys[j])] for j, n in enumerate("AB")}
    finite = read_inputs(rows, {}, TimeDomain("integer", "seconds"))
    run = InProcessRun(plan_of(f"{TEXT} WITHIN MEMORY 40 ROWS {goal}", finite.catalog(), [], 1), {})
    parts = ({n: t.combine_chunks().to_batches()[0] for n, t in p.items()} for p in finite.slices(100))
    return sum(batch.num_rows for part in parts for batch in run.step(part))


def test_where_there_is_nothing_to_learn_nothing_is_lost() -> None:
    """No row is better than another: to learn that must not cost more than a few percent."""
    found = {
        goal: sum(found_by_instants(goal, seed) for seed in range(sized(3, 6)))
        for goal in ("", "MAXIMIZE RESULTS", "MAXIMIZE RESULTS USING RANDOM")
    }
    assert found["MAXIMIZE RESULTS"] > 0.97 * found["MAXIMIZE RESULTS USING RANDOM"]
    assert found["MAXIMIZE RESULTS"] > 0.97 * found[""]


def test_partitions_have_the_memory_that_their_rates_take() -> None:
    """One key has half of the rows; of those that are lost the reason is published."""
    keys = np.random.default_rng(1).integers(1, 41, (2, 2_000)) * np.random.default_rng(2).integers(
        0, 2, 2_000
    )
    rows = {n: [(i // 10, {"k": int(k), "n": i}) for i, k in enumerate(keys[j])] for j, n in enumerate("AB")}
    finite = read_inputs(rows, {}, TimeDomain("integer", "seconds"))
    plan = plan_of(f"{TEXT} WITHIN MEMORY 100 ROWS MAXIMIZE RESULTS", finite.catalog(), [], 2)
    run = InProcessRun(plan, {})
    for part in finite.slices(100):
        run.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items()})
        joins = [
            measured(e.measure()).of_operator("binary-join").of_kind(Kind.WINDOW) for e in run.engines[0]
        ]
        assert sum(j.total(Property.ROWS) for j in joins) <= 100
    kept, need = (np.array([j.total(p) for j in joins]) for p in (Property.ROWS, Property.ROWS_NEEDED))
    assert (kept / kept.sum()).tolist() == pytest.approx((need / need.sum()).tolist(), abs=0.1)
    assert max(need) > 1.3 * min(need)
    for join in joins:
        assert join.total(Property.SHED) > 0
        assert set(join.values(Property.SHED)) == {"not taken in", "given up"}


def test_the_names_are_the_policies() -> None:
    assert set(budget.POLICIES) == set(POLICIES)


def test_less_room_than_was_planned_with() -> None:
    """Nobody is given up of a window that holds nobody, however much room the plan left it."""
    ts = np.arange(20)
    for ages in (None, np.ones(101)):
        until = keep(ts, 100, ts, 10, ages, room=50)
        assert (until == ts + 100).sum() == 10


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ages", [None, np.linspace(1, 0, 31)])
def test_watched_tuples_take_their_place_and_no_other(seed: int, ages: np.ndarray | None) -> None:
    """Whoever is kept and watched counts once: all the memory is used, and no more, at every instant."""
    random = np.random.default_rng(seed)
    ts, length, rows = np.sort(random.integers(0, 200, 400)), 30, 20
    watched = random.random(len(ts)) < 0.1
    until = keep(ts, length, random.random(len(ts)), rows, ages, watched=watched)
    there = np.where(watched, ts + length, until)
    alive = [int(((ts <= t) & (there > t)).sum()) for t in range(length, 200)]
    assert max(alive) == rows
    assert np.mean(alive) > rows - 1
