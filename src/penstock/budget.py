"""What a query may use: ``WITHIN RATE 100 PER SECOND`` and ``WITHIN MEMORY 1000 ROWS``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Within:
    """``rate``: probes a second; ``rows`` or ``bytes``: what its windows hold. None: as much as it needs."""

    rate: float | None = None
    rows: int | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        parts = [f"rate {self.rate:,.6g} per second"] if self.rate is not None else []
        if self.rows is not None:
            parts.append(f"memory {self.rows:,} rows")
        if self.bytes is not None:
            parts.append(f"memory {self.bytes:,} bytes")
        return ", ".join(parts)
