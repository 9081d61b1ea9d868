"""Times as text in Java's patterns, as far as Spark takes them, and names of days, in English and UTC."""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import pyarrow as pa

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions.kernels import Datum, by_row, where_known
from penstock.functions.times import TIMES
from penstock.functions.types import BOOLEAN, DOUBLE, STRING

Part = Callable[[dt.datetime], str]
MONTHS = """January February March April May June July August September October November
    December""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_QUARTERS = ("1st", "2nd", "3rd", "4th")
_SHOWN = (
    "letters are those of Java's DateTimeFormatter that Spark takes: G, y, M, L, d, D, Q, q, E, a, h, K, k, "
    "H, m, s, S, z, X, x, Z; text stands in '...'"
)


def _number(of: Callable[[dt.datetime], int], most: int = 2) -> Callable[[int], Part | None]:
    """A number, filled up with zeros to as many digits as there are letters."""
    return lambda letters: (lambda t: f"{of(t):0{letters}d}") if letters <= most else None


def _year(letters: int) -> Part | None:
    if letters == 2:
        return lambda t: f"{t.year % 100:02d}"
    return (lambda t: f"{t.year:0{letters}d}") if letters <= 6 else None


def _month(letters: int) -> Part | None:
    if letters <= 2:
        return lambda t: f"{t.month:0{letters}d}"
    if letters > 4:
        return None
    return lambda t: MONTHS[t.month - 1][: 3 if letters == 3 else None]


def _weekday(letters: int) -> Part | None:
    if letters > 4:
        return None
    return lambda t: DAYS[t.weekday()][: None if letters == 4 else 3]


def _quarter(letters: int) -> Part | None:
    if letters > 4:
        return None
    forms = ("{0}", "{0:02d}", "Q{0}", "{1} quarter")
    return lambda t: forms[letters - 1].format((t.month + 2) // 3, _QUARTERS[(t.month - 1) // 3])


def _fixed(*texts: str) -> Callable[[int], Part | None]:
    """What is the same for all times in UTC, by the number of letters."""
    return lambda letters: (lambda t: texts[letters - 1]) if letters <= len(texts) else None


def _fraction(letters: int) -> Part | None:
    return (lambda t: f"{t.microsecond:06d}000"[:letters]) if letters <= 9 else None


_LETTERS: dict[str, Callable[[int], Part | None]] = {
    "G": _fixed("AD", "AD", "AD", "Anno Domini"),
    "y": _year, "M": _month, "L": _month, "d": _number(lambda t: t.day),
    "D": _number(lambda t: t.timetuple().tm_yday, 3), "Q": _quarter, "q": _quarter, "E": _weekday,
    "a": lambda letters: (lambda t: "AM" if t.hour < 12 else "PM") if letters == 1 else None,
    "h": _number(lambda t: (t.hour + 11) % 12 + 1), "K": _number(lambda t: t.hour % 12),
    "k": _number(lambda t: (t.hour + 23) % 24 + 1), "H": _number(lambda t: t.hour),
    "m": _number(lambda t: t.minute), "s": _number(lambda t: t.second), "S": _fraction,
    "z": _fixed("UTC", "UTC", "UTC", "Coordinated Universal Time"), "X": _fixed("Z", "Z", "Z"),
    "x": _fixed("+00", "+0000", "+00:00"), "Z": _fixed("+0000", "+0000", "+0000", "GMT", "Z"),
}  # fmt: skip


@lru_cache(maxsize=256)
def _parts_of(pattern: str) -> list[Part]:
    """A pattern as functions of a time, each of which gives a piece of the text."""
    pieces = re.findall(r"'((?:[^']|'')*)'|([^']+)", pattern)
    if sum(len(quoted) + 2 if not plain else len(plain) for quoted, plain in pieces) != len(pattern):
        raise DataError(f"the date pattern {pattern!r} has an unmatched quote")
    parts: list[Part] = []
    for quoted, plain in pieces:
        if plain:
            parts += [_part(letter, len(list(run)), pattern) for letter, run in itertools.groupby(plain)]
        else:
            parts.append(_text(quoted.replace("''", "'") or "'"))
    return parts


def _text(text: str) -> Part:
    return lambda moment: text


def _part(letter: str, count: int, pattern: str) -> Part:
    if letter in _LETTERS:
        part = _LETTERS[letter](count)
    else:
        part = (
            None if letter.isascii() and (letter.isalpha() or letter in "[]{}#") else lambda t: letter * count
        )
    if part is None:
        found = f"{letter * count!r}, which is not supported"
        raise DataError(f"the date pattern {pattern!r} has {found}; {_SHOWN}")
    return part


def _date_format(moment: dt.datetime, pattern: str) -> str:
    return "".join(part(moment) for part in _parts_of(pattern))


_UNITS = (("S", 1), ("s", 1_000_000), ("m", 60_000_000), ("ahKkH", 3_600_000_000), ("", 86_400_000_000))
"""Letters, and the microseconds for which what they show stays the same; of all others a day."""


def _formatted(call: Call, args: Sequence[Datum]) -> pa.Array:
    """Times that a constant pattern shows alike are made equal first, so that each text is made once."""
    moments, pattern = args
    if isinstance(moments, pa.Array) and isinstance(pattern, pa.Scalar) and pattern.is_valid:
        plain = set(re.sub(r"'[^']*'", "", pattern.as_py()))
        unit = next(us for letters, us in _UNITS if not letters or plain & set(letters))
        ticks = moments.cast(pa.int64()).fill_null(0).to_numpy()
        known = where_known((moments,), pa.array(ticks // unit * unit))
        moments = known.cast(moments.type)
    return by_row(_date_format)(call, (moments, pattern))


TIMES.define("date_format", "TIMESTAMP, STRING -> STRING", "as text in a pattern of Java's letters",
             "DATE_FORMAT(DATE '2024-02-29', 'E d MMM y') -> 'Thu 29 Feb 2024'", kernel=_formatted,
             raises=True)  # fmt: skip


def _from_unixtime(seconds: int, pattern: str) -> str:
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    except OverflowError:
        raise DataError(f"{seconds} seconds after 1970 is out of range; years are 1 to 9999") from None
    return _date_format(moment, pattern)


@TIMES.by_rule("from_unixtime", "BIGINT [, STRING] -> STRING",
               "the time that many seconds after 1970 as text, by default 'yyyy-MM-dd HH:mm:ss'",
               "FROM_UNIXTIME(1) -> '1970-01-01 00:00:01'",
               kernel=by_row(_from_unixtime), raises=True)  # fmt: skip
def _with_pattern(seconds: Expression, pattern: Expression | None = None) -> Expression:
    return Call("from_unixtime", (seconds, pattern or Literal("yyyy-MM-dd HH:mm:ss", STRING)), STRING)


@TIMES.by_row(
    "dayname", "DATE -> STRING", "name of the day in three letters", "DAYNAME('2024-02-29') -> 'Thu'"
)
def _dayname(date: dt.date) -> str:
    return DAYS[date.weekday()][:3]


@TIMES.by_row("monthname", "DATE -> STRING", "name of the month in three letters",
              "MONTHNAME('2024-02-29') -> 'Feb'")  # fmt: skip
def _monthname(date: dt.date) -> str:
    return MONTHS[date.month - 1][:3]


_DAY_OF = {day[:n].lower(): number for number, day in enumerate(DAYS) for n in (2, 3, len(day))}


@TIMES.by_row("next_day", "DATE, STRING -> DATE", "the first day of that name after a date",
              "NEXT_DAY('2024-02-29', 'Mon') -> DATE '2024-03-04'", raises=True)  # fmt: skip
def _next_day(date: dt.date, name: str) -> dt.date:
    wanted = _DAY_OF.get(name.lower())
    if wanted is None:
        raise DataError(f"NEXT_DAY: {name!r} is not a day of the week; write e.g. 'Mon'")
    return date + dt.timedelta((wanted - date.weekday() - 1) % 7 + 1)


def _months_between(end: dt.datetime, start: dt.datetime, rounds: bool) -> float:
    months = (end.year - start.year) * 12 + end.month - start.month
    last = [calendar.monthrange(t.year, t.month)[1] for t in (end, start)]
    if end.day == start.day or (end.day == last[0] and start.day == last[1]):
        return float(months)
    seconds = [t.hour * 3600 + t.minute * 60 + t.second + (t.day - 1) * 86_400 for t in (end, start)]
    found = months + (seconds[0] - seconds[1]) / (31 * 86_400)
    return _half_up(found) if rounds else found


def _half_up(value: float) -> float:
    """To eight digits, as Java's Math.round does."""
    scaled = value * 1e8
    floor = scaled // 1
    return (floor + (1 if scaled - floor >= 0.5 else 0)) / 1e8


@TIMES.by_rule("months_between", "TIMESTAMP, TIMESTAMP [, BOOLEAN] -> DOUBLE",
               "months from the second to the first, of 31 days each, to eight digits unless FALSE follows",
               "MONTHS_BETWEEN('2024-02-29', '2024-01-30') -> 0.96774194e0",
               kernel=by_row(_months_between))  # fmt: skip
def _rounding(end: Expression, start: Expression, rounds: Expression | None = None) -> Expression:
    return Call("months_between", (end, start, rounds or Literal(True, BOOLEAN)), DOUBLE)
