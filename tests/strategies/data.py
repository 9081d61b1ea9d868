"""Inputs: streams with ties, gaps, bursts, duplicates and nulls, relations that change, static tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

INT, BIGINT, DOUBLE, STRING, BOOLEAN = "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN"
NUMBER, ROUGH = "NUMBER", "ROUGH"
"""Types of computed columns: a number that any order of adding up gives exactly, and one that is not so."""
NUMERIC = {INT, BIGINT, DOUBLE, NUMBER}
COLUMNS = {"a": INT, "b": BIGINT, "c": INT, "s": STRING, "t": STRING, "x": DOUBLE, "y": DOUBLE, "p": BOOLEAN}
LAST_INSTANT = 15

STREAM, RELATION, TABLE = "stream", "relation", "table"
KINDS = {"S": STREAM, "T": STREAM, "U": STREAM, "R": RELATION, "Q": RELATION, "D": TABLE}
"""The inputs by name."""

VALUES: dict[str, Sequence[Any]] = {
    INT: (1, 1, 1, 0, 0, 2, 3, -1, None),
    BIGINT: (1, 1, 0, 0, 2, 5, -7, 3_000_000_000, None),
    DOUBLE: (1.0, 1.0, 0.0, 0.0, 1.5, 2.0, -0.25, 0.0, 1.0, 3.75, None, -0.0, math.nan, math.inf),
    STRING: ("a", "a", "b", "", "ab", "B", "aé", None),
    BOOLEAN: (True, False, True, None),
    NUMBER: (1, 0, 2, 4, -1),
    ROUGH: (1, 0, 2),
}

Draw = Callable[..., Any]


@cache
def _sampled(options: tuple) -> st.SearchStrategy:
    return st.sampled_from(options)


def pick(draw: Draw, *options: Any) -> Any:
    """One of the options; the first is the simplest."""
    return options[0] if len(options) == 1 else draw(_sampled(options))


def chance(draw: Draw, one_in: int) -> bool:
    """True now and then."""
    return draw(_sampled((False,) * (one_in - 1) + (True,)))


def some(draw: Draw, options: Sequence[Any], least: int, most: int) -> list[Any]:
    """A few different ones of the options."""
    return draw(st.lists(_sampled(tuple(options)), min_size=least, max_size=most, unique=True))


@dataclass(frozen=True)
class Input:
    """An input that a query reads."""

    name: str
    kind: str
    columns: dict[str, str]

    def schema(self) -> str:
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())


def new_input(draw: Draw, name: str) -> Input:
    """Columns for an input; all have the key ``a``, so that every two can be joined."""
    others = some(draw, [c for c in COLUMNS if c != "a"], 0, 3)
    return Input(name, KINDS[name], {c: COLUMNS[c] for c in ["a", *others]})


def timestamps(draw: Draw, most: int) -> list[int]:
    """Instants in order, with ties, gaps and bursts."""
    size = pick(draw, 2, 4, most, most, most, most, most, most, 0)
    gaps = draw(st.lists(_sampled((0, 0, 1, 1, 2, 5)), min_size=size, max_size=size))
    instants, now = [], pick(draw, 0, 1, 4)
    for gap in gaps:
        now = min(now + gap, LAST_INSTANT)
        instants.append(now)
    return instants


def elements(draw: Draw, source: Input, most: int) -> list[Any]:
    """A finite stream, relation or table."""
    row = st.fixed_dictionaries({name: _sampled(tuple(VALUES[t])) for name, t in source.columns.items()})
    rows: list[tuple[int, dict[str, Any]]] = []
    for ts in timestamps(draw, most):
        again = rows and chance(draw, 6)
        rows.append((ts, rows[pick(draw, *range(len(rows)))][1] if again else draw(row)))
    if source.kind == TABLE:
        return [row for _, row in rows] or [{c: None for c in source.columns}]
    return _changing(draw, rows) if source.kind == RELATION else rows


def _changing(draw: Draw, rows: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """Changes in order; what leaves is there at that time."""
    changes, there = [], []
    for ts, row in rows:
        if there and chance(draw, 3):
            changes.append((ts, "-", there.pop(pick(draw, *range(len(there))))))
        else:
            there.append(row)
            changes.append((ts, "+", row))
    return changes
