"""Which queries may go on from which checkpoint."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import Input, InputOptions, TableDef
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


WIDE = ROW.set(1, pa.field("v", pa.int32()))
TABLE = pa.schema([("k", pa.int64()), ("w", pa.int64())])


def changed(query: str, row: pa.Schema = ROW, table: pa.Schema = TABLE, **settings: Any) -> list[Fingerprint]:
    """With other columns of streams and tables, and other settings."""
    catalog: dict[str, Any] = {name: Input(name, row, InputOptions(timestamp="t")) for name in "LR"}
    catalog |= {"U": TableDef("U", table), "F": cql.define_function("F", lambda v: v, "BIGINT")}
    catalog |= {"G": cql.define_function("G", lambda v: v, "BIGINT")}
    plan = compile(cql.bind(query, catalog), 2, Settings(**settings))
    return [fingerprint(stage, number) for number, stage in enumerate(plan.stages)]


SELF = "SELECT A.k, B.v AS w FROM L [RANGE 4] AS A, L [RANGE 2] AS B WHERE A.k = B.k AND A.v < B.v"
GROUPED = "SELECT k, SUM(v) AS s FROM L [RANGE 9] GROUP BY k"
CHANGES = [
    (GROUPED, GROUPED, {"row": WIDE}, "column L.v was INT, and now is BIGINT"),
    (
        GROUPED,
        GROUPED.replace("[RANGE 9]", "[RANGE 8]"),
        {},
        "it has 'seq-window [RANGE 8] of L', and this one",
    ),
    (
        SELF,
        SELF.replace("L [RANGE 4] AS A, L [RANGE 2] AS B", "L [RANGE 2] AS B, L [RANGE 4] AS A"),
        {},
        "it has 'spark B: columns k, v",
    ),
    (GROUPED, GROUPED.replace("SUM(v)", "MAX(v)"), {}, "it has 'project L.k AS k, MAX(L.v) AS s of L'"),
    (GROUPED, GROUPED.replace("k", "v"), {}, "columns v; to 2 partitions by hash of L.v'"),
    (GROUPED, f"{GROUPED} HAVING COUNT(*) > 1", {}, "it has 'select COUNT(*) > 1 of L'"),
    (
        "SELECT F(v) AS f FROM L [ROWS 2]",
        "SELECT G(v) AS f FROM L [ROWS 2]",
        {},
        "it has 'project G(L.v) AS f",
    ),
    (
        "SELECT L.v, U.w FROM L [RANGE 9], U WHERE L.k = U.k",
        "SELECT L.v, U.w FROM L [RANGE 9], U WHERE L.k = U.k",
        {"table": TABLE.set(1, pa.field("w", pa.string()))},
        "column U.w was STRING, and now is BIGINT",
    ),
]


@pytest.mark.parametrize(("query", "before", "how", "said"), CHANGES)
def test_a_refusal_says_what_differs(query: str, before: str, how: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(said)):
        check_all(changed(query), changed(before, **how))


def test_a_refusal_tells_what_explain_does_not_show() -> None:
    one, other = changed(GROUPED), changed(GROUPED)
    details = tuple((n, "other" if n.startswith("size") else v) for n, v in one[0].details)
    other[0] = replace(other[0], plan="another", details=(("size of seq-window 0", "1"), *details))
    own = replace(one[0], details=(("size of seq-window 0", "2"), *one[0].details))
    with pytest.raises(CatalogError, match="another query: size of seq-window 0 was 1, and now is 2; start"):
        check_all([own, *one[1:]], other)


def test_declarations_and_partitions_matter() -> None:
    assert of(JOIN, skew=1) != of(JOIN)
    grouped = "SELECT k, COUNT(*) FROM L [RANGE 3] GROUP BY k"
    assert of(grouped, partitions=3) != of(grouped)
