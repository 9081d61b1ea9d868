"""What a query may use: ``WITHIN RATE 100 PER SECOND`` and ``WITHIN MEMORY 1000 ROWS``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Within:
    """``rate``: probes a second; ``rows`` or ``bytes``: what its windows hold. None: as much as it needs.

    ``least_rate`` and ``least_memory`` are what each stream is given at least of them, in the same unit.
    Where ``before_windows``, a row that may not probe does not enter its window either.
    """

    rate: float | None = None
    rows: int | None = None
    bytes: int | None = None
    least_rate: float = 0.0
    least_memory: float = 0.0
    before_windows: bool = False

    def __str__(self) -> str:
        parts = []
        if self.rate is not None:
            early = " drop before windows" if self.before_windows else ""
            parts.append(f"rate {self.rate:,.6g} per second{_each(self.least_rate)}{early}")
        if self.rows is not None:
            parts.append(f"memory {self.rows:,} rows{_each(self.least_memory)}")
        if self.bytes is not None:
            parts.append(f"memory {self.bytes:,} bytes{_each(self.least_memory)}")
        return ", ".join(parts)


def _each(least: float) -> str:
    return f" at least {least:,.6g} each" if least else ""
