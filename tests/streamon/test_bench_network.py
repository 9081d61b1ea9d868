"""The benchmark of adaptive joins runs, and reaches on a small input what it asks for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from bench.streamon.network import best, judged, main, on_engine, systems  # noqa: E402
from penstock.workloads.routes import Routes  # noqa: E402

ROUTES = Routes(flows=2_000, packets=10, phase=4)


def test_the_table_and_the_judgement_are_printed(capsys) -> None:
    main(["--flows", "200", "--phase", "2", "--phases", "2"])
    shown = capsys.readouterr().out
    assert "best of each" in shown
    assert "all give the same results: yes" in shown


def test_the_adaptive_order_makes_few_probes_and_the_wrong_one_many() -> None:
    runs = [on_engine(ROUTES, 8, *system) for system in systems(ROUTES)]
    lowest = best(ROUTES, 8)
    adaptive, first, last = (r.probes for r in runs)
    assert sum(adaptive) < 1.3 * sum(lowest)
    assert first[0] > 2 * adaptive[0] and last[1] > 2 * adaptive[1]
    assert len(judged(runs, lowest)) == 3


def test_the_best_is_no_more_than_what_a_right_fixed_order_makes() -> None:
    routes = replace(ROUTES, flows=300)
    _, first, last = (on_engine(routes, 8, *system).probes for system in systems(routes))
    assert best(routes, 8)[0] <= last[0] and best(routes, 8)[1] <= first[1]


def test_on_spark_rows_a_second_are_told_by_phase() -> None:
    from bench.peers.harness import Measured
    from bench.streamon.network_on_spark import Rates
    from bench.streamon.network_on_spark import judged as judged_on_spark

    rates = []
    for name, milliseconds in (("a-greedy", (100, 100)), ("first", (200, 100)), ("last", (100, 250))):
        found = Rates(name)
        for _ in range(2):
            # Two batches warm up: one of the first phase counts, and three of the second.
            found.add(Measured(name, [milliseconds[0]] + 3 * [milliseconds[1]], 1000, [5, 5]), 3, 0.5)
        rates.append(found)
    assert [r.per_second(0) for r in rates] == [10_000, 5_000, 10_000]
    assert rates[2].per_second(1) == 4_000
    assert rates[1].per_second() == 2_000 / 0.3 and rates[1].joins == 1.0
    best, wrong, same = judged_on_spark(rates)
    assert "1.50 times the rows/s of the better fixed order" in best
    assert "2.00, 2.50 times" in wrong
    assert same.endswith("yes")
