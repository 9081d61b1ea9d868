"""Time and types: what a tick is, and how SQL's types, Arrow's and Spark's correspond."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import CatalogError

TICKS_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")


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

    @property
    def ts_type(self) -> pa.DataType:
        """The type of the ``ts`` column of a result."""
        return TIMESTAMP if self.kind == "timestamp" else pa.int64()


TIMESTAMP_TIME = TimeDomain("timestamp", "microseconds")
