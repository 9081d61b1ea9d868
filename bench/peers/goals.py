"""What the growth benchmark is to show: each figure, how it is found, and what is to be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.peers.harness import Measured

Found = Mapping[str, Sequence[Measured]]
"""By scenario what each system did."""


@dataclass(frozen=True)
class Goal:
    """A figure: its value, and the least or the most that it should be, if either."""

    what: str
    value: float
    least: float | None = None
    most: float | None = None
    unit: str = "x"

    @property
    def shown(self) -> str:
        return f"{self.value:,.0f} {self.unit}" if self.unit == "ms" else f"{self.value:.2f}{self.unit}"

    @property
    def wanted(self) -> str:
        if self.least is not None:
            return f"at least {self.least:g}{self.unit}"
        if self.most is None:
            return ""
        return (
            f"below {self.most:g} {self.unit}" if self.unit == "ms" else f"at most {self.most:g}{self.unit}"
        )


def goals(found: Found) -> list[Goal]:
    """The figures that can be told from what was run."""
    return [*_against_spark(found), *_against_discard(found), *_flat(found)]


def _of(found: Found, title: str, system: str) -> Measured | None:
    return next((m for m in found.get(title, ()) if m.system == system), None)


def _ratio(found: Found, slow: tuple[str, str], fast: tuple[str, str]) -> float | None:
    """How many times as many rows a second the second has."""
    a, b = _of(found, *slow), _of(found, *fast)
    return b.rows_per_second / a.rows_per_second if a and b else None


def _against_spark(found: Found) -> Iterator[Goal]:
    asked = (
        ("2 streams", "spark-rocksdb", 15),
        ("2 streams", "spark-memory", 5),
        ("5 streams", "spark-rocksdb", None),
        ("5 streams, 2,000,000 rows a batch", "spark-rocksdb", 40),
    )
    for name, system, least in asked:
        title = f"streams: {name}"
        ratio = _ratio(found, (title, system), (title, "penstock"))
        if ratio is not None:
            yield Goal(f"{name}, rows/s against {system}", ratio, least=least)


def _against_discard(found: Found) -> Iterator[Goal]:
    title = "batches: 2,000,000 rows a batch"
    ratio = _ratio(found, (title, "penstock"), (title, "discard"))
    if ratio is not None:
        yield Goal("batch of 2,000,000 rows, time against discard", ratio, most=1.8)
    small = _of(found, "batches: 10,000 rows a batch", "penstock")
    if small is not None:
        yield Goal("warm batch of 10,000 rows", small.median_ms, most=1000, unit="ms")


def _flat(found: Found) -> Iterator[Goal]:
    two, one = "batches: 2,000,000 rows a batch", "cores: 1 core, 2,000,000 rows a batch"
    for system, least in (("penstock", 0.8), ("discard", None)):
        ratio = _ratio(found, (one, system), (two, system))
        if ratio is not None:
            yield Goal(f"{system}: rows/s a core with 2 cores against 1", ratio / 2, least=least)
    windows = [f"windows: {rows:,} rows in the windows" for rows in (100_000, 10_000_000)]
    ratio = _ratio(found, (windows[0], "penstock"), (windows[1], "penstock"))
    if ratio is not None:
        yield Goal("rows/s with 10,000,000 rows of window against 100,000", ratio, least=0.8)
    skewed = "skew: a key with 80% of one stream"
    ratio = _ratio(found, (skewed, "penstock"), (skewed, "penstock-heavy"))
    if ratio is not None:
        yield Goal("rows/s with a heavy key declared against not", ratio)
