"""Streams R, S, T, U, a relation Q and a table X for tests of exchanges: what they are, and some rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from penstock.catalog import Input, TableDef

SCHEMA = "a BIGINT, b BIGINT, c STRING"
COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])
CATALOG: dict[str, Any] = {
    **{name: Input(name, COLUMNS) for name in "RSTU"},
    "Q": Input("Q", COLUMNS, kind="relation"),
    "X": TableDef("X", COLUMNS),
}


def data(seed: int) -> dict[str, list[Any]]:
    """Some of everything: ties, NULLs, one value more often than others."""
    random = Random(seed)

    def row() -> dict[str, Any]:
        pick = lambda *values: random.choice(values)  # noqa: E731
        return {"a": pick(1, 1, 1, 2, 3, None), "b": pick(0, 1, 2, 3, None), "c": pick("x", "y", None)}

    def stamps(count: int) -> list[int]:
        return sorted(random.randrange(12) for _ in range(count))

    streams: dict[str, list[Any]] = {name: [(ts, row()) for ts in stamps(9)] for name in "RSTU"}
    came = [(ts, row()) for ts in stamps(6)]
    left = [(ts + 4, "-", r) for ts, r in came[::2]]
    streams["Q"] = sorted([*((ts, "+", r) for ts, r in came), *left], key=lambda e: e[0])
    return {**streams, "X": [row() for _ in range(4)]}
