"""Every partition knows its share of a stage's rows, and all shares together are one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.engine import Engine
from penstock.engine.input_manager import Progress
from penstock.engine.settings import SHARES_MEMORY_ROWS
from penstock.engine.stage import TS, Arrival
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Property, measured
from penstock.schema import TimeDomain

EQUAL = "SELECT A.n FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k"
BAND = "SELECT ISTREAM(A.n) FROM A [RANGE 5], B [RANGE 5] WHERE A.k < B.k"
PLACES = "SELECT A.n FROM A [ROWS 5], B [RANGE 5] WHERE A.k = B.k"
GROUPS = "SELECT k, COUNT(*) AS c FROM A [RANGE 5] GROUP BY k"


def rows(seed: int, steps: int) -> dict[str, list[Any]]:
    """One key has half of A."""
    random = np.random.default_rng(seed)
    keys = {"A": np.where(random.random(steps) < 0.5, 3, random.integers(0, 50, steps)),
            "B": random.integers(0, 50, steps)}  # fmt: skip
    return {n: [(t, {"k": int(k), "n": t}) for t, k in enumerate(ks)] for n, ks in keys.items()}


def engines(query: str, partitions: int, data: dict[str, list[Any]]) -> list[Engine]:
    finite = read_inputs(data, {}, TimeDomain("integer", "seconds"))
    plan = plan_of(query, finite.catalog(), [], partitions)
    run = InProcessRun(plan, finite.tables)
    for part in finite.slices(4):
        run.step({n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows})
    return run.engines[0]


def share(engine: Engine) -> float:
    return next(iter(engine.groups.values())).inputs.progress.share


@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
@pytest.mark.parametrize("query", [EQUAL, BAND, PLACES, GROUPS])
def test_shares_are_the_parts_of_the_rows_and_sum_to_one(query: str, partitions: int) -> None:
    found = engines(query, partitions, rows(1, 300))
    assert sum(map(share, found)) == pytest.approx(1)
    received = [measured(e.measure()).total(Property.RECEIVED) for e in found]
    for engine, own in zip(found, received, strict=True):
        assert share(engine) == pytest.approx(own / sum(received), rel=0.01)


def test_a_heavy_key_makes_a_large_share() -> None:
    assert max(map(share, engines(EQUAL, 4, rows(1, 300)))) > 0.4


def test_a_share_follows_the_stream() -> None:
    progress, batch = Progress(), pa.record_batch({TS: pa.array(range(SHARES_MEMORY_ROWS))})
    progress.count([Arrival("S", 0, batch, total=SHARES_MEMORY_ROWS)])
    assert progress.share == 1
    progress.count([Arrival("S", 0, None, total=SHARES_MEMORY_ROWS)])
    assert progress.share == pytest.approx(np.exp(-1) / (np.exp(-1) + 1))
    assert progress.copy().share == progress.share


def test_an_engine_that_is_rebuilt_knows_its_share() -> None:
    engine = engines(EQUAL, 4, rows(1, 300))[0]
    again = Engine(engine.stage)
    again.restore_header(engine.header())
    assert 0 < share(again) < 1
    again = Engine(engine.stage)
    again.restore(engine.snapshot().data)
    assert share(again) == share(engine)


def test_what_nobody_counted_is_all_its_own() -> None:
    progress = Progress()
    assert progress.share == 1
    progress.count([Arrival("S", 0, pa.record_batch({TS: pa.array([1, 2])}))])
    assert progress.share == 1
