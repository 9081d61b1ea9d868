"""Active and lazy invalidation (the earlier text, 3.1 and 3.2): by the text's formulas, and in the engine.

Rows of A probe the window of B. The formulas have the weights and rates of figure 2 of the text. The store
of the engine gets a row of B in each step, and is probed in one step of several; what is timed is what the
store and its index do for it.
"""

from __future__ import annotations

from time import thread_time

import numpy as np
import pyarrow as pa

from bench.paper.figure import Claim, Figure, Row, Scale
from penstock.cost.invalidation import invalidations, lazy_cost
from penstock.cost.model import HASH, SCAN, Direction, Weight
from penstock.engine.kernels.probing import EVERYTHING
from penstock.engine.synopses.invalidation import INVALIDATIONS
from penstock.engine.synopses.store import KeyOf, Store
from penstock.engine.synopses.stub import Stub

RATIOS = (1, 2, 5, 10, 20, 50, 100)
WINDOW = 600
RATE_A = 10.0
WEIGHTS = {"none": Weight(0.5, 0.5), "hash": Weight(0.65, 0.65)}
STEPS = 6_000
SCHEMA = pa.schema([("k", pa.int64())])
TURNS = 2
CLEARLY = 0.1
"""Times that differ by less have no order."""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    running(10, "lazy", 50)
    for ratio in scale.some(RATIOS):
        direction = Direction(RATE_A, 60 * ratio * RATE_A, ratio * RATE_A)
        formulas = {"active": direction.cost, "lazy": lambda m, w, d=direction: lazy_cost(d, m, w)}
        steps = scale.tuples(STEPS)
        turns = [{p: running(ratio, p, steps) for p in formulas} for _ in range(TURNS)]
        for policy, formula in formulas.items():
            seconds = min(turn[policy][0] for turn in turns)
            _, held, made, results = turns[0][policy]
            rows.append(
                {"arrivals_a_probe": ratio, "microseconds_a_row": 1e6 * seconds / steps, "rows_held": held,
                 "invalidations": made, "results": results, "nested_loops_by_formula": formula(SCAN, WEIGHTS),
                 "hash_by_formula": formula(HASH, WEIGHTS),
                 "chosen": next(iter(invalidations(steps, steps / ratio, steps, WINDOW))),
                 "algorithm": policy}
            )  # fmt: skip
    return rows


def running(ratio: int, policy: str, steps: int) -> tuple[float, int, int, int]:
    """CPU seconds, the most rows held, invalidations and results."""
    store, random = Store(SCHEMA, stored=()), np.random.default_rng(1)
    stub = Stub(store, {"k": "k"}, [KeyOf("value", "k")])
    stub.prefer(INVALIDATIONS[policy])
    index = store.index((stub.keys[0],), "hash")
    keys, asked = random.integers(0, WINDOW, steps), random.integers(0, WINDOW, steps)
    columns, known = [pa.array(keys[i : i + 1]) for i in range(steps)], np.ones(1, np.bool_)
    held = results = 0
    began = thread_time()
    for step in range(steps):
        now = np.array([step])
        stub.read(store.insert(now, now + WINDOW, [], [columns[step]]))
        if step % ratio == 0:
            store.probed()
            results += len(index.probe(store, asked[step : step + 1], known, now, now + 1, EVERYTHING)[0])
        stub.advance(step)
        held = max(held, len(store))
    return thread_time() - began, held, store.invalidations, results


def claims(rows: list[Row]) -> list[Claim]:
    by = {(float(r["arrivals_a_probe"]), str(r["algorithm"])): r for r in rows}
    ratios = sorted({ratio for ratio, _ in by})

    def over(what: str) -> list[float]:
        return [float(by[r, "active"][what]) / float(by[r, "lazy"][what]) for r in ratios]

    def told(values: list[float], digits: int = 2) -> str:
        return ", ".join(f"{r:g}: {v:.{digits}f}" for r, v in zip(ratios, values, strict=True))

    time, held = over("microseconds_a_row"), [1 / v for v in over("rows_held")]
    nested, hashed = over("nested_loops_by_formula"), over("hash_by_formula")
    same = all(by[r, "active"]["results"] == by[r, "lazy"]["results"] for r in ratios)
    fewer = over("invalidations")
    picked = {r: str(by[r, "active"]["chosen"]) for r in ratios}
    return [
        Claim("lazy invalidation may improve the overall cost: measured (ours: at the most arrivals a probe)",
              f"active over lazy: {told(time)}", time[-1] > 1),
        Claim("by the text's formulas, nested loops", f"active over lazy: {told(nested, 5)}",
              min(nested) >= 1 and nested[-1] > 1),
        Claim("by the text's formulas, hash", f"active over lazy: {told(hashed, 5)}", hashed[-1] > 1,
              "with one weight for reading and for changing a tuple, what is removed by a probe costs what "
              "an "
              "invalidation of its own costs"),
        Claim("it requires more memory", f"rows held, lazy over active: {told(held)}", held[-1] > 1),
        Claim("fewer invalidations are made", f"active over lazy: {told(fewer)}", fewer[-1] > 1),
        Claim("results do not depend on it", "yes" if same else "no", same),
        Claim("the cheaper one is chosen (our goal)",
              f"lazy from {min((r for r in ratios if picked[r] == 'lazy'), default=0):g} arrivals a probe on",
              all((time[i] > 1) == (picked[r] == "lazy")
                  for i, r in enumerate(ratios) if abs(time[i] - 1) > CLEARLY)),
    ]  # fmt: skip


FIGURE = Figure("kang early lazy", "active and lazy invalidation", "arrivals_a_probe",
                ("microseconds_a_row", "rows_held", "nested_loops_by_formula", "hash_by_formula"), measure,
                claims, log_x=True,
                notes=("The text has no figure of this; its formula for lazy invalidation is damaged and is "
                       "derived anew in `cost/invalidation.py`.",))  # fmt: skip
