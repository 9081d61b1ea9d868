"""What is declared of a stream's traffic changes where its rows go, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import oracle
import pyarrow as pa
import pytest
from checking import check_manner
from exchange_data import CATALOG, SCHEMA, data
from local_host import Manner
from strategies import Case

from penstock import evaluation
from penstock.catalog import InputOptions
from penstock.cql import bind
from penstock.engine.arrivals import SourcePartitions
from penstock.engine.engine import Engine
from penstock.engine.stage import SOURCE, Arrival, StageInput
from penstock.errors import DataError
from penstock.in_process import InProcessRun
from penstock.measurement import Property, measured
from penstock.plan import compile, explain
from penstock.routing import EVERYWHERE, Axis, Route, deliver
from penstock.schema import TimeDomain
from penstock.streamon.heavy_hitters import HeavyHitters
from penstock.streamon.settings import HEAVY_COUNTERS


def declared(**options: InputOptions) -> dict[str, Any]:
    return {n: replace(d, options=options[n]) if n in options else d for n, d in CATALOG.items()}


def spoken(query: str, catalog: dict[str, Any], partitions: int = 4) -> list[str]:
    lines = explain(compile(bind(query, catalog), partitions)).splitlines()
    return [i for i in lines if i.startswith(("spark", "stage", "exchange", "  [heavy", "  [cube"))]


HEAVY = declared(R=InputOptions(heavy=(("a", (1,)),)))
JOIN = "SELECT R.a, R.b, S.b AS sb FROM R [RANGE 5], S [RANGE 5] WHERE R.a = S.a"


def test_a_budget_is_spread_by_key_alone() -> None:
    assert "stage 1  on 4 partitions" in spoken(f"{JOIN} WITHIN MEMORY 100 ROWS", CATALOG)
    why = "WITHIN divides its budget by a join key, and no key splits both sides"
    band = f"{JOIN.replace('=', '<')} WITHIN MEMORY 100 ROWS"
    assert f"stage 1  on 1 partition: {why}" in spoken(band, CATALOG)


def test_heavy_keys_are_split() -> None:
    assert spoken(JOIN, HEAVY) == [
        "spark    R: columns a, b; to 4 partitions by hash of R.a, of 1 by row",
        "spark    S: columns a, b; to 4 partitions by hash of S.a, of 1 to all",
        "stage 1  on 4 partitions",
        "exchange stage 1, to 4 partitions by hash of a, b, sb",
        "stage 2  on 4 partitions",
    ]


def test_or_it_is_said_why_not() -> None:
    query = "SELECT S.a, R.b FROM S [RANGE 5] LEFT JOIN R [RANGE 5] ON R.a = S.a"
    reason = "no single partition knows which rows of the left outer join have no match"
    assert f"  [heavy keys of R are not split: {reason}]" in spoken(query, HEAVY)


def test_a_heavy_group_is_aggregated_in_parts() -> None:
    lines = spoken("SELECT a, COUNT(*) AS n FROM R [RANGE 5] GROUP BY a", HEAVY)
    assert lines[0] == "spark    R: columns a; to 4 partitions by row"
    assert lines[-1] == "stage 2  on 4 partitions"


@pytest.mark.parametrize(
    "query",
    [
        JOIN,
        "SELECT R.b, S.b AS sb FROM R [ROWS 4], S [ROWS 3] WHERE R.a = S.a",
        "SELECT R.b, S.b AS sb FROM R [PARTITION BY a ROWS 2], S [RANGE 5] WHERE R.a = S.a",
        "SELECT COUNT(*) FROM R [RANGE 5], S [RANGE 5], T [RANGE 5] WHERE R.a = S.a AND S.a = T.a",
        "SELECT R.b, S.b AS sb FROM R [RANGE 5] LEFT JOIN S [RANGE 5] ON R.a = S.a",
        "SELECT a, b FROM R [RANGE 5] WHERE a IN (SELECT a FROM S [RANGE 5])",
        "SELECT a, b FROM R [RANGE 5] WHERE NOT EXISTS (SELECT * FROM S [RANGE 5] WHERE S.a = R.a)",
        "SELECT ISTREAM(R.b, S.b AS sb) FROM R, S WHERE R.a = S.a",
        "SELECT R.b FROM R [RANGE 5], S [RANGE 5], T [RANGE 5] WHERE R.a = S.a AND S.b = T.b",
    ],
)
@pytest.mark.parametrize("heavy", ["R", "S", "RS"])
@pytest.mark.some(3)
def test_heavy_keys_change_no_answer(query: str, heavy: str) -> None:
    catalog = declared(**{n: InputOptions(heavy=(("a", (1, 3)),)) for n in heavy})
    inputs = data(7)
    schemas = dict.fromkeys(inputs, SCHEMA)
    finite = evaluation.read_inputs(inputs, schemas, TimeDomain())
    plan = compile(bind(query, catalog), 4)
    assert "of 1, 3 by row" in explain(plan) or heavy != "R"
    got = evaluation._run(plan, finite, 20, 3)
    oracle.assert_same(got, oracle.evaluate(query, inputs, schemas, until=20), explain(plan))


@pytest.mark.parametrize("declares", ["S", "T"])
def test_a_heavy_zero_is_heavy_with_either_sign(declares: str) -> None:
    rows = {"S": [(1, {"x": 0.0, "n": n}) for n in range(8)], "T": [(2, {"x": -0.0, "n": 0})]}
    case = Case(
        "SELECT S.n FROM S, T WHERE S.x = T.x",
        {"S": rows[declares], "T": rows["T" if declares == "S" else "S"]},
        {"S": "x DOUBLE, n INT", "T": "x DOUBLE, n INT"},
    )
    check_manner(case, Manner(partitions=6, heavy=("S",)))


def rows_of(prop: Property, engine: Engine) -> dict[str, float]:
    """A property of an engine's inputs."""
    return measured(engine.measure()).by_name(prop)


