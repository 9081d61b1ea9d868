"""The budget of a query, ``WITHIN RATE 100 PER SECOND`` or ``WITHIN MEMORY 1000 ROWS``, and its goal."""

from __future__ import annotations

from dataclasses import dataclass, replace

WEIGHT, CLUSTER = "#weight", "#cluster"
"""Columns of a sampled join: how many results a row stands for, and which rows were sampled together."""
POLICIES = ("AGE", "PROB", "RANDOM", "RECENT", "UNTIL_EXPIRY")
"""Policies of MAXIMIZE RESULTS: which tuples are kept."""
SCHEMES = ("UNIFORM", "CLUSTER")
"""Sampling schemes of SAMPLE."""
CONFIDENCE = 0.95
"""The level of bounds without CONFIDENCE."""


@dataclass(frozen=True)
class Maximize:
    """``MAXIMIZE RESULTS [USING AGE]``: as many results as possible; by default the data decide how."""

    using: str | None = None

    def __str__(self) -> str:
        return "maximize results" + (f" using {self.using}" if self.using else "")


@dataclass(frozen=True)
class Sample:
    """``SAMPLE [UNIFORM | CLUSTER] [CONFIDENCE 0.95]``: a sample from which aggregates can be estimated."""

    scheme: str | None = None
    confidence: float = CONFIDENCE

    def __str__(self) -> str:
        return "sample" + (f" {self.scheme}" if self.scheme else "") + f" confidence {self.confidence:g}"


@dataclass(frozen=True)
class Within:
    """``rate``: probes per second; ``rows`` or ``bytes``: size of its windows. None: no limit.

    ``least_rate`` and ``least_memory`` are the minimum of them per stream, in the same unit.
    ``before_windows``: a row that may not probe does not enter its window either.
    ``shared``: the bytes are the session's, and the query gets a part of them by its ``weight``; ``parts``
    of its joins share that part equally.
    ``goal``: how limited memory is used; None: a random part of the windows is kept.
    """

    rate: float | None = None
    rows: int | None = None
    bytes: int | None = None
    least_rate: float = 0.0
    least_memory: float = 0.0
    before_windows: bool = False
    goal: Maximize | Sample | None = None
    weight: float = 1.0
    shared: bool = False
    parts: int = 1

    def divided(self, count: int) -> Within:
        """The part of one of ``count`` joins that share the budget equally."""
        if count == 1:
            return self
        rows, size = (None if n is None else max(n // count, 1) for n in (self.rows, self.bytes))
        rate = None if self.rate is None else self.rate / count
        least = self.least_rate / count, self.least_memory / count
        return replace(self, rate=rate, rows=rows, bytes=size, least_rate=least[0], least_memory=least[1])

    @property
    def goal_name(self) -> str:
        """The words of its goal in a query."""
        return "SAMPLE" if isinstance(self.goal, Sample) else "MAXIMIZE RESULTS"

    def __str__(self) -> str:
        parts = []
        if self.rate is not None:
            early = " drop before windows" if self.before_windows else ""
            parts.append(f"rate {self.rate:,.6g} per second{_each(self.least_rate)}{early}")
        if self.rows is not None:
            parts.append(f"memory {self.rows:,} rows{_each(self.least_memory)}")
        if self.bytes is not None:
            shared = f" shared by weight {self.weight:g}" if self.shared else ""
            parts.append(f"memory {self.bytes:,} bytes{_each(self.least_memory)}{shared}")
        return ", ".join(parts) + (f" {self.goal}" if self.goal else "")


def _each(least: float) -> str:
    return f" at least {least:,.6g} each" if least else ""
