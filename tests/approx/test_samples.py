"""SAMPLE: every result has the chance that it says, so estimates are unbiased and their bounds hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from budget_feed import Run, Stream, budget_join, by_value
from cluster_estimates import Clusters, student
from longer import LONG, sized

import penstock
from penstock import budget
from penstock.approx import sampling
from penstock.approx.models.age import AgeCurve
from penstock.approx.models.counts import Counts
from penstock.approx.models.window import Rate, WindowModel
from penstock.approx.sampling import pick, safe
from penstock.budget import Maximize, Sample
from penstock.cql.query import bind
from penstock.evaluation import read_inputs
from penstock.measurement import Property
from penstock.schema import TimeDomain
from penstock.workloads.memory_limited import shares

Floats = npt.NDArray[np.float64]
LENGTH = 100
SLICES = 4
"""Parts of a run of which each is estimated by itself."""


def clusters(run: Run, begin: float, end: float) -> Clusters:
    """The first stream's values in the results of a slice of time."""
    weights, numbers, rows, others = run.columns("#weight", "#cluster", "A.n", "B.n")
    times = np.maximum(run.streams[0].ts[rows], run.streams[1].ts[others])
    here = (begin <= times) & (times < end)
    return Clusters.of(run.streams[0].values[rows[here]], weights[here], numbers[here])


def many_runs(
    streams: tuple[Stream, Stream], rows: int, runs: int, goal: Sample, lengths: tuple[int, int]
) -> tuple[Floats, Floats, list[str]]:
    """Relative errors and coverage of SUM and AVG in each slice of each run."""
    every = Run(budget_join(10**6, Maximize("RECENT"), lengths), streams)
    a, b = every.columns("A.n", "B.n")
    times = np.maximum(streams[0].ts[a], streams[1].ts[b])
    edges = np.linspace(2 * LENGTH, times.max() + 1, SLICES + 1)
    slices = zip(edges[:-1], edges[1:], strict=True)
    true = [streams[0].values[a][(x <= times) & (times < y)] for x, y in slices]
    errors, covered, schemes = [], [], []
    for seed in range(runs):
        run = Run(budget_join(rows, goal, lengths, seed=seed, aggregated=True), streams, steps=3)
        assert run.most <= rows
        schemes.append(run.measured.text(Property.POLICY))
        for x, y, t in zip(edges[:-1], edges[1:], true, strict=True):
            some = clusters(run, x, y)
            errors.append([some.sum().value / t.sum() - 1, some.average().value / t.mean() - 1])
            covered.append([some.sum().holds(t.sum()), some.average().holds(t.mean())])
    return np.array(errors), np.array(covered, np.float64), schemes


def unbiased(errors: Floats) -> bool:
    """Whether the mean error of each column is within its noise."""
    noise = errors.std(axis=0) / np.sqrt(len(errors) / SLICES)
    return bool((np.abs(errors.mean(axis=0)) <= 3 * noise).all())


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["PPS_CLUSTER", "EQ_CLUSTER"])
def test_estimates_from_clusters_are_unbiased_and_their_bounds_hold(scheme: str) -> None:
    skew = 1.2 if scheme == "PPS_CLUSTER" else 0.0
    streams = by_value((shares(skew, 20)[::-1], shares(skew, 20)), (2, 2), 5 * LENGTH, seed=5)
    runs = sized(12, 40 if scheme == "PPS_CLUSTER" else 30)
    errors, covered, schemes = many_runs(streams, 160, runs, Sample("CLUSTER"), (LENGTH, LENGTH))
    assert unbiased(errors)
    # Between 93 and 97 %, as far as so many runs can tell; the slices of a run are not independent.
    noise = covered.reshape(runs, SLICES, 2).mean(axis=1).std(axis=0) / np.sqrt(runs)
    assert (np.abs(covered.mean(axis=0) - 0.95) <= 0.02 + 2 * noise).all()
    if scheme == "PPS_CLUSTER":
        assert scheme in schemes


