"""Probes that take all matches at once or ask for a first one; results do not depend on which."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from restless import RestlessMatching

from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.joins import drop_probing, steps
from penstock.engine.joins.drop_probing import DropProbing
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.plan.explain_running import explain_running
from penstock.settings import Settings
from penstock.streamon.matching import AdaptiveMatching
from penstock.streamon.settings import MatchingThresholds

THRESHOLDS = MatchingThresholds(period=100, memory=0, match=1.0, first=2.0, margin=1.5)


def counted(choice: AdaptiveMatching, tuples: int, matches: int, lost: int, times: int = 1) -> None:
    """100 rows with so many tuples, each with so many matches; all pass, and so many are lost later."""
    for _ in range(times):
        choice.profiler.asked(0, 100, 100 * tuples)
        choice.profiler.found(0, 100, 100 * matches)
        choice.profiler.ended(0, 100, 100 - lost)
        choice.ended(100)


def test_what_all_matches_waste_decides() -> None:
    choice = AdaptiveMatching(1, THRESHOLDS)
    counted(choice, tuples=1, matches=9, lost=5)
    assert choice.profiler.statistics(None).tolist() == pytest.approx([0.05 * 10])
    assert not choice.first
    counted(choice, tuples=1, matches=9, lost=50)
    decision = choice.log.last(1)[0]
    assert (choice.first, decision.time, decision.plan) == ({0}, 200, {0})
    assert (*decision.statistics, decision.gain) == pytest.approx((5.0, 1 - 2.0 / 5.0))
    counted(choice, tuples=1, matches=1, lost=1)
    assert choice.first == frozenset()


def test_a_margin_keeps_it_from_alternating() -> None:
    choice = AdaptiveMatching(1, THRESHOLDS)
    for turn in range(40):
        counted(choice, tuples=1, matches=9, lost=18 + 4 * (turn % 2))
    assert choice.log.count == 0


def test_many_tuples_of_a_row_ask_first_whatever_was_counted() -> None:
    choice = AdaptiveMatching(1, THRESHOLDS)
    assert not choice.asks_first(0, rows=10, tuples=160)
    assert choice.asks_first(0, rows=10, tuples=161)
    assert not choice.asks_first(0, rows=10, tuples=2560, length=2)


STAR = "SELECT O.k FROM O [ROWS 100], F [ROWS 4000], G [ROWS 400], H [ROWS 400] " + (
    "WHERE O.k = F.k AND O.k = G.k AND O.k = H.k"
)
CHAIN = "SELECT O.k FROM O [ROWS 300], F [RANGE 30], G [ROWS 300], H [ROWS 300] " + (
    "WHERE O.k = F.k AND F.j = G.j AND G.m = H.m AND F.k + O.v > G.m AND O.k / 2 < H.m + 3"
)
COLUMNS = {"O": "kv", "F": "kj", "G": "kjm", "H": "km"}


class Running:
    """A join on an engine, whose probes a choice of the test decides on."""

    def __init__(self, query: str, choice: Any = AdaptiveMatching, filters: str = "a-greedy") -> None:
        catalog = {n: Input(n, pa.schema([(c, pa.int64()) for c in cs])) for n, cs in COLUMNS.items()}
        self.chosen: list[AdaptiveMatching] = []
        self.now, self.random = 0, np.random.default_rng(3)

        def new(n: int) -> AdaptiveMatching:
            self.chosen.append(choice(n))
            return self.chosen[-1]

        with patch.object(drop_probing, "AdaptiveMatching", new):
            plan = compile(bind(query, catalog), 1, Settings(filters, "mjoin"))
            self.engine = Engine(plan.stages[0].stage)

    def step(self, rows: dict[str, np.ndarray]) -> Counter[tuple[Any, ...]]:
        arrivals = []
        for name, keys in rows.items():
            ts = self.now + np.arange(len(keys)) * 10 // len(keys)
            given = {f"{name}.{c}": pa.array((keys + 7 * n) % 40) for n, c in enumerate(COLUMNS[name][1:], 1)}
            given[f"{name}.{COLUMNS[name][0]}"] = pa.array(keys)
            batch = pa.RecordBatch.from_pydict({TS: pa.array(ts), **given})
            arrivals.append(Arrival(name, 0, batch, self.now, self.now + 10))
        self.now += 10
        found = self.engine.step(arrivals).only.batch
        return Counter(zip(*(c.to_pylist() for c in found.columns), strict=True))


def fanning(random: np.random.Generator) -> dict[str, np.ndarray]:
    """One row of O in ten has 40 matches in F; half of those have one in G, and half in H."""
    return {
        "O": random.integers(0, 2_000, 3_000),
        "F": np.repeat(random.choice(np.arange(0, 2_000, 10), 25), 40),
        "G": random.choice(np.arange(0, 2_000, 5), 60),
        "H": random.choice(np.arange(0, 2_000, 5), 60),
    }


def always(first: bool) -> type[AdaptiveMatching]:
    class Always(AdaptiveMatching):
        def asks_first(self, *_: int, **__: int) -> bool:
            return first

    return Always


CHOICES = (AdaptiveMatching, always(True), always(False), RestlessMatching)


@pytest.mark.parametrize("query", [STAR, CHAIN])
@pytest.mark.parametrize("filters", ["a-greedy", "static"])
def test_results_do_not_depend_on_it(query: str, filters: str) -> None:
    running = [Running(query, choice, filters) for choice in CHOICES]
    random, results = np.random.default_rng(5), 0
    for _ in range(6):
        rows = {n: random.integers(0, 40, 90) for n in COLUMNS} if query is CHAIN else fanning(random)
        first, *others = [r.step(rows) for r in running]
        results += sum(first.values())
        assert all(o == first for o in others)
    assert results > 1000


def test_a_first_match_is_asked_for_where_many_are_found_in_vain() -> None:
    running, random = Running(STAR), np.random.default_rng(5)
    for _ in range(12):
        running.step(fanning(random))
    found = measured(running.engine.measure())
    assert any("O/matches" in e for e in found.of_kind(Kind.ADAPTIVE).of(Property.FIRST_MATCH).by_entity())
    assert "      first matches of " in explain_running(found)
    assert found.of_kind(Kind.DECISION).of(Property.GAIN).by_entity()


def test_matches_that_multiply_are_not_made() -> None:
    """Of each key 300 rows in F and in G, and none of them in H, which is asked last."""
    most, looks = 0, 0
    probe, joins = steps.Probe.run, DropProbing.joins

    def noted(self: Any, tuples: Any) -> Any:
        nonlocal most
        out = probe(self, tuples)
        most = max(most, len(out))
        return out

    def looked(self: Any, *given: Any) -> Any:
        nonlocal looks
        looks += 1
        return joins(self, *given)

    running = Running(STAR.replace("ROWS 400]", "ROWS 4000]"), filters="static")
    same = np.repeat(np.arange(5), 300)
    none = {n: np.array([70 + number]) for number, n in enumerate("OFGH")}
    running.step({**none, "F": same, "G": same})
    with ExitStack() as stack:
        stack.enter_context(patch.object(steps.Probe, "run", noted))
        stack.enter_context(patch.object(DropProbing, "joins", looked))
        assert not running.step({**none, "O": np.arange(100) % 5, "H": np.array([78])})
    assert looks and 300 <= most <= 300 * 100
