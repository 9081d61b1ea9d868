"""Which constructs of the language random cases have, and how often."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from strategies import Case

_CALLS = (
    "COUNT", "SUM", "AVG", "MIN", "COUNT_IF", "BOOL_AND", "MIN_BY", "MAX_BY", "MODE", "ANY_VALUE", "FIRST",
    "LAST", "COLLECT_LIST", "COLLECT_SET", "STRING_AGG", "BIT_XOR", "MEDIAN", "PERCENTILE",
    "PERCENTILE_DISC", "APPROX_PERCENTILE", "APPROX_COUNT_DISTINCT", "SKEWNESS", "KURTOSIS", "CORR",
    "COVAR_POP", "STDDEV", "VARIANCE", "DATE_FORMAT", "DATE_TRUNC", "HOUR", "MD5", "SHA2", "GROUPING_ID",
)  # fmt: skip
_WORDS = (
    "SLIDE", "UNBOUNDED", "ISTREAM", "ISTREAM ALL", "DSTREAM", "RSTREAM", "CREATE VIEW", "CROSS JOIN",
    "VALUES", "GROUP BY", "HAVING", "ROLLUP", "CUBE", "GROUPING SETS", "SELECT DISTINCT", "LIMIT", "OFFSET",
    "QUALIFY", "UNION",
    "INTERSECT", "EXISTS", "WITHIN MEMORY", "WITHIN RATE", "MAXIMIZE", "SAMPLE", "INTERVAL", "WINDOW",
    "DWINDOW", "RIGHT JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN",
    "RIGHT SEMI JOIN", "RIGHT ANTI JOIN", "NATURAL", "CREATE STREAM", "AT TIME ZONE", "ROW_NUMBER", "RANK",
    "DENSE_RANK", "IGNORE NULLS", "PERCENTILE_CONT", "SOME", "COVAR_SAMP", "DISTINCT FROM", "ILIKE",
    "LIKE ANY", "LIKE ALL",
)  # fmt: skip
FORMS = {
    **{f"[{name}": rf"\[{name}\b" for name in ("NOW", "RANGE", "ROWS", "TUMBLE", "HOP", "SESSION")},
    **{word: rf"\b{word}\b" for word in _WORDS},
    **{f"{name}()": rf"\b{name}\(" for name in _CALLS},
    "a stream without window": r"\b[STU] AS r\d",
    "a table": r"\bD AS r\d",
    "a relation": r"\b[RQ] AS r\d",
    "[PARTITION BY": r"\[(SESSION[^\]]*)?PARTITION BY",
    "[RANGE INTERVAL": r"\[RANGE INTERVAL",
    "window_start, window_end": r"window_(start|end)",
    "EVERY": r"\) EVERY \d",
    "a derived stream": r"\(SELECT (DISTINCT )?[IDR]STREAM|\([IDR]STREAM",
    "a view with names for its columns": r"CREATE VIEW \w+ \(",
    "a view with LIMIT": r"CREATE VIEW[^;]*LIMIT[^;]*;",
    "USING": r"USING \(",
    "FILTER": r"FILTER \(WHERE",
    "EXCEPT": r"EXCEPT (?!\(\w+\))",
    "* EXCEPT": r"\* EXCEPT \(",
    "IN (SELECT": r"IN \(SELECT",
    "ANY, ALL": r"\b(ANY|ALL) \(SELECT",
    "a scalar subquery": r"[<>=+,] \(SELECT|SELECT \(SELECT",
    "a subquery in ON": r" ON [^)]*\(SELECT",
    "a subquery in an aggregate": r"SUM\(CASE WHEN [^;]*SELECT",
    "a difference of times": r"\([\w.]+\.[mnz]\w* - [\w.]+\.[mnz]",
    "(a, b) IN (SELECT": r"\([\w.]+, [\w.]+\) (NOT )?IN \(SELECT",
    "(a, b) IN ((": r"\([\w.]+, [\w.]+\) (NOT )?IN \(\(",
    "an aggregate by time of rows with partners": r"(FIRST|LAST|COLLECT_LIST|STRING_AGG)\((?!DISTINCT)[^;]*"
    r"(SEMI JOIN|ANTI JOIN|EXISTS|IN \(SELECT)(?![^;]*GROUP BY)",
    "a list in an order": r"(COLLECT_LIST|STRING_AGG)\([^()]*ORDER BY",
    "an aggregate of one's own": r"\bown_\w+\(",
    "COUNT(DISTINCT a, b)": r"COUNT\(DISTINCT [^()]+, ",
    "CAST of a time": r"CAST\([\w.]+ AS (STRING|TIMESTAMP)",
}
"""By construct, the regular expression that finds it."""
TYPES = ("DECIMAL(9,2)", "TIMESTAMP_NTZ", "TIMESTAMP", "DOUBLE", "STRING", "BOOLEAN", "BIGINT")
CONSTRUCTS = (*FORMS, *(f"a {t} column" for t in TYPES), "constraints", "a look-up in a table that changes")


def of(case: Case) -> set[str]:
    """The constructs of a case."""
    found = {name for name, form in FORMS.items() if re.search(form, case.cql)}
    words = {word.rstrip(",") for schema in case.schemas.values() for word in schema.split(" ")}
    found |= {f"a {t} column" for t in TYPES if t in words}
    found |= {"constraints"} if case.constraints else set()
    return found | ({"a look-up in a table that changes"} if case.meaning else set())


def report(cases: Iterable[Case]) -> str:
    """The share of each construct among cases, the rarest last."""
    count, shares = 0, Counter[str](dict.fromkeys(CONSTRUCTS, 0))
    for case in cases:
        count += 1
        shares.update(of(case))
    lines = [f"{100 * n / max(count, 1):6.2f} %  {name}" for name, n in shares.most_common()]
    return "\n".join([f"share of {count:,} random cases with each construct:", *lines])
