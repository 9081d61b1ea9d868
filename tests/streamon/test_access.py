"""Access methods change where rates and windows say so, and only there; what is found does not change."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.cost.model import PAPER, ByCost
from penstock.cost.weights import SHIPPED
from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, StartContext
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.mjoin import JoinOperator
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.measurement import Kind, Property, measured
from penstock.streamon.access import AdaptiveAccess
from penstock.streamon.settings import AccessThresholds

METHODS = ("hash", "b+tree", "t-tree", "none")


def access(period: int = 100, margin: float = 1.2) -> AdaptiveAccess:
    return AdaptiveAccess(METHODS, ByCost(PAPER), AccessThresholds(period, margin))


def test_changes_at_the_crossover_of_equation_8() -> None:
    """Without a margin: 13.6 / (3 W - 55) probes an update, 0.0094 for a window of 500."""
    for probes, wanted in ((105, "hash"), (80, "none")):
        choice = access(period=10_000, margin=1.0)
        choice.methods = ("hash", "none")
        for _ in range(5):
            choice.probed(probes, 500)
            choice.reconsider(10_000, 500)
        assert choice.method == wanted


def test_a_margin_keeps_it_from_thrashing() -> None:
    choice, switches = access(period=10_000, margin=1.2), 0
    choice.methods = ("hash", "none")
    for turn in range(40):
        choice.probed(105 if turn % 2 else 85, 500)
        switches += choice.reconsider(10_000, 500) is not None
    assert switches == 0


def test_changes_are_logged_with_their_statistics() -> None:
    choice = access()
    choice.probed(1, 300)
    assert choice.reconsider(5_000, 300) == "none"
    found = measured(choice.measure())
    assert found.text(Property.METHOD) == "none"
    decision = found.entity("1")
    assert (decision.value(Property.DECIDED_AT), decision.text(Property.DECIDED_AT)) == (5001, "none")
    assert decision.values(Property.STATISTIC) == {"probes": 1, "updates": 5000, "window": 300}
    assert next(iter(found.values(Property.COST))) == "none"


def test_without_costs_the_first_is_kept() -> None:
    choice = AdaptiveAccess(METHODS, None)
    assert choice.reconsider(10**6, 10) is None
    assert choice.method == "hash"


def schema(*names: str) -> pa.Schema:
    return pa.schema([(n, pa.int64()) for n in names])


def join() -> JoinOperator:
    parts = [
        SeqWindow(Source(n, schema(f"{n}.k", f"{n}.v")), "range", 2, (), "[RANGE 2]") for n in ("A", "B")
    ]
    node = BinaryJoin(
        tuple(parts), ("A", "B"), (((0, "A.k"), (1, "B.k")),), (), ("A.v", "B.v"), chooser=ByCost(SHIPPED)
    )
    operator = node.start(StartContext())
    assert isinstance(operator, JoinOperator)
    return operator


def arrivals(name: str, count: int, now: int, random: np.random.Generator) -> Chunk:
    ts = np.full(count, now)
    columns = [pa.array(random.integers(0, 100, count)), pa.array(np.arange(count))]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema(f"{name}.k", f"{name}.v"))
    return Chunk.of(ts, batch, end=ts + 3)


def test_each_direction_follows_its_own_rates() -> None:
    """A slow, B fast: nobody keeps an index on B, all probe one on A. Then the reverse."""
    operator, random, now = join(), np.random.default_rng(0), 0
    methods = []
    for rates in ((1, 400), (400, 1)):
        for _ in range(200):
            chunks = [arrivals(n, c, now, random) for n, c in zip("AB", rates, strict=True)]
            operator.run(chunks, Clock(now, now + 1, 0))
            now += 1
        entities = measured(operator.measure()).by_entity().values()
        by = {own.text(Property.DESCRIPTION): own for own in entities}
        methods.append(tuple(by[which].text(Property.METHOD) for which in ("A by A.k", "B by B.k")))
    assert methods[0][1] == "none"
    assert methods[0][0] != "none"
    assert methods[1][0] == "none"
    assert methods[1][1] != "none"
    assert by["A by A.k"].value(Property.CHANGES) >= 1


def test_the_same_input_makes_the_same_choices() -> None:
    logs = []
    for _ in range(2):
        operator, random = join(), np.random.default_rng(1)
        for now in range(60):
            chunks = [arrivals("A", 1 + now % 3, now, random), arrivals("B", 300, now, random)]
            operator.run(chunks, Clock(now, now + 1, 0))
        logs.append(list(measured(operator.measure()).of_kind(Kind.DECISION)))
    assert logs[0] == logs[1]
    assert logs[0]


@pytest.mark.parametrize("predicate", ["S.a = T.a", "S.a BETWEEN T.a - 1 AND T.a + 1"])
def test_results_across_a_change(predicate: str) -> None:
    """Rates turn round in the middle: enough rows for the methods to change."""
    slow = [(t, {"a": t % 7}) for t in range(0, 40, 8)]
    fast = [(t, {"a": (t * 31 + n) % 11}) for t in range(40) for n in range(60)]
    rows = {"S": [*slow, *((t + 40, r) for t, r in fast)], "T": [*fast, *((t + 40, r) for t, r in slow)]}
    got = penstock.evaluate(f"SELECT COUNT(*) AS n FROM S [RANGE 5], T [RANGE 5] WHERE {predicate}", rows)
    near = 1 if "BETWEEN" in predicate else 0
    for τ in (7, 39, 42, 60, 79):
        alive = {n: [r["a"] for t, r in rows[n] if τ - 5 <= t <= τ] for n in "ST"}
        expected = sum(abs(s - t) <= near for s in alive["S"] for t in alive["T"])
        now = [r["n"] for t, op, r in got if t <= τ and op == "+"][-1]
        assert now == expected