def test_a_heavy_key_no_longer_caps_the_query() -> None:
    """Nine rows of ten have one key: its partition received nine tenths, and receives its part."""
    random = Random(1)
    rows = [(n // 50, {"a": 1 if random.random() < 0.9 else n, "b": n, "c": "x"}) for n in range(2000)]
    few = [(n, {"a": n % 5, "b": n, "c": "y"}) for n in range(40)]
    finite = evaluation.read_inputs({"R": rows, "S": few}, dict.fromkeys("RS", SCHEMA), TimeDomain())

    def busiest(catalog: dict[str, Any]) -> float:
        local = InProcessRun(compile(bind(JOIN, catalog), 4), {})
        local.step({n: t.combine_chunks().to_batches()[0] for n, t in finite.streams.items()})
        received = [rows_of(Property.RECEIVED, engine)["R"] for engine in local.engines[0]]
        assert sum(received) == len(rows)
        return max(received) / len(rows)

    assert busiest(CATALOG) > 0.85
    assert busiest(HEAVY) < 0.3


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM R [RANGE 5], S [RANGE 5] WHERE R.a < S.a",
        "SELECT R.b, S.b AS sb FROM R [ROWS 4], S [ROWS 3] WHERE R.a = S.a",
    ],
)
@pytest.mark.parametrize("partitions", [1, 4])
def test_a_late_row_is_counted_once(query: str, partitions: int) -> None:
    finite = evaluation.read_inputs(data(2), dict.fromkeys("RSTUQX", SCHEMA), TimeDomain())
    batches = {n: finite.streams[n].combine_chunks().to_batches()[0] for n in "RS"}
    local = InProcessRun(compile(bind(query, CATALOG), partitions), {})
    for _ in range(2):
        local.step(batches)
    late = [rows_of(Property.LATE, engine) for engine in local.engines[0]]
    now = measured(local.engines[0][0].measure()).value(Property.STREAM_TIME)
    for name, batch in batches.items():
        old = sum(ts < now for ts in batch.column(0).to_pylist())
        assert sum(counts.get(name, 0) for counts in late) == old > 0


def test_rates_choose_who_is_broadcast() -> None:
    query = "SELECT COUNT(*) FROM R [RANGE 5], S [RANGE 5] WHERE R.a < S.a"
    catalog = declared(R=InputOptions(rate=10000), S=InputOptions(rate=10))
    assert spoken(query, catalog)[:2] == [
        "spark    R: columns a; to 4 partitions by row",
        "spark    S: columns a; broadcast to 4 partitions",
    ]


def test_partitioned_sources_stay_as_they_are() -> None:
    both = declared(R=InputOptions(partitioned_by=("a",)), S=InputOptions(partitioned_by=("a",)))
    assert spoken(JOIN, both)[:2] == [
        "spark    R: columns a, b; to 4 partitions as the source has them by R.a",
        "spark    S: columns a, b; to 4 partitions as the source has them by S.a",
    ]
    one = declared(R=InputOptions(partitioned_by=("a",)))
    assert "by hash of R.a" in spoken(JOIN, one)[0]
    groups = "SELECT a, b, COUNT(*) AS n FROM R [RANGE 5] GROUP BY a, b"
    assert "as the source has them by R.a" in spoken(groups, one)[0]
    assert "as the source has them" not in spoken("SELECT b, COUNT(*) AS n FROM R GROUP BY b", one)[0]


def test_a_key_of_two_partitions_is_an_error() -> None:
    schema = pa.schema([("R.a", pa.int64()), (SOURCE, pa.int32())])
    inputs = [StageInput(n, schema, "keys") for n in ("R#keys0", "S#keys0")]

    def keys(name: str, source: int, *values: int) -> Arrival:
        columns = [pa.array(values, pa.int64()), pa.array([source] * len(values), pa.int32())]
        return Arrival(name, 0, pa.record_batch(columns, schema=schema))

    partitions = SourcePartitions(inputs)
    rows = Arrival("R", 0, None)
    assert partitions.check([keys("R#keys0", 0, 1, 2), keys("S#keys0", 1, 3), rows]) == [rows]
    partitions.check([keys("R#keys0", 1, 3), keys("S#keys0", 0, 2)])
    assert partitions.keys() == 3
    with pytest.raises(
        DataError, match="R.a = 2 came from partition 1 of the source and before from partition 0"
    ):
        partitions.check([keys("S#keys0", 1, 2)])


def test_rows_for_everyone_and_for_one() -> None:
    key = pa.array([5, 6, 7, 5], pa.int64())
    batch = pa.record_batch([key], names=["k"])
    route = Route((Axis(2), Axis(3, by_row=True)))
    where = np.array([EVERYWHERE, 0, 2, 1])
    got = {
        p: part.column("k").to_pylist()
        for targets, part in deliver(route, "R", batch, [where])
        for p in targets
    }
    assert got == {p: {0: [5, 6], 1: [5, 5], 2: [5, 7]}[p % 3] for p in range(6)}


def test_heavy_hitters_are_found() -> None:
    sketch, random = HeavyHitters(), Random(3)
    for _ in range(20):
        keys = [7 if random.random() < 0.4 else random.randrange(100_000) for _ in range(5000)]
        sketch.see(pa.array(keys, pa.int64()))
    parts = sketch.parts()
    assert list(parts) == ["7"]
    assert 0.4 - 1 / HEAVY_COUNTERS - 0.02 < parts["7"] < 0.42
