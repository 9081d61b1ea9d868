"""Time domains, and the correspondence of SQL's, Arrow's and Spark's types."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from penstock.errors import CatalogError

TICKS_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}

SECONDS = {
    "microsecond": Fraction(1, 1_000_000),
    "millisecond": Fraction(1, 1_000),
    "second": Fraction(1),
    "minute": Fraction(60),
    "hour": Fraction(3_600),
    "day": Fraction(86_400),
    "week": Fraction(604_800),
}
"""Units of time by what they are called."""
MOST_TICKS = 1 << 61
"""Largest timestamp and largest length of time: the sums of a few of them fit into 64 bits."""
RESERVED = "#"
"""Names that begin with it are Penstock's own."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
INTERVAL = pa.duration("us")
"""INTERVAL DAY TO SECOND."""

SQL_TYPES: dict[str, pa.DataType] = {
    "NULL": pa.null(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
    "INTERVAL DAY TO SECOND": INTERVAL,
}
"""SQL's types by name; DECIMAL also has a precision and a scale."""
_SQL_NAMES = {type_: name for name, type_ in SQL_TYPES.items()} | {pa.large_string(): "STRING"}


def a_value_of(type_: str) -> str:
    """A type with its article.

    >>> a_value_of("INT"), a_value_of("BIGINT")
    ('an INT', 'a BIGINT')
    """
    return f"{'an' if type_[0] in 'AI' else 'a'} {type_}"


def sql_name(type_: pa.DataType) -> str:
    """SQL's name of a type, as Spark spells it.

    >>> sql_name(pa.int64()), sql_name(pa.decimal128(10, 2)), sql_name(pa.timestamp("us"))
    ('BIGINT', 'DECIMAL(10, 2)', 'TIMESTAMP_NTZ')
    """
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    if pa.types.is_list(type_):
        return f"ARRAY<{sql_name(type_.value_type)}>"
    return _SQL_NAMES.get(type_, str(type_).upper())


@dataclass(frozen=True)
class TimeDomain:
    """What one tick of a stream's time is.

    ``kind`` is ``"timestamp"`` (ticks are microseconds) or ``"integer"`` (ticks of ``unit``).
    """

    kind: str = "integer"
    unit: str = "seconds"

    def __post_init__(self) -> None:
        if self.unit not in TICKS_PER_SECOND:
            raise CatalogError(f"unknown time unit {self.unit!r}; use one of {', '.join(TICKS_PER_SECOND)}")

    @property
    def ticks_per_second(self) -> int:
        return TICKS_PER_SECOND[self.unit]

    def length(self, ticks: int) -> str:
        """A length of time as CQL writes it, in the largest unit that it is a whole number of.

        >>> [TimeDomain().length(ticks) for ticks in (0, 1, 90, 120)], TIMESTAMP_TIME.length(5_000_001)
        (['0 SECONDS', '1 SECOND', '90 SECONDS', '2 MINUTES'], '5000001 MICROSECONDS')
        """
        sizes = {u: seconds * self.ticks_per_second for u, seconds in SECONDS.items() if u != "week"}
        whole = [unit for unit, size in sizes.items() if ticks and (ticks / size).denominator == 1]
        unit = whole[-1] if whole else "second"
        count = int(ticks / sizes[unit])
        return f"{count} {unit.upper()}{'S' * (count != 1)}"

    @property
    def ts_type(self) -> pa.DataType:
        """The type of the ``ts`` column of a result."""
        return TIMESTAMP if self.kind == "timestamp" else pa.int64()


TIMESTAMP_TIME = TimeDomain("timestamp", "microseconds")
