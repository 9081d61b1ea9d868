"""What a query returns depends neither on how its input is cut into batches nor on the number of partitions.

Queries of every kind read two streams of nine files each, with one, three or all files a batch and on one or
three partitions. Rows come up to two ticks out of order, as declared. Rows that break the declaration may
come in time or too late, which depends on their batch: they have a key of their own, and no result of another
key is touched by it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import local_host
import pytest
from checking import expect
from local_host import Manner
from oracle import assert_same, normalise
from strategies import Case

FILES, ROWS, SKEW, LATE = 9, 4, 2, 9
"""Files of a stream, rows of a file, the declared disorder in ticks, and the key of rows that break it."""
JOIN = "FROM A [RANGE 4], B [RANGE 3] WHERE A.k = B.k"
QUERIES = {
    "filter": "SELECT k, v FROM A WHERE v > 2",
    "time window": "SELECT k, v FROM A [RANGE 4]",
    "istream of now": "SELECT ISTREAM(k) FROM A [NOW]",
    "istream all": f"SELECT ISTREAM ALL(A.k, B.v AS w) {JOIN}",
    "istream of a join": f"SELECT ISTREAM(A.k, A.v < 3 AS low) {JOIN}",
    "istream with timestamps": f"SELECT ISTREAM(A.k, A.ts, B.ts AS other) {JOIN}",
    "dstream of a join": f"SELECT DSTREAM(A.k, A.v) {JOIN}",
    "rstream": "RSTREAM(SELECT k, v FROM A [RANGE 2]) EVERY 3 SECONDS",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean FROM A [RANGE 5] GROUP BY k",
    "groups of a join": f"SELECT A.k, MAX(B.v) AS top, MIN(A.v) AS low {JOIN} GROUP BY A.k",
    "order statistics": "SELECT k, MEDIAN(v) AS m, COUNT(DISTINCT v) AS n FROM A [RANGE 6] GROUP BY k",
    "having": "SELECT k, COUNT(*) AS n FROM A [RANGE 4] GROUP BY k HAVING COUNT(*) > 1",
    "tumbling": "SELECT ISTREAM(k, window_end, COUNT(*) AS n) FROM A [TUMBLE 5] GROUP BY k, window_end",
    "hopping": "SELECT k, window_start, SUM(v) AS s FROM A [HOP 5 EVERY 2] GROUP BY k, window_start",
    "session": "SELECT ISTREAM(k, window_start, COUNT(*) AS n) FROM A [SESSION 2 PARTITION BY k] "
               "GROUP BY k, window_start",
    "sliding": "SELECT k, v FROM A [RANGE 5 SLIDE 2]",
    "last row of a key": "SELECT k, v FROM A [PARTITION BY k ROWS 1]",
    "dstream of rows": "SELECT DSTREAM(k, v) FROM A [PARTITION BY k ROWS 2]",
    "rows joined": "SELECT A.k, A.v, B.v AS w FROM A [PARTITION BY k ROWS 2], B [RANGE 3] WHERE A.k = B.k",
    "distinct": "SELECT DISTINCT k, v FROM A [RANGE 4]",
    "except": "SELECT k, v FROM A [RANGE 4] EXCEPT SELECT k, v FROM B [RANGE 4]",
    "intersect": "SELECT k FROM A [RANGE 3] INTERSECT ALL SELECT k FROM B [RANGE 3]",
    "union all": "SELECT k, v FROM A [RANGE 3] UNION ALL SELECT k, v FROM B [NOW]",
    "left join": "SELECT A.k, A.v, B.v AS w FROM A [RANGE 3] LEFT JOIN B [RANGE 2] ON A.k = B.k",
    "full join": "SELECT A.k, B.k AS j FROM A [RANGE 2] FULL JOIN B [RANGE 2] ON A.k = B.k AND A.v = B.v",
    "in": "SELECT k, v FROM A [RANGE 4] WHERE k IN (SELECT k FROM B [RANGE 2])",
    "not exists": "SELECT k, v FROM A [RANGE 4] WHERE NOT EXISTS (SELECT 1 FROM B [RANGE 4] WHERE B.k = A.k)",
    "rank": "SELECT k, v, ts FROM A [RANGE 5] QUALIFY RANK() OVER (PARTITION BY k ORDER BY v DESC) = 1",
    "windows between": "SELECT ISTREAM ALL(A.k, A.v, B.v AS w) FROM A, B DWINDOW (A, B) 3 WHERE A.k = B.k",
    "table": "SELECT A.k, A.v, D.name FROM A [RANGE 2], D WHERE A.k = D.k",
    "three streams": "SELECT A.k, C.v AS x FROM A [RANGE 3], B [RANGE 3], A [RANGE 2] AS C "
                     "WHERE A.k = B.k AND B.k = C.k",
    "derived": "SELECT x.k, COUNT(*) AS n FROM (SELECT ISTREAM(k, v) FROM A [RANGE 2]) [RANGE 4] AS x "
               "GROUP BY x.k",
}  # fmt: skip
"""Each shows the key of its rows."""
OF_ALL_KEYS = {
    "row window": "SELECT k, v FROM A [ROWS 3]",
    "istream of rows": "SELECT ISTREAM(A.v, B.v AS w) FROM A [ROWS 2], B [ROWS 3] WHERE A.k = B.k",
    "aggregate": "SELECT COUNT(*) AS n, SUM(v) AS total FROM A [RANGE 4]",
    "first rows": "SELECT k, v, ts FROM A [RANGE 4] ORDER BY v DESC, ts, k LIMIT 2",
    "inequality": "SELECT A.v, B.v AS w FROM A [RANGE 2], B [RANGE 2] WHERE A.v < B.v",
}
"""Their results may have rows of several keys."""
SCHEMAS = {"A": "k INT, v INT, ts BIGINT", "B": "k INT, v INT, ts BIGINT", "D": "k INT, name STRING"}
MANNERS = [
    Manner(partitions, tuple(n / FILES for n in range(files, FILES, files)), skew=SKEW)
    for partitions in (1, 3)
    for files in (1, 3, FILES)
]


def rows(seed: int, breaks: bool) -> list[tuple[int, dict[str, Any]]]:
    """The rows of a stream as they come; with ``breaks`` some come much later than declared."""
    draw, now, found = Random(seed), 3, []
    for number in range(FILES * ROWS):
        now += draw.choice((0, 0, 1, 1, 2))
        late = breaks and number % 7 == 5
        ts = now - draw.randint(4, 9) if late else now - draw.randint(0, SKEW)
        key = LATE if late else draw.randint(0, 3)
        found.append((max(ts, 0), {"k": key, "v": draw.randint(0, 5), "ts": max(ts, 0)}))
    return found


def case(cql: str, breaks: bool = False, in_time: bool = False) -> Case:
    """A query over the streams; with ``in_time`` their rows come in the order of time."""
    table = [{"k": k, "name": f"key {k % 2}"} for k in (0, 1, 2)]
    inputs: dict[str, list[Any]] = {"A": rows(1, breaks), "B": rows(2, breaks), "D": table}
    if in_time:
        inputs |= {name: sorted(inputs[name], key=lambda row: row[0]) for name in "AB"}
    read = {
        n: s for n, s in SCHEMAS.items() if f"{n} " in cql.replace(",", " ").replace(")", " ") or n == "A"
    }
    return Case(cql, {n: inputs[n] for n in read}, read, 60)


@pytest.mark.parametrize("kind", [*QUERIES, *OF_ALL_KEYS])
def test_results_depend_on_neither_batches_nor_partitions(kind: str) -> None:
    of = case((QUERIES | OF_ALL_KEYS)[kind])
    expected = expect(of)
    assert len(expected) > 5
    for manner in MANNERS:
        assert_same(local_host.run(of, manner), expected, f"{of}\n{manner}")


@pytest.mark.parametrize("kind", QUERIES)
def test_only_results_of_rows_that_break_their_declaration_depend_on_batches(kind: str) -> None:
    of = case(QUERIES[kind], breaks=True)
    results = [Counter(map(_key, local_host.run(of, manner))) for manner in MANNERS]
    others = [Counter({r: n for r, n in found.items() if LATE not in r[2][:2]}) for found in results]
    assert len(others[0]) > 5
    for manner, found in zip(MANNERS, others, strict=True):
        assert found == others[0], f"{of}\n{manner}\n{found - others[0]}\n{others[0] - found}"


def test_such_rows_do_depend_on_batches() -> None:
    """Otherwise the test above tests nothing."""
    of = case(QUERIES["time window"], breaks=True)
    assert len({frozenset(Counter(map(_key, local_host.run(of, m))).items()) for m in MANNERS}) > 1


def _key(change: local_host.Change) -> tuple[Any, ...]:
    return change[0], change[1], normalise(change[2].values())
