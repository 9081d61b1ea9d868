"""Active and lazy invalidation: when expired rows are freed changes what is held, never what is returned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions
from penstock.cost.invalidation import invalidations, lazy_cost
from penstock.cost.model import HASH, SCAN, Direction, Weight
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.settings import LAZY_ROOM, MIN_STORE_ROWS
from penstock.engine.stage import TS, Arrival
from penstock.engine.synopses.invalidation import ACTIVE, LAZY, agreed
from penstock.engine.synopses.store import KeyOf, Store
from penstock.engine.synopses.stub import Stub
from penstock.measurement import Property, measured
from penstock.plan import compile
from penstock.schema import TimeDomain
from penstock.settings import Settings
from penstock.streamon.invalidation import AdaptiveInvalidation
from penstock.streamon.settings import INVALIDATION

TIME = TimeDomain("integer", "microseconds")
QUERY = "SELECT ISTREAM(A.k AS k) FROM A [RANGE 40], B [RANGE 40] WHERE A.k = B.k"
SCHEMA = pa.schema([("k", pa.int64())])


def joined(policy: str, every: int, steps: int = 200, each: int = 4) -> tuple[int, int, Engine]:
    """Results and most rows held of a join in which a row of A comes every few steps."""
    catalog = {name: Input(name, SCHEMA, InputOptions(TIME)) for name in "AB"}
    engine = Engine(compile(bind(QUERY, catalog), 1, Settings(invalidation=policy)).stages[0].stage)
    random, results, held = np.random.default_rng(1), 0, 0
    for step in range(steps):
        counts = {"A": int(step % every == 0), "B": each}
        arrivals = [_arrival(name, step, count, random) for name, count in counts.items()]
        results += engine.step(arrivals).only.batch.num_rows
        held = max(held, sum(len(stub.store) for stub in _stubs(engine)))
    return results, held, engine


def _arrival(name: str, step: int, count: int, random: np.random.Generator) -> Arrival:
    ts = np.full(count, step)
    batch = pa.RecordBatch.from_pydict(
        {TS: pa.array(ts, pa.int64()), f"{name}.k": random.integers(0, 5, count)}
    )
    return Arrival(name, 0, batch, step, step + 1, total=count)


def _stubs(engine: Engine) -> list[Stub]:
    join = next(e.operator for e in engine.entities if "join" in e.node.name)
    return join._inputs.stubs  # type: ignore[attr-defined, no-any-return]


@pytest.mark.slow
def test_results_are_the_same_and_lazy_frees_less_often() -> None:
    runs = {policy: joined(policy, 20) for policy in ("active", "lazy", "adaptive")}
    assert len({results for results, _, _ in runs.values()}) == 1
    assert runs["active"][0] > 0
    made = {policy: _stubs(engine)[1].store.invalidations for policy, (_, _, engine) in runs.items()}
    assert made["active"] == 200
    assert made["lazy"] == 10
    assert made["lazy"] < made["adaptive"] < made["active"]
    assert runs["lazy"][1] > runs["active"][1], "lazy takes memory"


def test_the_cheaper_one_is_chosen_and_logged() -> None:
    _, _, engine = joined("adaptive", 20)
    a, b = _stubs(engine)
    assert (a.store.invalidation, b.store.invalidation) == (ACTIVE, LAZY), (
        "A's window is probed in every step"
    )
    every = measured(engine.measure()).of_operator("binary-join").by_entity()
    (found,) = (m for entity, m in every.items() if entity.endswith("/B/invalidation"))
    assert found.text(Property.INVALIDATION) == "lazy"
    assert found.value(Property.CHANGES) == 1
    costs = found.values(Property.COST)
    assert costs["lazy"] < costs["active"]
    assert [s.store.invalidation for s in _stubs(joined("adaptive", 1)[2])] == [ACTIVE, ACTIVE]


@pytest.mark.parametrize("policy", ["active", "lazy"])
def test_a_policy_can_be_forced(policy: str) -> None:
    found = [s.store.invalidation.name for s in _stubs(joined(policy, 1, 3)[2])]
    assert found == [policy, policy]


def test_a_window_that_nobody_probes_does_not_grow() -> None:
    _, held, _ = joined("lazy", 10_000, steps=300, each=50)
    live = 41 * 50 + 1
    assert held <= LAZY_ROOM * live + MIN_STORE_ROWS + 50
    assert joined("lazy", 10_000, steps=300, each=1)[1] <= MIN_STORE_ROWS + 1


def test_readers_of_one_store_must_agree() -> None:
    assert agreed([None, None]) is ACTIVE
    assert agreed([None, LAZY]) is LAZY
    assert agreed([ACTIVE, LAZY]) is ACTIVE
    store = Store(SCHEMA, stored=())
    one, two = (Stub(store, {"k": "k"}, [KeyOf("value", "k")]) for _ in range(2))
    one.prefer(LAZY)
    assert store.invalidation is LAZY
    two.prefer(ACTIVE)
    assert store.invalidation is ACTIVE
    store.detach(two)
    assert store.invalidation is LAZY


def test_what_was_postponed_is_freed_before_a_probe() -> None:
    store = Store(SCHEMA, stored=())
    stub = Stub(store, {"k": "k"}, [KeyOf("value", "k")])
    stub.prefer(LAZY)
    for step in range(5):
        stub.read(store.insert(np.array([step]), np.array([step + 2]), [], [pa.array([1])]))
        stub.advance(step)
    assert len(store) == 5
    store.probed()
    assert (store.base, len(store)) == (2, 3), "rows that end before instant 4 are gone"
    made = store.invalidations
    store.probed()
    assert store.invalidations == made, "once per step"


def test_the_formulas() -> None:
    """The earlier text's C(NLJ) and C(HJ), lazy, for λa = 10, λb = 80, B = 4,800 (its figure 2)."""
    direction = Direction(10, 4_800, 80)
    nested, hashed = Weight(0.5, 0.5), Weight(0.65, 0.65)
    weights = {"none": nested, "hash": hashed}
    assert direction.cost(SCAN, weights) == pytest.approx((10 * 4_800 + 2 * 80) * 0.5)
    assert lazy_cost(direction, SCAN, weights) == pytest.approx((10 * (4_800 + 3 + 1) + 80) * 0.5)
    bucket = HASH.probe(4_800)
    assert direction.cost(HASH, weights) == pytest.approx((10 * bucket + 2 * 80) * 0.65)
    assert lazy_cost(direction, HASH, weights) == pytest.approx((10 * (bucket + 8) + 80) * 0.65)
    equal = Direction(10, 600, 10)
    assert lazy_cost(equal, SCAN, weights) == equal.cost(SCAN, weights), "one tuple expires per probe"


def test_the_costs_of_the_engine() -> None:
    assert next(iter(invalidations(100, 5, 400, 1_000))) == "lazy"
    same = invalidations(100, 100, 400, 1_000)
    assert same["lazy"] == same["active"]
    # 400 rows fill the room of a window of 10 rows again and again.
    assert invalidations(100, 0, 400, 10)["lazy"] > invalidations(100, 5, 400, 1_000)["lazy"]


def test_the_choice_follows_the_stream() -> None:
    from penstock.cost.model import ByCost

    choice = AdaptiveInvalidation(ByCost({}))
    for _ in range(INVALIDATION.period):
        choice.stepped(False, 10, 100)
    assert choice.policy == "lazy"
    for _ in range(4 * INVALIDATION.period):
        choice.stepped(True, 10, 100)
    assert choice.policy == "active"
    assert choice.log.count == 2
