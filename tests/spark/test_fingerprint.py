"""Which queries may go on from which checkpoint."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import Input, InputOptions
from penstock.errors import CatalogError
from penstock.plan import compile
from penstock.settings import Settings
from penstock.spark.driver.checkpoint import fingerprint
from penstock.spark.relay.fingerprint import Fingerprint, check_all

ROW = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.int64())])
JOIN = "SELECT ISTREAM(L.k, R.v AS w) FROM L [RANGE 9], R [RANGE 9], M [ROWS 3] WHERE L.k = R.k AND M.k = R.k"
WHERE = " AND L.v > 1"


def of(query: str, partitions: int = 2, filters: str = "a-greedy", **stream: int) -> list[Fingerprint]:
    options = InputOptions(timestamp="t", **stream)
    catalog = {name: Input(name, ROW, options) for name in "LRM"}
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


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            JOIN.replace("[RANGE 9], M", "[RANGE 8], M"),
            "it has 'seq-window [RANGE 9] of R', and this one 'seq-window [RANGE 8] of R'",
        ),
        (JOIN + WHERE, "this one 'spark L: columns k; filter L.v > 1 in Catalyst"),
        (JOIN.replace("L.", "A.").replace("L [", "L A ["), "it calls stream L 'L' where this one calls it"),
        (JOIN.replace("ISTREAM", "DSTREAM"), "'i-stream net per instant of L, R, M', and this one 'd-stream"),
    ],
)
def test_a_refusal_says_what_is_another(query: str, said: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(said)):
        check_all(of(query), of(JOIN))


def test_a_refusal_tells_declarations_and_partitions() -> None:
    before = "TIMESTAMP BY t IN SECONDS"
    with pytest.raises(CatalogError, match=f"stream L had {before}, and now has {before} DISORDER 3 SECONDS"):
        check_all(of(JOIN, skew=3), of(JOIN))
    grouped = "SELECT k, COUNT(*) FROM L [RANGE 3] GROUP BY k"
    with pytest.raises(CatalogError, match=r"written with 3 partitions and this query has 2; connect with"):
        check_all(of(grouped), of(grouped, partitions=3))
    with pytest.raises(CatalogError, match="it has 2 stages, and this one 1"):
        check_all(of(JOIN)[:1], of(JOIN) * 2)


def test_declarations_and_partitions_matter() -> None:
    assert of(JOIN, skew=1) != of(JOIN)
    grouped = "SELECT k, COUNT(*) FROM L [RANGE 3] GROUP BY k"
    assert of(grouped, partitions=3) != of(grouped)
