"""Claims test the papers' own sentences: rows that contradict a sentence make it disagree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from bench.paper import (  # noqa: E402
    adaptivity,
    caching_figures,
    caching_joins,
    ch4_table_2,
    hammad_9a,
    hammad_9b,
    join_plans,
    k_constraints,
    linear_road_joins,
    srivastava_10,
    srivastava_bounds,
)
from bench.paper.figure import Claim, Scale  # noqa: E402
from bench.paper.letter_joins import counted  # noqa: E402
from bench.paper.sampled_queries import NEAR, SampledQuery  # noqa: E402
from bench.paper.w_joins import LETTER, Streams, run  # noqa: E402
from penstock.measurement import Property  # noqa: E402
from penstock.workloads.memory_limited import by_value, correlated  # noqa: E402


@pytest.mark.parametrize(
    ("ratios", "converges"),
    [
        ([3.9, 3.3, 3.0, 2.8], True),
        ([2.9, 2.9, 2.9, 2.9], False),
        ([3.0, 3.5, 2.0], False),
        ([2.0, 0.9], False),
    ],
)
def test_a_constant_ratio_is_no_convergence(ratios: list[float], converges: bool) -> None:
    assert hammad_9b.converge(ratios) == converges


def test_hash_joins_scale_by_what_a_stream_adds() -> None:
    def claim(**micros: tuple[float, float]) -> bool | None:
        rows = [
            {"streams": n, "algorithm": a, "work_per_row": 1.0, "microseconds_per_row": took}
            for a, both in micros.items()
            for n, took in zip((2, 6), both, strict=True)
        ]
        rows += [{"streams": n, "algorithm": LETTER, "work_per_row": 1.0} for n in (2, 6)]
        return hammad_9b.claims(rows)[-1].agrees

    assert claim(hw=(1.0, 5.0), mw=(4.0, 16.0), nlw=(6.0, 24.0))
    assert not claim(hw=(1.0, 5.0), mw=(4.0, 7.0), nlw=(6.0, 24.0))


def test_timelines_are_judged_by_their_rows_alone() -> None:
    """So that what was measured by another process can be judged again."""

    def rows(greedy: int, other: int) -> list[dict]:
        at = {"tuples": 2000, "filters_evaluated": 1, "most_profiled": 700, "before": 1.0, "after": 1.0}
        return [
            {**at, "algorithm": name, "adapted": adapted, "most_tuples": adapted}
            for name, adapted in (("a-greedy", greedy), ("sweep", other), ("penstock", 2000))
        ]

    claims = adaptivity.adaptivity_figure("4.19", "sweep", "").claims
    assert [c.agrees for c in claims(rows(38_000, 70_000))] == [True, True, True]
    assert [c.agrees for c in claims(rows(38_000, 36_000))] == [True, True, False]


def test_table_4_2_is_judged_by_its_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("measured_time", "lookup"):
        monkeypatch.delattr(ch4_table_2, what)
    rows = [
        {"case": case, "component": c, "percent": 49.5, "unit_ns": 40.0, "lookup_ns": 100.0}
        for case in ch4_table_2.CASES
        for c in (*ch4_table_2.COMPONENTS, "overhead", "profiled tuples", "filters for profiling")
    ]
    claims = ch4_table_2.claims(rows)
    assert [c.agrees for c in claims] == [False, False, False, False, True]


def test_an_order_of_magnitude_holds_for_every_number_of_streams() -> None:
    def rows(*letter: float) -> list[dict]:
        lines = [{"streams": n, "algorithm": LETTER, "work_per_row": w} for n, w in enumerate(letter, 2)]
        timed = {"microseconds_per_row": 1.0}
        return lines + [
            {"streams": n, "algorithm": a, "work_per_row": 1.0, **timed}
            for n in range(2, 2 + len(letter))
            for a in ("nlw", "mw")
        ]

    assert [c.agrees for c in hammad_9a.claims(rows(11, 12))[:2]] == [True, True]
    assert [c.agrees for c in hammad_9a.claims(rows(9, 12))[:2]] == [False, True]
    assert [c.agrees for c in hammad_9a.claims(rows(12, 11))[:2]] == [True, False]


def test_recall_that_rises_does_not_decrease() -> None:
    prop, alloc = {0.0: 0.19, 1.0: 0.54, 2.0: 0.29}, {0.0: 0.19, 1.0: 0.54, 2.0: 0.53}
    claims = srivastava_10._as_skew_grows("", prop, alloc, "")
    assert [c.agrees for c in claims] == [False, False]
    since = srivastava_10._since
    assert [c.agrees for c in srivastava_10._as_skew_grows("", since(prop), since(alloc), "")] == [True, True]


def test_bounds_are_judged_by_memory() -> None:
    rows = [
        {"memory_percent": m, "coverage": c, "cases": 100, "line": "EQ SUM"}
        for m, c in ((10, 0.91), (20, 0.99), (40, 0.95))
    ]
    assert [c.agrees for c in srivastava_bounds.claims(rows)] == [False, False, True]


def test_the_join_to_the_letter_finds_what_the_engine_finds() -> None:
    streams = Streams({"A": 1000, "B": 1000, "C": 100}, values=3)
    compared, tested, results = counted(streams.rows(1.0), 5_000)
    found = run("WINDOW 5 MILLISECONDS", streams, "nlw", 1.0)
    assert results == found.results > 0
    assert compared > found.compared and tested >= found.tested


def test_sampled_queries_run_as_cql() -> None:
    streams = by_value(correlated("IC", 2.0), (4.0, 4.0), 600)
    query = SampledQuery(streams, "AVG(v) AS mean", 100, 100_000, 10)
    exact, some = query.run(None), query.run(60, "SAMPLE CLUSTER", 1)
    assert some.measured.text(Property.POLICY) == "PPS_CLUSTER"
    assert query.run(60, "SAMPLE CLUSTER", 1, NEAR).measured.text(Property.POLICY) == "EQ_CLUSTER"
    true, low, high = (
        exact.column("mean", 300_000),
        *(some.column(f"mean_{s}", 300_000) for s in ("low", "high")),
    )
    assert 0.5 < np.mean((low <= true) & (true <= high)) <= 1
    assert not np.allclose(true, query.run(60, "SAMPLE CLUSTER", 1).column("mean", 300_000))


def test_caches_that_are_behind_anywhere_are_not_ahead_everywhere() -> None:
    def claims(*work: float) -> list[Claim]:
        spent = {"joined": 3.0, "of_caches": 1.4, "work_plain": 4.0, "results": 0.5}
        rows = [
            {"x": x, "relative": 0.5, "relative_work": w, "relative_made": 0.5, "relative_to_probes": 0.5}
            for x, w in enumerate(work)
        ]
        return caching_figures.everywhere([{**r, **spent} for r in rows])

    assert [c.agrees for c in claims(0.9, 0.8)] == [True, True, True, True]
    behind = claims(1.1, 0.8)
    assert [c.agrees for c in behind] == [True, False, True, True]
    assert behind[1].why.startswith(
        "at 0 caches save 1.00 probes and joined tuples per input tuple, and take"
    )


def test_plans_are_compared_by_less_work_and_more_rows() -> None:
    spent = {"results": 0.5, "in_pipelines": 1.0, "looked_up": 0.0, "looked_up_by_work": 0.25}

    def rows(**work: float) -> list[dict]:
        return [
            {"point": "D1", "algorithm": name, "work": w, "rows_per_second": 1 / w, **spent}
            for name, w in work.items()
        ]

    by_work, by_time = (join_plans.point_claims(rows(M=4.0, X=2.0, P=3.0, G=1.0))[at:] for at in (0, 6))
    # One point may be an exception of what holds nearly everywhere, so that one alone tells nothing.
    assert by_work[5].agrees and by_time[5].agrees and by_work[5].says == "X is ahead of P: work"
    turned = join_plans.point_claims(rows(M=4.0, X=3.0, P=2.0, G=1.0))
    assert not turned[5].agrees and not turned[11].agrees
    assert turned[5].why.startswith("results, which every plan makes, are 12% to 12% of the work of M")


def test_the_clock_of_work_counts_each_operation_once() -> None:
    """One row each of R, S and T, in this order: R's finds no S, S's finds R and no T, T's finds both."""
    plan = replace(caching_joins.plain_probes(), filters="static")  # nothing is profiled
    made, (join,) = caching_joins.engine(caching_joins.rst(4, 4, 4), caching_joins.RST, plan)
    one = np.array([1])
    made.step(caching_joins.arrivals({"R": {"a": one}, "S": {"a": one, "b": one}, "T": {"b": one}}, 0))
    work = caching_joins.Work(join._inputs, join.caches)
    assert (work.probes(), work.made(), work.look_ups()) == (5, 3, 0)
    assert work.units() == 8 and work() == pytest.approx(8 * caching_joins.UNIT)