@pytest.mark.slow
def test_estimates_are_unbiased_even_with_wrong_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are taken by sizes that have nothing to do with them."""

    def wrong(self: Counts, keys: npt.NDArray[np.int64]) -> Floats:
        return np.where(keys % 3 == 0, 0.1, 0.01)

    monkeypatch.setattr(Counts, "shares", wrong)
    streams = by_value((shares(1.0, 20)[::-1], shares(1.0, 20)), (2, 2), 4 * LENGTH, seed=6)
    errors, _, _ = many_runs(streams, 160, sized(10, 20), Sample("CLUSTER"), (LENGTH, LENGTH))
    assert unbiased(errors)


def steady(ticks: int) -> tuple[Stream, Stream]:
    """Each tuple of the first stream gives five results, at the same ages."""
    ts = np.repeat(np.arange(ticks), 2)
    first = Stream(ts, np.arange(len(ts)), np.ones(len(ts)))
    ages = np.array([5, 20, 40, 60, 90])
    times, keys = (ts[:, None] + ages).ravel(), np.repeat(first.keys, len(ages))
    order = np.argsort(times, kind="stable")
    order = order[times[order] < ticks]
    return first, Stream(times[order], keys[order], np.ones(len(order)))


@pytest.mark.slow
def test_a_uniform_sample_has_every_result_with_the_same_chance_by_itself() -> None:
    streams, runs = steady(10 * LENGTH), sized(6, 12)
    late = np.searchsorted(streams[1].ts, 6 * LENGTH)
    there = np.zeros((runs, len(streams[1].ts) - late))
    for seed in range(runs):
        run = Run(budget_join(60, Sample("UNIFORM"), (LENGTH, 1), seed=seed), streams, steps=2)
        assert run.measured.text(Property.POLICY) == "UNIFORM"
        weights, rows = run.columns("#weight", "B.n")
        there[seed, rows[rows >= late] - late] = 1
        assert there[seed].mean() * weights[rows >= late].mean() == pytest.approx(1.0, abs=0.35)
        assert run.most <= 60
    chance, count = there.mean(), there.shape[1]
    statistic = ((there.sum(axis=0) - runs * chance) ** 2).sum() / (runs * chance * (1 - chance))
    assert abs(statistic - count) < 5 * np.sqrt(2 * count)
    _assert_independent(there, streams[1].keys[late:], chance)


def _assert_independent(there: Floats, keys: npt.NDArray[np.int64], chance: float) -> None:
    """Two results of the same tuple are in the sample together as often as any two."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    both = there[:, order][:, 1:][:, same] * there[:, order][:, :-1][:, same]
    noise = chance / np.sqrt(both.size)
    assert abs(both.mean() - chance**2) < 5 * noise


def test_which_scheme_is_taken() -> None:
    """Section 4.3.2."""
    said = {"aggregated": True, "constant": False, "by_size": False, "surprise": 0.1,
            "uniform_is_better": lambda: True}  # fmt: skip
    cases: list[tuple[str | None, dict[str, Any], str]] = [
        (None, {}, "EQ_CLUSTER"),
        (None, {"by_size": True}, "PPS_CLUSTER"),
        (None, {"aggregated": False}, "UNIFORM"),
        (None, {"constant": True}, "UNIFORM"),
        (None, {"constant": True, "uniform_is_better": lambda: False}, "EQ_CLUSTER"),
        (None, {"constant": True, "surprise": 2.0}, "EQ_CLUSTER"),
        ("CLUSTER", {"constant": True}, "EQ_CLUSTER"),
        ("UNIFORM", {"surprise": 2.0}, "UNIFORM"),
        ("UNIFORM", {"surprise": np.inf}, "EQ_CLUSTER"),
    ]
    for scheme, other, expected in cases:
        assert pick(scheme, **{**said, **other}) == expected


@pytest.mark.parametrize(
    ("results", "lengths", "better"),
    [
        (400.0, (100, 100), True),
        (5.0, (100, 100), False),  # it waits for results that do not come
        (400.0, (100, 1), False),  # few of a cluster's results are there at the same time
    ],
)
def test_uniform_is_taken_where_it_has_less_variance(
    results: float, lengths: tuple[int, int], better: bool
) -> None:
    windows = [WindowModel(n, False, 400.0) for n in lengths]
    for window in windows:
        window.rate = Rate(400.0, 100.0)
        window.curve = AgeCurve((results / window.steps,) * window.steps)
        window._ended = window._ended_count = 1.0
        window._ended_squares = 1 / results
    assert sampling.uniform_is_better(windows, False, False, 80.0) == better


