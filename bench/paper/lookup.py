"""What the thesis's filter, ``x IN (SELECT ... [ROWS 10000])``, takes in Penstock's own engine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.measurement import Property, measured
from penstock.plan import compile
from penstock.streamon.framework import PROCESSING

FILTERS = 4
ROWS = 10_000
TUPLES = 1 << 17
STEPS = 8
SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.int64())])


@cache
def seconds() -> float:
    """CPU time of a look-up of a tuple, among filters that let half of all through."""
    names = [f"R{n}" for n in range(FILTERS)]
    catalog = {name: Input(name, SCHEMA, InputOptions(timestamp="t")) for name in ("S", *names)}
    filters = " AND ".join(f"x IN (SELECT x FROM {name} [ROWS {ROWS}])" for name in names)
    plan = compile(bind(f"SELECT ISTREAM(x) FROM S [NOW] WHERE {filters}", catalog), 1)
    stage = plan.stages[0].stage
    engine, random = Engine(stage), np.random.default_rng(1)
    for step in range(STEPS):
        engine.step(
            [_arrival(i.name, i.schema, TUPLES if i.name.startswith("S") else ROWS, step, random)
             for i in stage.inputs]
        )  # fmt: skip
    join = measured(engine.measure()).of_operator("mjoin")
    (order,) = [own for entity, own in join.by_entity().items() if entity.endswith("/S/order")]
    return order.values(Property.CPU_SECONDS)[PROCESSING] / order.value(Property.EVALUATIONS)


def _arrival(name: str, schema: pa.Schema, rows: int, step: int, random: np.random.Generator) -> Arrival:
    x = pa.array(random.integers(0, 2 * ROWS, rows))
    batch = pa.RecordBatch.from_pydict({TS: pa.array(np.full(rows, step)), **{f.name: x for f in schema}})
    return Arrival(name, 0, batch, step, step + 1)
