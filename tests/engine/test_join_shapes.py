"""mjoin over join graphs of every shape of thesis figure 5.3: the oracle's result, however plans change."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from checking import check, expect
from restless import JOINS, PLANNERS, planned_by
from strategies import Case

from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Kind, Property, measured
from penstock.plan import compile
from penstock.settings import CHOICES, Settings

SHAPES = {
    "acyclic": (
        6,
        "R1.a = R2.a AND R1.b = R3.b AND R3.a = R4.a AND R3.c = R5.c AND R5.a = R6.a",
    ),
    "star": (4, "R1.a = R2.a AND R1.b = R3.b AND R1.c = R4.c"),
    "chain": (4, "R1.a = R2.a AND R2.b = R3.b AND R3.c = R4.c"),
    "one key": (4, "R1.a = R2.a AND R2.a = R3.a AND R3.a = R4.a"),
    "triangle": (3, "R1.a = R2.a AND R2.b = R3.b AND R3.c = R1.c"),
    "cycle": (4, "R1.a = R2.a AND R2.b = R3.b AND R3.c = R4.c AND R4.b = R1.b"),
    "two keys": (3, "R1.a = R2.a AND R1.b = R2.b AND R2.c = R3.c"),
    "words": (4, "R1.s = R2.s AND R2.s = R3.s AND R2.b = R4.b"),
    "with a predicate": (4, "R1.a = R2.a AND R2.b = R3.b AND R3.c < R4.c AND R1.b <> R3.a"),
    "loosely linked": (4, "R1.a = R2.a AND R1.b = R3.b AND R4.c > R1.c"),
}
WINDOWS = ("[ROWS 3]", "[RANGE 4]", "[ROWS 2]", "[NOW]", "[RANGE 8]", "[ROWS 5]")


def case(shape: str, windows: int) -> Case:
    inputs, where = SHAPES[shape]
    random = Random(f"{shape}{windows}")
    kinds = WINDOWS if windows == 2 else [w for w in WINDOWS if ("RANGE" in w) == bool(windows)]
    sources = [f"R{i} {random.choice(kinds)}" for i in range(1, inputs + 1)]
    shown = ", ".join(f"R{i}.{random.choice('abc')} AS c{i}" for i in range(1, inputs + 1))
    rows = {f"R{i}": [_element(random) for _ in range(14)] for i in range(1, inputs + 1)}
    schemas = dict.fromkeys(rows, "a BIGINT, b BIGINT, c BIGINT, s STRING")
    return Case(f"SELECT {shown} FROM {', '.join(sources)} WHERE {where}", rows, schemas)


def _element(random: Random) -> tuple:
    row = {c: random.choice((0, 1, 1, 2, None) if c == "b" else (0, 1)) for c in "abc"}
    return random.randrange(12), {**row, "s": random.choice("xy")}


@pytest.mark.share(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("windows", (2, *(pytest.param(w, marks=pytest.mark.slow) for w in (0, 1))))
@pytest.mark.some(4)
def test_the_result_is_the_oracles(shape: str, windows: int) -> None:
    drawn = case(shape, windows)
    expected = expect(drawn)
    for planner, joins in [*((p, "as set") for p in PLANNERS), *(("as set", j) for j in JOINS)]:
        with planned_by(planner, joins):
            check(drawn, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_plan_of_joins_has_the_same_result(shape: str) -> None:
    drawn = case(shape, 2)
    expected = expect(drawn)
    for join in CHOICES["join"]:
        check(replace(drawn, cql=f"SET penstock.join = '{join}'; {drawn.cql}"), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_there_is_something_to_check(shape: str) -> None:
    assert any(expect(case(shape, windows)) for windows in (0, 1, 2))


def test_output_generation_repeats_no_probe() -> None:
    catalog = {
        name: Input(name, pa.schema([(c, pa.int64()) for c in columns]))
        for name, columns in {"R1": "ab", "R2": "a", "R3": "b"}.items()
    }
    query = "SELECT R1.a FROM R1 [RANGE 9], R2 [RANGE 9], R3 [RANGE 9] WHERE R1.a = R2.a AND R1.b = R3.b"
    engine = Engine(compile(bind(query, catalog), 1, Settings("static")).stages[0].stage)
    arrivals = []
    for name, rows in {"R1": [{"a": 1, "b": 1}], "R2": [{"a": 1}] * 3, "R3": [{"b": 1}] * 2}.items():
        columns = {f"{name}.{c}": pa.array([r[c] for r in rows]) for c in rows[0]}
        batch = pa.RecordBatch.from_pydict({TS: pa.array([1] * len(rows)), **columns})
        arrivals.append(Arrival(name, 0, batch, 1, 20))
    engine.step(arrivals)
    join = measured(engine.measure()).of_operator("mjoin").of_kind(Kind.OPERATOR)
    # R1 finds nothing in R2 yet; each row of R2 finds R1, which finds nothing in R3 yet; each row of R3
    # finds R1, which finds R2. The three rows of R2 are read on from the first.
    assert (join.value(Property.PROBES), join.value(Property.ELEMENTS)) == (1 + 3 * 2 + 2 * 2, 6)