@pytest.mark.parametrize("seed", range(4))
def test_generated_streams_obey_their_constraint_and_no_stricter_one(seed: int) -> None:
    """The k of CA(k) and OA(k) by all pairs of rows; streams are generated to have it."""
    random = np.random.default_rng(seed)
    values = k_constraints.obeying(k_constraints.clustering, 20, np.repeat(np.arange(40), 3), random)
    apart = [
        int((values[i:j] != values[i]).sum())
        for i in range(len(values))
        for j in range(i, len(values))
        if values[i] == values[j]
    ]
    assert max(apart) == k_constraints.clustering(values) <= 20
    scrambled = k_constraints.obeying(k_constraints.scrambling, 15, np.arange(100), random)
    behind = [j - i for i in range(100) for j in range(i, 100) if scrambled[j] < scrambled[i]]
    assert 8 < max(behind) == k_constraints.scrambling(scrambled) <= 15


@pytest.mark.parametrize(
    "made",
    [k_constraints.rids, k_constraints.clustered, k_constraints.ordered_parents, k_constraints.ordered_child],
)
def test_joins_by_constraints_have_all_results_and_fewer_rows(made: Callable) -> None:
    used, plain = (k_constraints.run(made(50, 800), using) for using in (True, False))
    assert used.results == plain.results > 0
    assert used.rows[-1] < plain.rows[-1] / 2


def test_joins_of_linear_road_keep_the_same_results() -> None:
    """Of the queries that the thesis prints, and of an exit; a small day's traffic."""
    batches = list(linear_road_joins.reports(Scale(quick=True)))
    for name in ("AccSeg", "CarExitStr"):
        query = linear_road_joins.QUERIES[name]
        runs = [linear_road_joins.run(query, how, batches) for how in ("off", "monitored")]
        assert sum(runs[0].results) == sum(runs[1].results) and runs[1].rows <= runs[0].rows


def test_a_join_that_keeps_more_or_misses_results_does_not_agree() -> None:
    def judged(rows: int, results: int) -> list[bool | None]:
        lines = [
            {"query": q, "algorithm": a, "rows_kept": r, "join_bytes": 1, "engine_bytes": 1, "results": n,
             "microseconds": 1.0}
            for q in linear_road_joins.QUERIES
            for a, r, n in (("without", 100, 1000), ("k-Mon", rows, results))
        ]  # fmt: skip
        return [c.agrees for c in linear_road_joins.claims(lines)]

    assert judged(10, 1000) == [True, True, True, True, True, False, True]
    assert judged(16, 900) == [False] * 7