def test_the_aim_leaves_a_margin() -> None:
    assert safe(10_000) + 3 * np.sqrt(safe(10_000)) == pytest.approx(10_000)
    assert safe(0) == 0


ROWS = {n: [(t // 4, {"k": t % 7, "g": t % 2, n.lower(): float(t % 11)}) for t in range(600)] for n in "AB"}
FROM = "FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"


def last(text: str, **more: Any) -> dict[str, Any]:
    return dict(penstock.evaluate(text, ROWS, until=160, **more)[-1][2])


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.slow
def test_bounds_in_cql(partitions: int) -> None:
    text = f"SELECT RSTREAM(SUM(A.a) AS s, COUNT(*) AS n, AVG(B.b) AS m) {FROM}"
    exact = last(text)
    goal = "WITHIN MEMORY 120 ROWS SAMPLE CLUSTER"
    some = last(f"{text} {goal} CONFIDENCE 0.999", partitions=partitions)
    assert list(some) == ["s", "s_low", "s_high", "n", "n_low", "n_high", "m", "m_low", "m_high"]
    for name, value in exact.items():
        assert some[f"{name}_low"] < some[name] < some[f"{name}_high"]
        assert some[f"{name}_low"] <= value <= some[f"{name}_high"]
    narrow = last(f"{text} {goal} CONFIDENCE 0.5", partitions=partitions)
    assert narrow["s"] == pytest.approx(some["s"])
    # Of the normal distribution it would be 0.2050; where clusters are few, the tails are wider.
    ratio = (narrow["s_high"] - narrow["s"]) / (some["s_high"] - some["s"])
    assert 0.17 < ratio < 0.2050


@pytest.mark.slow
def test_bounds_in_cql_are_those_of_the_formulas() -> None:
    text = f"SELECT RSTREAM(SUM(A.a) AS s, COUNT(*) AS n, AVG(A.a) AS m) {FROM}"
    told = last(f"{text} WITHIN MEMORY 120 ROWS SAMPLE CLUSTER")
    count = len(ROWS["A"])
    streams = [Stream(np.arange(count) // 4, np.arange(count) % 7, np.arange(count) % 11 * 1.0)] * 2
    run = Run(budget_join(120, Sample("CLUSTER"), (21, 21), aggregated=True), streams)
    weights, numbers, a, b = run.columns("#weight", "#cluster", "A.n", "B.n")
    alive = np.minimum(streams[0].ts[a], streams[1].ts[b]) + 20 >= 160
    some = Clusters.of(streams[0].values[a[alive]], weights[alive], numbers[alive])
    for name, estimate in (("s", some.sum()), ("m", some.average())):
        assert told[name] == pytest.approx(estimate.value)
        assert told[f"{name}_high"] - told[name] == pytest.approx(estimate.reach)
    assert told["n"] == pytest.approx(float(some.weight @ some.count))


def test_of_one_cluster_an_average_has_no_bounds() -> None:
    """Its results are as many as they are by chance, and all there is to tell how they differ from others."""
    clause = "WITHIN MEMORY 8 ROWS SAMPLE CLUSTER"
    rows = {"A": [(t, {"k": t, "a": t}) for t in range(60)], "B": [(t, {"k": t - 2}) for t in range(60)]}
    text = f"SELECT RSTREAM(AVG(a) AS m) FROM A [RANGE 19], B [NOW] WHERE A.k = B.k {clause}"
    late = [row for t, _, row in penstock.evaluate(text, rows) if t > 40]
    assert any(row["m"] is not None for row in late)
    assert all(row["m_low"] is None for row in late)


def test_quantiles_are_those_of_students_t() -> None:
    found = [student(degrees) for degrees in (3, 5, 10, 30, 1000)]
    assert found == pytest.approx([3.182, 2.571, 2.228, 2.042, 1.962], abs=0.03)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.slow
def test_with_memory_for_all_the_estimate_is_the_answer(partitions: int) -> None:
    items = "A.g, SUM(A.a) AS s, COUNT(B.b) AS n, AVG(B.b) AS m"
    text = f"SELECT RSTREAM({items}) {FROM} GROUP BY A.g HAVING COUNT(*) > 1"
    exact = penstock.evaluate(text, ROWS)
    every = penstock.evaluate(f"{text} WITHIN MEMORY 5000 ROWS SAMPLE", ROWS, partitions=partitions)
    shown = [(t, s, {k: v for k, v in r.items() if k in ("g", "s", "n", "m")}) for t, s, r in every]
    key = lambda e: (e[0], e[2]["g"])  # noqa: E731
    for got, true in zip(sorted(shown, key=key), sorted(exact, key=key), strict=True):
        assert got[:2] == true[:2]
        assert got[2] == pytest.approx(true[2])
    assert all(r["s_low"] == r["s"] == r["s_high"] for _, _, r in every)


STREAMED = "SELECT ISTREAM(A.g, A.a, B.b, A.n AS an, B.n AS bn) FROM A [RANGE 20], B [NOW] WHERE A.k = B.k"
OVER = {
    "figure 2": "SELECT RSTREAM(SUM(x.b) AS s, COUNT(*) AS n) FROM ({streamed} {w}) [RANGE 9] AS x",
    "figure 2, outside": "SELECT RSTREAM(SUM(x.b) AS s, COUNT(*) AS n) FROM ({streamed}) [RANGE 9] AS x {w}",
    "FROM": "SELECT RSTREAM(x.s + 1 AS s, x.n) FROM (SELECT SUM(A.a) AS s, COUNT(*) AS n {join} {w}) AS x",
    "view": "CREATE VIEW V AS SELECT A.g, A.a {join} {w}; SELECT RSTREAM(SUM(a) AS s, COUNT(*) AS n) FROM V",
    "outside of a view": "CREATE VIEW V AS SELECT A.g, A.a {join}; SELECT RSTREAM(SUM(a) AS s) FROM V {w}",
    "filter": "SELECT RSTREAM(SUM(A.a) AS s, COUNT(*) AS n) {join} AND A.g = 1 AND B.b > A.a {w}",
    "table": "SELECT RSTREAM(SUM(A.a * T.x) AS s) FROM A [RANGE 20], B [RANGE 20], T "
    "WHERE A.k = B.k AND T.k = A.k {w}",
    "IN": "SELECT RSTREAM(SUM(A.a) AS s) {join} AND A.k IN (SELECT k FROM T WHERE x > 2) {w}",
    "left join": "SELECT RSTREAM(SUM(x.a) AS s, COUNT(T.x) AS n) FROM (SELECT A.k, A.a {join} {w}) AS x "
    "LEFT JOIN T ON x.k = T.k AND T.x > 2",
    "union": "SELECT RSTREAM(SUM(x.a) AS s, COUNT(*) AS n) FROM "
    "((SELECT A.a {join} {w}) UNION ALL SELECT b FROM B [RANGE 3]) AS x",
    "rollup": "SELECT RSTREAM(x.s, x.n) FROM (SELECT GROUPING(A.g) AS whole, SUM(A.a) AS s, COUNT(*) AS n "
    "{join} GROUP BY ROLLUP (A.g) {w}) AS x WHERE x.whole = 1",
    "expressions": "SELECT RSTREAM(SUM(A.a) - 2 * COUNT(*) AS d, SUM(A.a) + SUM(B.b) AS s) {join} {w}",
}
TABLE = [{"k": k, "x": k % 4} for k in range(0, 7)]
SMALL = "WITHIN MEMORY {rows} ROWS SAMPLE CLUSTER"
NUMBERED = {n: [(t, {**row, "n": i}) for i, (t, row) in enumerate(r[:200])] for n, r in ROWS.items()}
INPUTS = {**NUMBERED, "T": TABLE}


def over(place: str, within: str, seed: int = 0, **how: Any) -> dict[int, dict[str, Any]]:
    """The one row at each instant."""
    text = OVER[place].format(streamed=STREAMED, join=FROM, w=within)
    read = {n: r for n, r in INPUTS.items() if n != "T" or " T" in text}
    found = penstock.evaluate(f"SET penstock.seed = {seed}; {text}", read, until=50, **how)
    return {t: row for t, _, row in found}


@pytest.mark.parametrize("place", OVER)
@pytest.mark.some(4)
def test_weights_pass_through_what_has_an_estimate(place: str) -> None:
    """With memory for all it is the answer; the mean of many samples is not far from it (in ``make test`` of
    every third place).
    """
    exact, every = over(place, ""), over(place, SMALL.format(rows=5000), partitions=2)
    assert exact.keys() == every.keys()
    for t, row in exact.items():
        for name, value in row.items():
            assert every[t][name] == (None if value is None else pytest.approx(value))
            assert every[t][f"{name}_low"] == every[t][f"{name}_high"] == every[t][name]
    if not LONG and list(OVER).index(place) % 3:
        return
    runs = [over(place, SMALL.format(rows=40), seed) for seed in range(sized(6, 12))]
    for name in exact[45]:
        found = np.array([[run[t][name] for t in (30, 40, 45)] for run in runs])
        true = np.array([exact[t][name] for t in (30, 40, 45)], np.float64)
        noise = found.std(axis=0) / np.sqrt(len(runs))
        assert found.std() > 0, "nothing was dropped"
        assert (np.abs(found.mean(axis=0) - true) <= 4 * noise + 1e-9).all(), (name, found.mean(axis=0), true)


def test_expressions_over_aggregates_have_bounds_where_they_have_a_slope() -> None:
    text = (
        "SELECT RSTREAM(SUM(A.a) / COUNT(*) AS r, AVG(A.a) AS m, 2 * SUM(A.a) AS d, SUM(A.a) AS s, "
        f"COALESCE(SUM(A.a), 0) AS c, ROUND(SUM(A.a)) AS whole, COUNT(*) % 7 AS odd) {FROM}"
    )
    row = last(f"{text} {SMALL.format(rows=120)}")
    names = ["r", "m", "d", "s", "c", "whole", "odd"]
    assert [n for n in row if n in names] == names
    assert {n for n in names if f"{n}_low" not in row} == {"whole", "odd"}
    for end in ("", "_low", "_high"):
        assert row[f"r{end}"] == pytest.approx(row[f"m{end}"])
        assert row[f"d{end}"] == pytest.approx(2 * row[f"s{end}"])
    assert row["whole"] == round(row["s"]) and isinstance(row["odd"], int)


def test_having_compares_estimates_and_says_so() -> None:
    text = f"SELECT A.k, COUNT(*) AS n {FROM} GROUP BY A.k HAVING COUNT(*) > 100"
    shown = penstock.evaluate(f"{text} {SMALL.format(rows=120)}", ROWS, until=160)
    assert shown and all(row["n"] > 100 for _, _, row in shown)
    finite = read_inputs(ROWS, {}, TimeDomain("integer", "seconds"))
    notes = bind(f"{text} {SMALL.format(rows=120)}", finite.catalog()).notes
    assert "HAVING or WHERE compares estimates: a row near the limit may be in the result or not" in notes


@pytest.mark.slow
def test_clusters_of_partitions_are_not_taken_for_one() -> None:
    """Every partition numbers its rows from 0; the variance adds up over different clusters all the same."""
    text = f"SELECT RSTREAM(COUNT(*) AS n) {FROM} {SMALL.format(rows=120)}"
    widths = []
    for partitions in (1, 4):
        row = last(text, partitions=partitions)
        widths.append(row["n_high"] - row["n_low"])
    assert widths[1] == pytest.approx(widths[0], rel=0.3)


@pytest.mark.slow
def test_rows_show_their_weight_and_the_seed_matters() -> None:
    text = f"SELECT ISTREAM(A.a, B.b) {FROM} WITHIN MEMORY 100 ROWS SAMPLE CLUSTER"
    one, again = (penstock.evaluate(text, ROWS) for _ in range(2))
    assert one == again
    assert all(row["weight"] >= 1.0 for _, _, row in one)
    assert penstock.evaluate(f"SET penstock.seed = 7; {text}", ROWS) != one


def test_the_names_are_the_schemes() -> None:
    assert budget.SCHEMES == ("UNIFORM", "CLUSTER")
