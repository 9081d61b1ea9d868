"""Inputs: streams with ties, gaps, bursts, duplicates and nulls, relations that change, static tables."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from strategies.choices import Choices

INT, BIGINT, DOUBLE, STRING, BOOLEAN = "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN"
DECIMAL, MOMENT, INSTANT = "DECIMAL(9,2)", "TIMESTAMP_NTZ", "TIMESTAMP"
LENGTH = "INTERVAL DAY TO SECOND"
TIMES = {MOMENT, INSTANT}
NUMBER, ROUGH = "NUMBER", "ROUGH"
"""Types of computed columns: a number that any order of adding up gives exactly, and one that is not so."""
NUMERIC = {INT, BIGINT, DOUBLE, NUMBER}
COLUMNS = {"a": INT, "b": BIGINT, "c": INT, "s": STRING, "t": STRING, "x": DOUBLE, "y": DOUBLE, "p": BOOLEAN,
           "d": DECIMAL, "m": MOMENT, "n": MOMENT, "z": INSTANT}  # fmt: skip
LAST_INSTANT = 15

STREAM, RELATION, TABLE = "stream", "relation", "table"
KINDS = {"S": STREAM, "T": STREAM, "U": STREAM, "R": RELATION, "Q": RELATION, "D": TABLE}
"""The inputs by name."""

# In Berlin 2:30 never came on 31 March 2024, and came twice on 27 October; in New York 1:30 on 3 November.
_MOMENTS = (*(dt.datetime(2024, 2, 28 + n, 23, 59, 58 + n) for n in (0, 0, 1, 1)),
            dt.datetime(2024, 2, 29, 0, 0, 0, 500_000), dt.datetime(2024, 3, 31, 1, 30),
            dt.datetime(2024, 10, 27, 0, 30), dt.datetime(2024, 11, 3, 6, 30))  # fmt: skip
VALUES: dict[str, Sequence[Any]] = {
    INT: (1, 1, 1, 1, 0, 0, 0, 2, 2, 3, -1, None),
    BIGINT: (1, 1, 1, 1, 0, 0, 0, 2, 5, -7, 3_000_000_000, None),
    DOUBLE: (1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.5, 2.0, -0.25, 2.0, 3.75, None, -0.0, math.nan, math.inf),
    STRING: ("a", "a", "a", "b", "b", "", "ab", "B", "aé", None),
    BOOLEAN: (True, False, True, None),
    DECIMAL: tuple(Decimal(v) if v else None for v in ("1.00", "1.00", "0.50", "2.25", "-7.10", "0.00", "")),
    MOMENT: (*_MOMENTS, None),
    INSTANT: (*(m.replace(tzinfo=dt.UTC) for m in _MOMENTS), None),
    LENGTH: tuple(dt.timedelta(seconds=n) for n in (0, 1, 86_401)),
    NUMBER: (1, 0, 2, 4, -1),
    ROUGH: (1, 0, 2),
}


@dataclass(frozen=True)
class Input:
    """An input that a query reads."""

    name: str
    kind: str
    columns: dict[str, str]

    def schema(self) -> str:
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())


def new_input(choices: Choices, name: str) -> Input:
    """Columns for an input; all have the key ``a``, so that every two can be joined."""
    others = choices.some([c for c in COLUMNS if c != "a"], 0, 3)
    return Input(name, KINDS[name], {c: COLUMNS[c] for c in ["a", *others]})


def timestamps(choices: Choices, most: int) -> list[int]:
    """Instants in order, with ties, gaps and bursts."""
    size = choices.pick(2, 1, 4, *[most] * 20, 0)
    instants, now = [], choices.pick(0, 1, 4)
    for _ in range(size):
        now = min(now + choices.pick(0, 0, 1, 1, 2, 5), LAST_INSTANT)
        instants.append(now)
    return instants


def elements(choices: Choices, source: Input, most: int) -> list[Any]:
    """A finite stream, relation or table."""
    rows: list[tuple[int, dict[str, Any]]] = []
    for ts in timestamps(choices, most):
        if rows and choices.chance(6):
            row = choices.pick(*(row for _, row in rows))
        else:
            row = {name: choices.pick(*VALUES[type_]) for name, type_ in source.columns.items()}
        rows.append((ts, row))
    if source.kind == TABLE:
        return [row for _, row in rows] or [{c: None for c in source.columns}]
    if source.kind == RELATION:  # one without changes would be taken for a stream
        return _changing(choices, rows or [(0, {c: None for c in source.columns})])
    return rows


def _changing(choices: Choices, rows: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """Changes in order; what leaves is there at that time."""
    changes, there = [], []
    for ts, row in rows:
        if there and choices.chance(3):
            changes.append((ts, "-", there.pop(choices.index(len(there)))))
        else:
            there.append(row)
            changes.append((ts, "+", row))
    return changes
