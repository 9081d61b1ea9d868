"""Constraints that streams obey (thesis chapter 6): keys, references, order and clusters of their rows.

The *adherence parameter* k says how closely: 0 is the strict form. It counts rows, whose places are those in
the whole stream, or ticks of the stream's time.

* ``PRIMARY KEY (a)``: no two rows of the stream ever have the same key. Of a relation: no two at any instant.
* ``FOREIGN KEY (a) REFERENCES T (b) WITHIN k`` (RIDS, definition 6.6.1): a row of T that joins a row s of the
  stream has at most k rows of T with later timestamps than s before and including it; by time, its timestamp
  is at most k later than that of s.
* ``CLUSTERED BY (a) WITHIN k`` (CA, 6.7.1): between two rows of equal a there are at most k rows of another
  a; by time, rows of equal a are at most k apart.
* ``ORDERED BY (a) WITHIN k`` (OA, 6.8.1): of two rows of which the later one has the smaller a, the later is
  at most k places after the other; by time, at most k later.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Within:
    """An adherence parameter: ``k`` rows or ticks, which are ``length`` of time."""

    k: int = 0
    by_rows: bool = False
    length: str = field(default="0 SECONDS", compare=False)

    def __str__(self) -> str:
        return f"{self.k} row{'s' * (self.k != 1)}" if self.by_rows else self.length


@dataclass(frozen=True)
class Reference:
    """Columns that refer to columns of the stream ``target``."""

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]
    within: Within = Within()

    def __str__(self) -> str:
        columns, theirs = ", ".join(self.columns), ", ".join(self.target_columns)
        return f"FOREIGN KEY ({columns}) REFERENCES {self.target} ({theirs}) WITHIN {self.within}"


@dataclass(frozen=True)
class Arrival:
    """How the values of a column arrive: ``clustered`` or ``ordered``."""

    kind: str
    column: str
    within: Within = Within()

    def __str__(self) -> str:
        return f"{self.kind.upper()} BY ({self.column}) WITHIN {self.within}"


@dataclass(frozen=True)
class Constraints:
    """All that is declared of one stream or relation."""

    primary_key: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    arrivals: tuple[Arrival, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.primary_key or self.references or self.arrivals)

    def __str__(self) -> str:
        key = [f"PRIMARY KEY ({', '.join(self.primary_key)})"] if self.primary_key else []
        return " ".join([*key, *map(str, self.references), *map(str, self.arrivals)])


@dataclass(frozen=True)
class Use:
    """How joins exploit constraints.

    ``how``: not at all (``off``), those that are declared, also those that are found while a query runs
    (``monitored``), or those without ever losing a result (``monitored safe``). ``by_time``: no rows are
    counted. ``slack``, ``sample`` and ``window`` are c, p and W of thesis 6.6.3; None for the defaults of
    ``streamon/settings.py``. ``directory``: for the files of rows that are let go; None for the system's
    directory for temporary files.
    """

    how: str = "off"
    by_time: bool = False
    slack: float | None = None
    sample: float | None = None
    window: int | None = None
    directory: str | None = field(default=None, repr=False, compare=False)

    @property
    def monitored(self) -> bool:
        return self.how.startswith("monitored")

    @property
    def safe(self) -> bool:
        return self.how == "monitored safe"


UNUSED = Use()
"""No constraints are exploited."""
