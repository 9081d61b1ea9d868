"""Which rows a budget keeps follows from the rows and not from the batches that they come in."""

from __future__ import annotations

from random import Random
from typing import Any

import local_host
import pytest
from local_host import Manner
from longer import sized
from strategies import Case

pytestmark = pytest.mark.slow

WINDOWS = ("A [RANGE 15], B [RANGE 6]", "A [RANGE 9], B [RANGE 9]")
ROW_WINDOWS = ("A [ROWS 30], B [RANGE 9]", "A [ROWS UNBOUNDED], B [PARTITION BY k ROWS 2]")
MEMORY = (
    "MEMORY {} ROWS",
    "MEMORY {} ROWS MAXIMIZE RESULTS",
    "MEMORY {} ROWS MAXIMIZE RESULTS USING RECENT",
    "MEMORY {} ROWS MAXIMIZE RESULTS USING PROB",
    "MEMORY {} ROWS SAMPLE UNIFORM",
    "MEMORY {} ROWS SAMPLE CLUSTER",
    "MEMORY 2 KB",
    "MEMORY 3 KB MAXIMIZE RESULTS",
    "RATE 3 PER SECOND AND MEMORY {} ROWS",
)
RATE = ("RATE 2 PER SECOND", "RATE 2 PER SECOND DROP BEFORE WINDOWS", "RATE 3 PER SECOND AT LEAST 1 EACH")


def streams(random: Random) -> dict[str, list[Any]]:
    """Instants with many rows and with none, and a time without any."""
    found: dict[str, list[Any]] = {}
    for name in "AB":
        ts, rows, gap = 0, list[Any](), random.choice([0, 0, 40, 400])
        while len(rows) < 100:
            ts += random.choice([0, 0, 0, 0, 0, 1, 1, 2]) + (gap if len(rows) == 50 else 0)
            rows.append(
                (
                    ts,
                    {
                        "k": random.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, None]),
                        "v": len(rows),
                        "s": "x" * random.randrange(20),
                    },
                )
            )
        found[name] = rows
    return found


def drawn(random: Random) -> str:
    rate = random.random() < 0.3
    windows = random.choice(WINDOWS + ROW_WINDOWS if rate else WINDOWS)
    clause = random.choice(RATE if rate else MEMORY).format(random.choice([8, 16, 30]))
    shown = random.choice(["A.v, B.v AS w, A.s", "A.v, B.v AS w"])
    if random.random() < 0.2 and not rate and "SAMPLE" not in clause:
        third = f"{windows}, C [RANGE 4] WHERE A.k = B.k AND A.k = C.k"
        return f"SELECT ISTREAM({shown}, C.v AS x) FROM {third} WITHIN {clause}"
    return f"SELECT ISTREAM({shown}) FROM {windows} WHERE A.k = B.k WITHIN {clause}"


@pytest.mark.parametrize("seed", range(sized(16, 300)))
def test_batches_and_rebuilds_change_nothing(seed: int) -> None:
    random = Random(seed)
    rows = streams(random)
    rows["C"] = [(t, r) for t, r in rows["A"][::2]]
    case = Case(drawn(random), rows, dict.fromkeys("ABC", "k BIGINT, v BIGINT, s STRING"))
    partitions = random.choice([1, 1, 2, 3])
    whole = sorted(map(str, local_host.run(case, Manner(partitions))))
    assert whole, case.cql
    for _ in range(2):
        cuts = tuple(sorted(random.random() for _ in range(random.choice([1, 3, 6]))))
        before = tuple(random.choice(["", "", "rebuild", "snapshot rebuild"]) for _ in range(len(cuts) + 2))
        manner = Manner(partitions, cuts, before, ties=random.choice(["rows", "parts"]))
        assert sorted(map(str, local_host.run(case, manner))) == whole, (case.cql, manner)
