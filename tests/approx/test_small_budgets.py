"""Random joins with too small a budget: they return a part of the results, and count the rows they lost."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import local_host
import pytest
from local_host import Manner
from longer import sized
from strategies import Case

from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Property, measured
from penstock.schema import TimeDomain

WINDOWS = ("[RANGE 6]", "[RANGE 9]", "[NOW]", "[RANGE 5 SLIDE 2]")
MAXIMIZE = " MAXIMIZE RESULTS"
GOALS = ("", MAXIMIZE, f"{MAXIMIZE} USING RECENT", f"{MAXIMIZE} USING PROB", " SAMPLE CLUSTER")
PLACES = (
    "SELECT ISTREAM(A.n, B.n AS m) {join}",
    "SELECT RSTREAM(x.n, x.m) FROM (SELECT ISTREAM(A.n, B.n AS m) {join}) [NOW] AS x",
    "SELECT ISTREAM(A.n, B.n AS m, T.k) {table}",
)
TABLE = [{"k": k} for k in range(4)]


def drawn(seed: int) -> tuple[str, str, dict[str, list[Any]]]:
    """A query, its budget, and rows for it that differ from one another."""
    random = Random(seed)
    windows = [random.choice(WINDOWS[:2] + WINDOWS[3:]), random.choice(WINDOWS)]
    streams = f"A {windows[0]}, B {windows[1]}"
    within = f" WITHIN MEMORY {random.randint(2, 9)} ROWS{random.choice(GOALS)}"
    join, table = f"FROM {streams} WHERE A.k = B.k", f"FROM {streams}, T WHERE A.k = B.k AND T.k = A.k"
    text = random.choice(PLACES).format(join=f"{join}{{}}", table=f"{table}{{}}")
    rows: dict[str, list[Any]] = {}
    for name in "AB":
        stamps = sorted(random.randrange(40) for _ in range(90))
        rows[name] = [(t, {"k": random.randrange(5), "n": i}) for i, t in enumerate(stamps)]
    return text, within, {**rows, **({"T": TABLE} if " T " in text else {})}


def bag(changes: list[Any]) -> Counter[Any]:
    return Counter((t, sign, row["n"], row["m"]) for t, sign, row in changes)


@pytest.mark.parametrize("seed", range(sized(8, 16)))
@pytest.mark.some(4)
def test_a_part_of_the_results_and_what_was_lost(seed: int) -> None:
    text, within, rows = drawn(seed)
    schemas = {n: "k BIGINT" if n == "T" else "k BIGINT, n BIGINT" for n in rows}
    exact = bag(local_host.run(Case(text.format(""), rows, schemas, 50)))
    case = Case(text.format(within), rows, schemas, 50)
    cuts = (0.3, 0.6)
    some = bag(local_host.run(case, Manner(cuts=cuts)))
    assert not some - exact
    for before in (("", "rebuild", "snapshot, rebuild"), ("snapshot", "whole snapshot, rebuild", "rebuild")):
        assert bag(local_host.run(case, Manner(cuts=cuts, before=before))) == some
    assert not bag(local_host.run(case, Manner(partitions=3, cuts=cuts))) - exact
    assert lost(text.format(within), rows, schemas) > 0 or some == exact


def lost(text: str, rows: dict[str, list[Any]], schemas: dict[str, str]) -> float:
    """The rows that the join says it lost."""
    finite = read_inputs(rows, schemas, TimeDomain("integer", "seconds"))
    run = InProcessRun(plan_of(text, finite.catalog(), [], 1), finite.tables)
    for part in finite.slices(2):
        run.step(part)
    run.end(50)
    ((engine,),) = run.engines
    return measured(engine.measure()).total(Property.SHED)


@pytest.mark.parametrize("within", (" WITHIN MEMORY 100 ROWS", " WITHIN RATE 100 PER SECOND"))
def test_a_few_rows_in_a_moment_are_within_the_budget(within: str) -> None:
    """Their rate, if it went on for a second or for the length of the windows, would not be."""
    rows: dict[str, list[Any]] = {n: [(t, {"k": t % 2, "n": t}) for t in range(10)] for n in "AB"}
    query = "SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 5 SECONDS], B [RANGE 5 SECONDS] WHERE A.k = B.k"
    schemas = dict.fromkeys("AB", "k BIGINT, n BIGINT")
    exact, some = (local_host.run(Case(query + w, rows, schemas, unit="timestamps")) for w in ("", within))
    assert len(exact) == 50 and bag(some) == bag(exact)
