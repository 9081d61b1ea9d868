"""Which queries may go on from which checkpoint."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import StreamDef
from penstock.plan import compile
from penstock.schema import TimeDomain
from penstock.settings import Settings
from penstock.spark.fingerprint import Fingerprint, fingerprint

ROW = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
JOIN = "SELECT ISTREAM(L.k, R.v AS w) FROM L [RANGE 9], R [RANGE 9], M [ROWS 3] WHERE L.k = R.k AND M.k = R.k"
WHERE = " AND L.v > 1"


def of(query: str, partitions: int = 2, filters: str = "a-greedy", **stream: int) -> list[Fingerprint]:
    time = TimeDomain("integer", "seconds")
    catalog = {name: StreamDef(name, ROW, time, "t", **stream) for name in "LRM"}
    plan = compile(cql.bind(query, catalog), partitions, Settings(filters=filters))
    return [fingerprint(stage, number) for number, stage in enumerate(plan.stages)]


def test_the_same_query_has_the_same_one() -> None:
    assert of(JOIN) == of(JOIN)
    assert len(set(of("SELECT COUNT(*) FROM L [RANGE 3]"))) == len(of("SELECT COUNT(*) FROM L [RANGE 3]"))


def test_what_the_state_does_not_depend_on() -> None:
    assert of(JOIN, filters="sweep") == of(JOIN)
    assert of(JOIN.replace("AS w", "AS x")) == of(JOIN)
    assert of(JOIN.replace("ISTREAM(L.k", "ISTREAM(L.k AS key")) == of(JOIN)


@pytest.mark.parametrize(
    ("query", "other"),
    [
        (JOIN, JOIN.replace("[RANGE 9], M", "[RANGE 8], M")),
        (JOIN, JOIN.replace("R.v AS w", "M.v AS w")),
        (JOIN, JOIN.replace("ISTREAM", "DSTREAM")),
        (JOIN, JOIN + WHERE),
        (JOIN + WHERE, (JOIN + WHERE).replace("> 1", "> 2")),
    ],
)
def test_what_it_depends_on(query: str, other: str) -> None:
    assert of(query) != of(other)


def test_declarations_and_partitions_matter() -> None:
    assert of(JOIN, skew=1) != of(JOIN)
    grouped = "SELECT k, COUNT(*) FROM L [RANGE 3] GROUP BY k"
    assert of(grouped, partitions=3) != of(grouped)
