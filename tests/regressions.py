"""Cases that once went wrong, each under a name that says how; they stay."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from strategies import Case

OPEN: dict[str, str] = {}
"""Those that still go wrong, and why; a cure takes its line away."""

REGRESSIONS: dict[str, Case] = {
    "NOT LIKE lost its NOT": Case(
        "SELECT r0.s NOT LIKE '%b' AS c0 FROM S AS r0 WHERE r0.s NOT LIKE 'c%'",
        {"S": [(0, {"s": "a"}), (1, {"s": "b"}), (2, {"s": "cb"}), (3, {"s": None})]},
        {"S": "s STRING"},
    ),
    "a table none of whose columns is used still has its rows": Case(
        "SELECT S.a AS c0 FROM S CROSS JOIN D",
        {"D": [{"a": 1}, {"a": 1}], "S": [(0, {"a": 1, "b": 1}), (0, {"a": 1, "b": 1})]},
        {"D": "a INT", "S": "a INT, b BIGINT"},
    ),
    "a snapshot before the first step has no static rows": Case(
        "SELECT r0.a AS c0 FROM S AS r0, D AS r1 WHERE r0.a = r1.a",
        {"S": [(0, {"a": 1}), (0, {"a": 1})], "D": [{"a": 1}, {"a": 1}]},
        {"S": "a INT", "D": "a INT"},
    ),
    "ISTREAM over a window beside an unbounded stream has lives without an end": Case(
        "ISTREAM(SELECT * FROM S AS r0, S [NOW] AS r1 WHERE r0.a = r1.a AND r0.a = r1.a)",
        {"S": [(0, {"a": 1}), (0, {"a": 1})]},
        {"S": "a INT"},
    ),
    "an unbounded window slides too": Case(
        "SELECT ISTREAM(r0.a AS c0) FROM S [RANGE UNBOUNDED SLIDE 2] AS r0",
        {"S": [(1, {"a": 1}), (1, {"a": 1})]},
        {"S": "a INT"},
    ),
    "an unbounded row window slides by rows": Case(
        "SELECT * FROM S [ROWS UNBOUNDED SLIDE 2] AS r0 WHERE r0.a > 0",
        {"S": [(1, {"a": 0}), (2, {"a": 1}), (3, {"a": 2}), (4, {"a": 3}), (5, {"a": 4})]},
        {"S": "a INT"},
    ),
    "a row that waited for the slide is older than its element": Case(
        "SELECT r0.a AS c0 FROM S [RANGE 5 SLIDE 2] AS r0",
        {"S": [*[(1, {"a": 1})] * 4, *[(6, {"a": 1})] * 4]},
        {"S": "a INT"},
        15,
    ),
    "so it is where the window only grows": Case(
        "SELECT r0.a AS c0 FROM U [RANGE 0 SECONDS] AS r0 CROSS JOIN S [RANGE UNBOUNDED SLIDE 2] AS r1",
        {
            "U": [(1, {"a": 1}), (3, {"a": 1}), (8, {"a": 1}), (8, {"a": 1})],
            "S": [(5, {"a": 1}), (6, {"a": 1}), (7, {"a": 1}), (12, {"a": 1})],
        },
        {"U": "a INT", "S": "a INT"},
    ),
    "a window over a derived stream of aggregates, rebuilt": Case(
        "SELECT x.n FROM (SELECT ISTREAM(COUNT(*) AS n, MAX(a) AS m) FROM S [RANGE 3]) [RANGE 5] AS x",
        {"S": [(ts, {"a": ts}) for ts in range(20)]},
        {"S": "a INT"},
    ),
    "a window over what left another, rebuilt": Case(
        "SELECT x.a FROM (SELECT DSTREAM(a) FROM S [RANGE 4]) [RANGE 5] AS x",
        {"S": [(ts, {"a": ts}) for ts in range(20)]},
        {"S": "a INT"},
    ),
    "a relation that only grows beside one that changes, rebuilt": Case(
        "RSTREAM(SELECT a FROM T [RANGE 1] WHERE a < 0 UNION ALL SELECT a FROM S)",
        {"T": [(ts, {"a": ts}) for ts in range(10)], "S": [(ts, {"a": ts}) for ts in range(10)]},
        {"T": "a INT", "S": "a INT"},
    ),
    "counted, rebuilt": Case(
        "SELECT COUNT(*) AS n FROM (SELECT a FROM T [RANGE 1] WHERE a < 0 UNION ALL SELECT a FROM S) AS u",
        {"T": [(ts, {"a": ts}) for ts in range(10)], "S": [(ts, {"a": ts}) for ts in range(10)]},
        {"T": "a INT", "S": "a INT"},
    ),
    "a window over the states of another, rebuilt": Case(
        "SELECT x.a FROM (SELECT RSTREAM(a) FROM S [RANGE 4]) [RANGE 5] AS x",
        {"S": [(ts, {"a": ts}) for ts in range(20)]},
        {"S": "a INT"},
    ),
    "a constant condition beside a window between streams": Case(
        "SELECT r0.a FROM S AS r0, T AS r1 WINDOW 2 WHERE 2 < 1",
        {"S": [(1, {"a": 1})], "T": [(1, {"a": 1}), (2, {"a": 1})]},
        {"S": "a INT", "T": "a INT"},
    ),
    "a window between streams of one side of a set operation": Case(
        "SELECT r0.a AS c0 FROM S AS r0 UNION SELECT r1.a AS c0 FROM S AS r1, T AS r2 WINDOW 1",
        {"S": [(1, {"a": 1}), (5, {"a": 2})], "T": [(2, {"a": 1})]},
        {"S": "a INT", "T": "a INT"},
    ),
    "a row of an outer join without a timestamp is the first, not left out": Case(
        "SELECT FIRST(r1.a) AS f, LAST(r1.a) AS l, COLLECT_LIST(r1.a) AS c "
        "FROM S AS r0 FULL JOIN R AS r1 ON r0.a = r1.a",
        {
            "S": [(1, {"a": 3}), (2, {"a": 2}), (3, {"a": 4})],
            "R": [(0, "+", {"a": 1}), (0, "+", {"a": 2}), (3, "+", {"a": 5})],
        },
        {"S": "a INT", "R": "a INT"},
    ),
    "a partition's row window also has its columns of rows that a constraint counts": Case(
        "SELECT S.k AS c0, T.k AS c1 FROM S [ROWS 4], T [PARTITION BY k ROWS 1] WHERE T.r = S.k",
        {
            "S": [(t, {"k": k}) for t, k in enumerate((1, 0, 3, 2, 5, 4), start=4)],
            "T": [(1, {"k": 0, "r": 0}), (5, {"k": None, "r": 1}), (7, {"k": 5, "r": 0})],
        },
        {"S": "k INT", "T": "k INT, r INT"},
        constraints={"T": "CLUSTERED BY (r) WITHIN 1 ROWS"},
    ),
    "partitions are not chosen by the timestamps that an aggregate reads": Case(
        "SELECT FIRST(r0.s) AS c0, LAST(r0.s) AS c1 FROM S [RANGE 6] AS r0 "
        "WHERE r0.b IN (SELECT r1.a FROM D AS r1)",
        {"S": [(t, {"s": f"x{t}", "b": t % 3}) for t in range(9)], "D": [{"a": 0}, {"a": 1}, {"a": 1}]},
        {"S": "s STRING, b INT", "D": "a INT"},
    ),
    "an estimate of infinite values from a sample of all rows is exact": Case(
        "SELECT SUM(r0.y) AS c0, AVG(r0.y) AS c1 FROM T [RANGE 2] AS r0, T [RANGE 2] AS r1 "
        "WHERE r0.a = r1.a GROUP BY r0.a WITHIN MEMORY 900 ROWS SAMPLE UNIFORM",
        {"T": [(0, {"a": 1, "y": inf}), (0, {"a": 2, "y": nan}), (1, {"a": 1, "y": -inf})]},
        {"T": "a INT, y DOUBLE"},
    ),
}


def regressions() -> list[Any]:
    """The names, as parameters of a test."""
    open_ = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in OPEN.items()}
    return [pytest.param(name, marks=open_.get(name, ())) for name in REGRESSIONS]
