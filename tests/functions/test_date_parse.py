"""Text as times by a pattern: what Spark reads, and what it does not, in the same way."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

import pytest

import penstock
from penstock.functions.date_format import _date_format
from penstock.functions.date_parse import _parsed

PATTERNS = """yyyy-MM-dd HH:mm:ss|dd/MM/yyyy|d/M/yy|d/M/yyyy H:m|yyyyMMdd|yyyyMMddHHmmss|MMM d yyyy|d MMMM y
    |yyyy-MM-dd'T'HH:mm:ss.SSS|HH:mm|hh:mm a|h a|K a|kk:mm|yyyy-DDD|yyyy-MM|yyyy|MM|yyyy-MM-dd HH:mm:ssXXX
    |yyyy-MM-dd HH:mm:ssXX|yyyy-MM-dd HH:mm:ssX|yyyy-MM-dd HH:mm:ssx|yyyy-MM-dd HH:mm:ssZ|yyyy-MM-dd HH:mm VV
    |yyyy-MM-dd[ HH:mm[:ss]]|yyyy-MM-dd''HH|SSS|s.S|yyyy-M-dd|D|hh|LLL yyyy|LL|d''M""".replace(
    "\n    ", ""
).split("|")
TEXTS = """2024-01-31 10:20:30|31/01/2024|31/1/24|1/1/2024 9:5|20240131|20240131102030|Jan 3 2024|jan 31 2024
    |JANUARY 3 2024|3 January 2024|3 january 24|2024-01-31T10:20:30.123|2024-01-31T10:20:30.1|10:20|09:05 PM
    |12:00 AM|12:00 pm|9 PM|0 PM|12 AM|11 am|24:00|00:30|2024-060|2023-366|2024-366|2024-02|2024|24|02|13
    |2024-02-30 10:00:00|2023-02-29 10:00:00|31/02/2024|2024-01-31 10:20:30+02:00|2024-01-31 10:20:30Z
    |2024-01-31 10:20:30+0200|2024-01-31 10:20:30+02|2024-01-31 10:20:30-0930|2024-01-31 10:20 Europe/Berlin
    |2024-07-31 10:20 America/New_York|2024-07-31 10:20 Mars/Base|2024-01-31|2024-01-31 10:20|2024-01-31'10
    |024|5|999|30.5|2024-1-05| 2024-01-31|2024-01-31 25:20:30|2024-01-31 10:60:30||0001|366|+02024
    |""".replace("\n    ", "").split("|")


def test_what_date_format_shows_is_read() -> None:
    die = Random(3)
    for pattern in (
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "d MMM yyyy, h:m:s a .SSSSSS",
        "yyyyDDDHHmmssSSSSSS",
        "d'.'M'.'y kk mm ss SSSSSS",
    ):
        for _ in range(50):
            moment = dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
                microseconds=die.randrange(3 * 10**15)
            )
            assert _parsed(_date_format(moment, pattern), pattern) == moment, pattern


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("TO_TIMESTAMP('31/12/24 23:05', 'd/M/yy HH:mm')", dt.datetime(2024, 12, 31, 23, 5, tzinfo=dt.UTC)),
        ("TO_TIMESTAMP('2024-07-31 10:20 Europe/Berlin', 'yyyy-MM-dd HH:mm VV')",
         dt.datetime(2024, 7, 31, 8, 20, tzinfo=dt.UTC)),
        ("TO_DATE('Feb 29 2024', 'MMM d yyyy')", dt.date(2024, 2, 29)),
        ("TRY_TO_DATE('Feb 30 2024', 'MMM d yyyy')", None),
        ("TRY_TO_TIMESTAMP('2024-01-31')", dt.datetime(2024, 1, 31, tzinfo=dt.UTC)),
        ("TRY_TO_TIMESTAMP('x')", None),
        ("UNIX_TIMESTAMP('1/1/1970', 'd/M/yyyy')", 0),
        ("TO_TIMESTAMP(CAST(NULL AS STRING), 'd/M/yyyy')", None),
    ],
)  # fmt: skip
def test_functions_of_a_pattern(call: str, value: Any) -> None:
    ((_, _, row),) = penstock.evaluate(f"SELECT ISTREAM({call} AS x) FROM S [NOW]", {"S": [(1, {"a": 1})]})
    assert row["x"] == value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TO_TIMESTAMP('31.12.24', 'd/M/yy')",
         "'31.12.24' is not a time in the pattern 'd/M/yy'; TRY_TO_TIMESTAMP returns NULL for such a text"),
        ("TO_DATE('x', 'E d')", "the date pattern 'E d' has 'E', which cannot be read; letters are y, M, "),
        ("TO_DATE('x', 'd[')", "the date pattern 'd[' has a [ without ], or ] without ["),
    ],
)  # fmt: skip
def test_what_is_no_time(call: str, message: str) -> None:
    with pytest.raises(penstock.DataError) as raised:
        penstock.evaluate(f"SELECT {call} AS x FROM S [NOW]", {"S": [(1, {"a": 1})]})
    assert str(raised.value).startswith(message)


@pytest.mark.spark
def test_spark_reads_the_same(spark: Any) -> None:
    df = spark.createDataFrame(list(enumerate(TEXTS)), "i INT, t STRING").repartition(1)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    calls = [f"""unix_micros(try_to_timestamp(t, "{p}")) AS p{n}""" for n, p in enumerate(PATTERNS)]
    found = {row.i: row for row in df.selectExpr("i", *calls).collect()}
    spark.conf.set("spark.sql.session.timeZone", zone)
    for n, pattern in enumerate(PATTERNS):
        for i, text in enumerate(TEXTS):
            moment = _parsed(text, pattern)
            micros = moment and (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
                microseconds=1
            )
            assert found[i][f"p{n}"] == micros, (text, pattern)
