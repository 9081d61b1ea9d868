"""Text as times, by Java's patterns as far as Spark reads them, in UTC.

A pattern becomes a regular expression. As in Spark a number has as many digits as there are letters, with
one letter as many as it needs; of a fraction some may be missing; names are in English, in any case; what a
pattern does not have is that of 1970-01-01 00:00:00, and an hour without AM or PM is before noon.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable
from functools import lru_cache

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions import types
from penstock.functions.date_format import MONTHS
from penstock.functions.kernels import by_row
from penstock.functions.times import TIMES, zone_of
from penstock.functions.types import BIGINT, DATE, coerce
from penstock.schema import TIMESTAMP

_READ = (
    "y, M, L, d, D, a, h, K, k, H, m, s, S, X, x, Z, VV, [...] for what may be missing; text stands in '...'"
)
_OFFSETS = {1: r"[+-]\d\d(?:\d\d)?", 2: r"[+-]\d{4}", 3: r"[+-]\d\d:\d\d"}


def _digits(most: int) -> Callable[[int], str | None]:
    """A number; with several letters, of which there are no more than so many, of as many digits."""
    return lambda count: (r"\d{1,19}" if count == 1 else rf"\d{{{count}}}") if count <= most else None


def _year(count: int) -> str | None:
    """Two digits are those from 2000 on; more than there are letters need a sign."""
    exact = _digits(6)(count)
    return f"{exact}|[+]\\d{{{count + 1},6}}" if exact and 3 < count < 6 else exact


def _month(count: int) -> str | None:
    names = [name[:3] if count == 3 else name for name in MONTHS]
    return {1: r"\d{1,19}", 2: r"\d{2}"}.get(count) or ("|".join(names) if count <= 4 else None)


def _offset(zulu: bool) -> Callable[[int], str | None]:
    return lambda count: count in _OFFSETS and _OFFSETS[count] + "|Z" * zulu or None


_LETTERS: dict[str, Callable[[int], str | None]] = {
    "y": _year, "M": _month, "L": _month, "d": _digits(2), "D": _digits(3), "H": _digits(2),
    "h": _digits(2), "K": _digits(2), "k": _digits(2), "m": _digits(2), "s": _digits(2),
    "S": lambda count: rf"\d{{1,{count}}}" if count <= 9 else None,
    "a": lambda count: "AM|PM" if count == 1 else None,
    "X": _offset(True), "x": _offset(False),
    "Z": lambda count: _OFFSETS[2] if count <= 3 else None,
    "V": lambda count: r"[A-Za-z][\w/+-]*" if count == 2 else None,
}  # fmt: skip


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], tuple[tuple[str, int], ...]]:
    """The expression of a pattern, whose groups are fields, and their letters with how often they stand."""
    parts, fields = list[str](), list[tuple[str, int]]()
    for quoted, plain in re.findall(r"'((?:[^']|'')*)'|([^']+|')", pattern):
        if not plain:
            parts.append(re.escape(quoted.replace("''", "'") or "'"))
            continue
        for letter, run in itertools.groupby(plain):
            count = len(list(run))
            if letter in "[]":
                parts.append(("(?:" if letter == "[" else ")?") * count)
            elif letter.isascii() and (letter.isalpha() or letter in "{}#'"):
                parts.append(f"({_field(letter, count, pattern)})")
                fields.append((letter, count))
            else:
                parts.append(re.escape(letter * count))
    try:
        return re.compile("".join(parts), re.IGNORECASE | re.ASCII), tuple(fields)
    except re.error:
        raise DataError(f"the date pattern {pattern!r} has a [ without ], or ] without [") from None


def _field(letter: str, count: int, pattern: str) -> str:
    form = _LETTERS[letter](count) if letter in _LETTERS else None
    if form is None:
        found = f"{letter * count!r}, which cannot be read"
        raise DataError(f"the date pattern {pattern!r} has {found}; letters are {_READ}")
    return form


def _parsed(text: str, pattern: str) -> dt.datetime | None:
    """The time that a text is by a pattern; None if it is none."""
    expression, fields = _compiled(pattern)
    match = expression.fullmatch(text)
    if match is None:
        return None
    groups = zip(fields, match.groups(), strict=True)
    given = {letter: (count, value) for (letter, count), value in groups if value}
    try:
        shown = _date(given) + _time_of_day(given)
        return shown - _ahead(given, shown)
    except (ValueError, OverflowError, DataError):
        return None


Given = dict[str, tuple[int, str]]
"""By letter, how many there are and the text that stands for them."""


def _number(given: Given, letter: str, least: int, most: int, default: int = 0) -> int:
    found = int(given[letter][1]) if letter in given else default
    if not least <= found <= most:
        raise ValueError(letter)
    return found


def _date(given: Given) -> dt.datetime:
    year = _number(given, "y", 0, 9999, 1970)
    year += 2000 if given.get("y", (0, ""))[0] == 2 else 0
    if "D" in given:
        first = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
        found = first + dt.timedelta(days=_number(given, "D", 1, 366) - 1)
        if found.year != year:
            raise ValueError("D")
        return found
    month = next((given[letter] for letter in "ML" if letter in given), (1, "1"))
    short = [name[:3].lower() for name in MONTHS]
    number = int(month[1]) if month[0] <= 2 else short.index(month[1][:3].lower()) + 1
    return dt.datetime(year, number, _number(given, "d", 1, 31, 1), tzinfo=dt.UTC)


def _time_of_day(given: Given) -> dt.timedelta:
    hour = _number(given, "H", 0, 23) if "H" in given else _number(given, "k", 1, 24, 24) % 24
    if "H" not in given and "k" not in given:
        half = _number(given, "K", 0, 11) if "K" in given else _number(given, "h", 1, 12, 12) % 12
        hour = half + (12 if given.get("a", (1, "AM"))[1].upper() == "PM" else 0)
    micros = int(given["S"][1].ljust(9, "0")[:6]) if "S" in given else 0
    minute, second = _number(given, "m", 0, 59), _number(given, "s", 0, 59)
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _ahead(given: Given, shown: dt.datetime) -> dt.timedelta:
    """How far clocks are ahead of UTC where the text says it was written."""
    if "V" in given:
        offset = shown.replace(tzinfo=zone_of(given["V"][1])).utcoffset()
        return offset or dt.timedelta()
    found = next((given[letter][1] for letter in "XxZ" if letter in given), "Z")
    if found.upper() == "Z":
        return dt.timedelta()
    hours, minutes = int(found[1:3]), int(found[-2:]) if len(found) > 3 else 0
    if hours * 60 + minutes > 18 * 60 or minutes > 59:
        raise ValueError(found)
    ahead = dt.timedelta(hours=hours, minutes=minutes)
    return -ahead if found[0] == "-" else ahead


def _to_timestamp(text: str, pattern: str) -> dt.datetime:
    found = _parsed(text, pattern)
    if found is None:
        hint = "TRY_TO_TIMESTAMP returns NULL for such a text"
        raise DataError(f"{text!r} is not a time in the pattern {pattern!r}; {hint}")
    return found


def _read(value: Expression, pattern: Expression | None, tries: bool = False) -> Expression | None:
    """A time of a text, by a pattern if there is one."""
    if pattern is not None and types.is_string(value.type):
        return Call("try_to_timestamp" if tries else "to_timestamp", (value, pattern), TIMESTAMP)
    if not types.castable(value.type, TIMESTAMP):
        return None
    if tries and value.type != TIMESTAMP:
        return Call("try_cast", (value,), TIMESTAMP)
    return coerce(value, TIMESTAMP)


@TIMES.by_rule("to_timestamp", "STRING or time [, STRING] -> TIMESTAMP",
               "a cast to TIMESTAMP, or a text by a pattern of Java's letters; what does not fit is an error",
               "TO_TIMESTAMP('31/1/24 9 PM', 'd/M/yy h a') -> TIMESTAMP '2024-01-31 21:00:00'",
               kernel=by_row(_to_timestamp), aliases=("timestamp",), raises=True)  # fmt: skip
def _timestamp(value: Expression, pattern: Expression | None = None) -> Expression | None:
    return _read(value, pattern)


@TIMES.by_rule("try_to_timestamp", "STRING or time [, STRING] -> TIMESTAMP",
               "the same; what does not fit is NULL",
               "TRY_TO_TIMESTAMP('31.01.2024', 'dd/MM/yyyy') -> CAST(NULL AS TIMESTAMP)",
               kernel=by_row(_parsed), raises=True)  # fmt: skip
def _tried(value: Expression, pattern: Expression | None = None) -> Expression | None:
    return _read(value, pattern, tries=True)


@TIMES.by_rule("to_date", "STRING or time [, STRING] -> DATE", "a cast to DATE, or a text by a pattern",
               "TO_DATE('20240131', 'yyyyMMdd') -> DATE '2024-01-31'", aliases=("date",))  # fmt: skip
def _to_date(value: Expression, pattern: Expression | None = None) -> Expression | None:
    if pattern is None or not types.is_string(value.type):
        return coerce(value, DATE) if types.castable(value.type, DATE) else None
    found = _read(value, pattern)
    return found and coerce(found, DATE)


@TIMES.by_rule("try_to_date", "STRING or time [, STRING] -> DATE", "the same; what does not fit is NULL",
               "TRY_TO_DATE('2024', 'yyyyMMdd') -> CAST(NULL AS DATE)")  # fmt: skip
def _tried_date(value: Expression, pattern: Expression | None = None) -> Expression | None:
    if pattern is None and types.is_string(value.type):
        return Call("try_cast", (value,), DATE)
    found = _read(value, pattern, tries=True)
    return found and coerce(found, DATE)


@TIMES.by_rule("unix_timestamp", "STRING or time [, STRING] -> BIGINT",
               "whole seconds from 1970 to a time, or to a text, by a pattern if there is one",
               "UNIX_TIMESTAMP('1970-01-01 00:01', 'yyyy-MM-dd HH:mm') -> 60L",
               aliases=("to_unix_timestamp",))  # fmt: skip
def _unix_timestamp(value: Expression, pattern: Expression | None = None) -> Expression | None:
    found = _read(value, pattern)
    if found is None:
        return None
    # Fractions are dropped, so a time before 1970 is rounded up, as in Spark; UNIX_SECONDS rounds down.
    return Call("div", (Call("unix_micros", (found,), BIGINT), Literal(1_000_000, BIGINT)), BIGINT)
