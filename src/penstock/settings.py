"""Settings of a session: ``SET penstock.x = value``, each with its allowed values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.constraint import Use
from penstock.errors import CatalogError, nearest
from penstock.streamon.settings import DEFAULTS, W_JOINS

_UNITS = {"B": 0, "KB": 10, "MB": 20, "GB": 30}


@dataclass(frozen=True)
class Settings:
    """``filters``: the algorithm that orders the filters of select and the probes of mjoin.

    ``join``: the plan of joins of three or more inputs: one MJoin, with caches that are chosen while it
    runs (adaptive) or without (mjoin), a tree of two-way joins (xjoin) or of MJoins (tree). ``w_join``:
    the algorithm of joins with windows between streams. ``allocation``:
    how a join under WITHIN divides its budget between its sides. ``engine_memory``: the limit of one engine
    process in bytes. ``late_rows``: the directory for rows that arrive too late; without one they are only
    counted. ``seed``: of random choices. ``memory``: the bytes that queries under MAXIMIZE RESULTS without
    WITHIN MEMORY share; ``weight``: the weight of the next queries among those.
    ``sharing``: whether the next queries of a pipeline share what they have in common with others.
    ``scheduler``: the order in which operators run; ``slice_rows``: the rows of a batch that go through the
    operators at once. ``access_method``: by which windows are probed, where it finds the rows; ``adaptive``:
    by the cheapest, chosen again while the query runs; ``invalidation``: when expired rows are freed.
    ``at_end``: the input is finite, and when all of it is
    read time runs on for this long after its last row (ticks, or a number with a unit), and the query stops;
    None if it is not finite. ``batch_span``: the seconds of stream time that one batch has, by which joins
    without equality may be spread by time. ``memory_limit``: the bytes of state that an engine holds in
    memory; the rest is in files of ``overflow_directory``, by default the system's for temporary files.
    ``cache_memory``: the bytes that the caches of one join use in each engine; None for no caches.
    ``constraints``: by which constraints of their streams joins drop rows: none (off), those declared, also
    those found while a query runs (monitored), or these without losing results (monitored safe).
    ``constraint_slack``, ``constraint_sample``, ``constraint_window``: c, p and W of finding them (thesis
    6.6.3); None for the defaults by kind of constraint.
    ``trigger``: when the queries of INSERT INTO run, if their sink does not say it;
    ``checkpoint``: the directory that has a checkpoint for each such sink, by its name. ``sysstream``: the
    directory through which measurements go to SysStream; ``sysstream_every``: the seconds between two
    publications of a query.
    """

    filters: str = "a-greedy"
    join: str = "adaptive"
    w_join: str = "adaptive"
    allocation: str = "optimal"
    engine_memory: int | None = None
    late_rows: str | None = None
    seed: int = 0
    memory: int | None = None
    weight: float = 1.0
    sharing: str = "on"
    constraints: str = "declared"
    constraint_slack: float | None = None
    constraint_sample: float | None = None
    constraint_window: int | None = None
    scheduler: str = "fifo"
    slice_rows: int | None = None
    cache_memory: int | None = 64 << 20
    at_end: str | None = None
    batch_span: float | None = None
    access_method: str = "adaptive"
    invalidation: str = "adaptive"
    memory_limit: int | None = None
    overflow_directory: str | None = None
    trigger: str = "0 seconds"
    checkpoint: str | None = None
    sysstream: str | None = None
    sysstream_every: float = 1.0

    def use_of_constraints(self, by_time: bool = False) -> Use:
        """How joins exploit constraints."""
        found = self.constraint_slack, self.constraint_sample, self.constraint_window
        return Use(self.constraints, by_time, *found, self.overflow_directory)

    def changed(self, name: str, value: str) -> Settings:
        key = name.lower().removeprefix("penstock.")
        if key not in READERS:
            near = nearest(key, READERS)
            known = ", ".join(f"penstock.{k}" for k in READERS)
            hint = f"did you mean 'penstock.{near}'?" if near else f"use one of {known}"
            raise CatalogError(f"unknown setting {name!r}; {hint}")
        try:
            return replace(self, **{key: READERS[key](value)})
        except ValueError as error:
            raise CatalogError(f"{name} cannot be {value!r}; {error}") from None


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in choices:
            raise ValueError(f"use one of {', '.join(choices)}")
        return value.lower()

    return read


def _size(value: str) -> int | None:
    """Bytes: ``512 MB``, ``2 GB``; ``none`` for no limit."""
    if value.lower() == "none":
        return None
    found = re.fullmatch(r"(\d+)\s*([KMG]?B)", value.strip().upper())
    if found is None or not int(found[1]):
        raise ValueError("write a size such as 512 MB or 2 GB, or none")
    return int(found[1]) << _UNITS[found[2]]


def _number(value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value.strip()):
        raise ValueError("write a whole number such as 7")
    return int(value)


def _rows(value: str) -> int | None:
    if value.lower() == "none":
        return None
    if not re.fullmatch(r"\d{1,9}", value.strip()) or not int(value):
        raise ValueError("write a number of rows such as 50000, or none")
    return int(value)


def _at_end(value: str) -> str | None:
    """``complete``, the last instant alone, is 0 ticks more."""
    word = value.strip().lower()
    if word in ("none", "complete"):
        return None if word == "none" else "0"
    if not re.fullmatch(r"\d+(\.\d+)?( [a-z]+)?", word):
        raise ValueError("write complete, a length of time such as 1 HOUR, or none")
    return word


_SECONDS = {"millisecond": 1e-3, "ms": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}


def _seconds(value: str) -> float | None:
    """A length of time: ``10 SECONDS``, ``1 HOUR``; ``none`` for an unknown one."""
    if value.strip().lower() == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ([a-z]+?)s?", value.strip().lower())
    unit = found and (_SECONDS.get(found[2]) or _SECONDS.get(f"{found[2]}s"))
    if not found or not unit:
        raise ValueError("write a length of time such as 10 SECONDS, or none")
    return float(found[1]) * unit


def _weight(value: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", value.strip()) or not float(value):
        raise ValueError("write a number greater than 0, such as 2")
    return float(value)


def _slack(value: str) -> float | None:
    """The c of k-Mon."""
    if value.strip().lower() == "none":
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", value.strip()) or float(value) < 1:
        raise ValueError("write a number of at least 1, such as 1.2, or none")
    return float(value)


def _share(value: str) -> float | None:
    """The p of k-Mon."""
    if value.strip().lower() == "none":
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", value.strip()) or not 0 <= float(value) <= 1:
        raise ValueError("write a number between 0 and 1, such as 0.01, or none")
    return float(value)


def _trigger(value: str) -> str:
    """``available-now``, ``once``, or a period; in lower case."""
    found = " ".join(value.lower().split())
    period = re.fullmatch(r"\d+ (millisecond|second|minute|hour)s?", found)
    if period is None and found not in ("available-now", "once"):
        raise ValueError("write available-now, once, or a period such as '1 second'")
    return found


def _period(value: str) -> float:
    found = _seconds(value)
    if found is None:
        raise ValueError("write a period such as 1 SECOND, or 0 SECONDS for every batch")
    return found


def _directory(value: str) -> str | None:
    """The absolute path: engines run in other working directories."""
    if value.lower() == "none":
        return None
    if not value.strip():
        raise ValueError("write a directory, or none")
    return value.rstrip("/") if "://" in value or value.startswith("file:") else os.path.abspath(value)


def _local_directory(value: str) -> str | None:
    if "://" in value:
        raise ValueError("write the path of a local directory, which each machine has")
    return _directory(value)


CHOICES: dict[str, tuple[str, ...]] = {
    "filters": tuple(DEFAULTS),
    "join": ("adaptive", "mjoin", "xjoin", "tree"),
    "w_join": ("adaptive", *W_JOINS),
    "allocation": ("optimal", "proportional", "inverse", "equal", "max-a", "max-b"),
    "sharing": ("on", "off"),
    "constraints": ("declared", "off", "monitored", "monitored safe"),
    "scheduler": ("fifo", "round-robin", "greedy", "chain"),
    "access_method": ("adaptive", "hash", "b+tree", "t-tree", "scan"),
    "invalidation": ("adaptive", "active", "lazy"),
}

READERS: dict[str, Callable[[str], Any]] = {
    **{name: _one_of(choices) for name, choices in CHOICES.items()},
    "constraint_slack": _slack,
    "constraint_sample": _share,
    "constraint_window": _rows,
    "engine_memory": _size,
    "late_rows": _directory,
    "seed": _number,
    "memory": _size,
    "weight": _weight,
    "slice_rows": _rows,
    "cache_memory": _size,
    "at_end": _at_end,
    "memory_limit": _size,
    "overflow_directory": _local_directory,
    "trigger": _trigger,
    "checkpoint": _directory,
    "batch_span": _seconds,
    "sysstream": _directory,
    "sysstream_every": _period,
}
