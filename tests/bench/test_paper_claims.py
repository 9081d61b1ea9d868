"""Claims test the papers' own sentences: rows that contradict a sentence make it disagree."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from bench.paper import hammad_9a, hammad_9b, srivastava_10, srivastava_bounds  # noqa: E402
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
