"""Windows: from brackets to a WindowSpec, with the default where a stream has none."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.cql.names.context import Context
from penstock.cql.names.scope import Item, Scope
from penstock.cql.syntax.duration import is_bare, ticks, written
from penstock.cql.syntax.errors import error
from penstock.cql.syntax.nodes import StreamWindow
from penstock.expression import Column
from penstock.plan.logical import BoundedWindow, Window, WindowSpec
from penstock.plan.logical.bounded_window import WINDOW_END, WINDOW_START
from penstock.schema import MOST_TICKS, TimeDomain

UNBOUNDED = WindowSpec("rows", None, text="[ROWS UNBOUNDED]")
BETWEEN = WindowSpec("range", None, text="WINDOW")
"""In place of the window of a stream that gets its own from a WINDOW clause."""


def windowed(stream: Item, node: StreamWindow | None, context: Context) -> Item:
    """A stream in FROM under the window in its brackets, or under the one that is filled in."""
    if node is None and context.between:
        return Item.of(stream.alias, Window(stream.node, BETWEEN))
    if node is None:
        context.note(f"{stream.alias} has no window: [ROWS UNBOUNDED] is filled in")
        return Item.of(stream.alias, Window(stream.node, UNBOUNDED))
    for note in _notes_on(node, stream, context.time):
        context.note(note)
    spec = window_spec(node, stream, context.time)
    for warning in _warnings_of(spec, stream):
        context.warn(warning)
    if spec.kind not in ("hop", "session"):
        return Item.of(stream.alias, Window(stream.node, spec))
    taken = [name for name in stream.columns if name.lower() in (WINDOW_START, WINDOW_END)]
    if taken:
        hint = "select it AS another name in a subquery, and write the window after that"
        raise error(f"'{stream.alias}' has a column '{taken[0]}' already", node, hint)
    window = BoundedWindow(stream.node, spec, alias=stream.alias, time_type=context.time.ts_type)
    return Item.of(stream.alias, window)


def window_spec(node: StreamWindow, stream: Item, time: TimeDomain) -> WindowSpec:
    """The window that is written in a stream's brackets."""
    spec = replace(_SPECS[node.args["kind"]](node, time), text=node.args["text"])
    keys = tuple(_key(c, Scope.of(stream)) for c in node.args.get("partition_by") or ())
    if spec.kind in ("range", "hop") or (spec.size is None and spec.slide is None):
        return spec  # each group of it holds the same rows as the whole
    return replace(spec, partition_by=keys)


def _notes_on(node: StreamWindow, stream: Item, time: TimeDomain) -> list[str]:
    """Notes for explain: a bare number was read as ticks, PARTITION BY has no effect."""
    notes, text = [], f"{node.args['text']} of {stream.alias}"
    bare = is_bare(node.args.get("size")) or is_bare(node.args.get("slide"))
    if node.args["kind"] != "rows" and bare:
        notes.append(f"{text} counts ticks: one tick is one {time.unit[:-1]}")
    if node.args["kind"] not in ("rows", "session") and node.args.get("partition_by"):
        notes.append(f"{text} holds the same rows as without PARTITION BY")
    return notes


def _warnings_of(spec: WindowSpec, stream: Item) -> list[str]:
    """Warnings of a SLIDE that rows fall through, or of windows that share the rows of one tick."""
    if spec.kind != "range" or spec.size is None or spec.slide is None:
        return []
    text = f"{spec.text} of {stream.alias}"
    if spec.size + 1 < spec.slide:
        return [f"{text} leaves gaps: rows between its windows are in none; write [TUMBLE ...]"]
    if spec.slide > 1 and spec.size % spec.slide == 0:
        instead = "TUMBLE" if spec.size == spec.slide else "HOP"
        return [f"{text} overlaps by a tick: rows at both of its ends are in it; write [{instead} ...]"]
    return []


def _now(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    if node.args.get("slide"):
        raise error("NOW has no SLIDE", node.args["slide"], "write [RANGE t SLIDE t]")
    return WindowSpec("range", 0)


def _range(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    size, slide = node.args.get("size"), node.args.get("slide")
    return WindowSpec(
        "range",
        None if size is None else ticks(size, time, "RANGE"),
        slide=None if slide is None else ticks(slide, time, "SLIDE", least=1),
    )


def _rows(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    size, slide = node.args.get("size"), node.args.get("slide")
    return WindowSpec(
        "rows",
        None if size is None else _row_count(size, "ROWS", "is not a window"),
        slide=None if slide is None else _row_count(slide, "SLIDE", "is not a number of rows"),
    )


def _tumble(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    size = ticks(node.args["size"], time, "TUMBLE", least=1)
    return WindowSpec("hop", size, slide=size)


def _hop(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    size = ticks(node.args["size"], time, "HOP", least=1)
    slide = ticks(node.args["slide"], time, "EVERY", least=1)
    if slide > size:
        raise error(
            f"EVERY {written(node.args['slide'])} is longer than the window, so rows would be in none",
            node.args["slide"],
            "it must be at most the length of the window; filter [TUMBLE ...] by window_start for less",
        )
    return WindowSpec("hop", size, slide=slide)


def _session(node: StreamWindow, time: TimeDomain) -> WindowSpec:
    return WindowSpec("session", ticks(node.args["size"], time, "SESSION", least=1))


_SPECS = {"now": _now, "range": _range, "rows": _rows, "tumble": _tumble, "hop": _hop, "session": _session}


def _row_count(size: exp.Expr, word: str, what: str) -> int:
    try:
        count = int(size.name)
    except ValueError:
        count = 0
    if count < 1:
        raise error(f"{word} {size.name} {what}", size, "write a whole number of at least 1")
    if count > MOST_TICKS:
        hint = "use UNBOUNDED" if word == "ROWS" else "write a smaller number"
        raise error(f"{word} {size.name} is too large", size, hint)
    return count


def _key(node: exp.Expr, scope: Scope) -> str:
    column = scope.column(node) if isinstance(node, exp.Column) else None
    if not isinstance(column, Column):
        raise error("PARTITION BY takes columns of the stream", node)
    return column.name
