"""A query over a few rows: the changes of its result, and what its windows hold, instant by instant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import penstock
from penstock import cql
from penstock.catalog import Catalog
from penstock.errors import DataError
from penstock.evaluation import plan_of, read_inputs
from penstock.plan.logical import Logical, Window, sources
from penstock.schema import TimeDomain
from penstock.server.examples import Inputs
from penstock.server.settings import PLAY_MOST_CHANGES, PLAY_MOST_ROWS, PLAY_MOST_TEXT


@dataclass(frozen=True)
class Life:
    """A row in a window or result from an instant on until another, None if it does not leave."""

    text: str
    start: int
    end: int | None
    momentary: bool = False


@dataclass(frozen=True)
class Lane:
    """The rows of an input, a window or the result (``kind``), in order of time."""

    title: str
    kind: str
    lives: tuple[Life, ...]


@dataclass(frozen=True)
class Played:
    """What a query does with some rows. ``changes`` are as of ``penstock.evaluate``."""

    columns: tuple[str, ...] = ()
    is_stream: bool = False
    changes: tuple[tuple[int, str, tuple[Any, ...]], ...] = ()
    lanes: tuple[Lane, ...] = ()
    left_out: int = 0
    last: int = 0
    """The last instant."""


def play(text: str, inputs: Inputs) -> Played:
    """Evaluate a query, and each of its windows alone."""
    if len(text) > PLAY_MOST_TEXT:
        raise DataError(f"the text has more than {PLAY_MOST_TEXT:,} characters")
    rows = sum(map(len, inputs.rows.values()))
    if rows > PLAY_MOST_ROWS:
        raise DataError(f"{rows} rows are more than the {PLAY_MOST_ROWS} that are tried here")
    finite = read_inputs(inputs.rows, inputs.schemas, TimeDomain("integer", "seconds"))
    catalog = finite.catalog()
    plan = plan_of(text, catalog, (), 1)
    found = penstock.evaluate(text, inputs.rows, inputs.schemas, until=inputs.until)
    last = finite.last_instant(inputs.until) or 0
    shown = [(ts, sign, tuple(row.values())) for ts, sign, row in found]
    is_stream = plan.kind == "stream"
    lanes = [*_inputs(inputs), *_windows(text, catalog, inputs)]
    lanes.append(Lane("result", "result", tuple(_lives(shown[:PLAY_MOST_CHANGES], is_stream))))
    left_out = max(0, len(shown) - PLAY_MOST_CHANGES)
    return Played(
        tuple(plan.schema.names), is_stream, tuple(shown[:PLAY_MOST_CHANGES]), tuple(lanes), left_out, last
    )


def _inputs(inputs: Inputs) -> Iterator[Lane]:
    for name, rows in inputs.rows.items():
        if rows and not isinstance(rows[0], dict):
            elements = [(e[0], e[1] if len(e) == 3 else "+", tuple(e[-1].values())) for e in rows]
            is_stream = len(rows[0]) == 2
            yield Lane(name, "input", tuple(_lives(sorted(elements, key=lambda e: e[0]), is_stream)))


def _windows(text: str, catalog: Catalog, inputs: Inputs) -> Iterator[Lane]:
    """Each different window of a query, over its stream alone."""
    query = cql.bind(_last(text), catalog)
    seen = set()
    for node in _nodes(query.root):
        if not isinstance(node, Window) or not node.spec.text:
            continue
        streams = sources(node)
        if len(streams) != 1 or (title := f"{streams[0].definition.name} {node.spec.text}") in seen:
            continue
        seen.add(title)
        name = streams[0].definition.name
        if name in inputs.rows:
            changes = penstock.evaluate(
                f"SELECT * FROM {title}", inputs.rows, inputs.schemas, until=inputs.until
            )
            lives = _lives([(ts, sign, tuple(row.values())) for ts, sign, row in changes], False)
            yield Lane(title, "window", tuple(lives))


def _last(text: str) -> cql.SelectStatement:
    statement = cql.parse(text)[-1]
    assert isinstance(statement, cql.SelectStatement), "it was evaluated"
    return statement


def _nodes(node: Logical) -> Iterator[Logical]:
    yield node
    for below in node.inputs:
        yield from _nodes(below)


def _lives(changes: Sequence[tuple[int, str, tuple[Any, ...]]], is_stream: bool) -> Iterator[Life]:
    """Rows with when they come and go: of equal rows, the first that came goes first."""
    if is_stream:
        yield from (Life(shown(row), ts, ts, True) for ts, _, row in changes)
        return
    there: dict[tuple[Any, ...], list[int]] = {}
    found = []
    for ts, sign, row in changes:
        if sign == "+":
            there.setdefault(row, []).append(ts)
        elif there.get(row):
            found.append(Life(shown(row), there[row].pop(0), ts))
    found += [Life(shown(row), ts, None) for row, starts in there.items() for ts in starts]
    yield from sorted(found, key=lambda life: (life.start, life.end or 0, life.text))


def shown(row: Sequence[Any]) -> str:
    """A row as a text."""
    return ", ".join("NULL" if v is None else str(v) for v in row)
