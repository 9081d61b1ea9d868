"""Windows: from brackets to a WindowSpec, with the default where a stream has none."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog import StreamDef
from penstock.cql.duration import is_bare, ticks
from penstock.cql.errors import error, unsupported
from penstock.cql.nodes import StreamWindow
from penstock.cql.scope import Item, Scope
from penstock.plan.logical import StreamSource, WindowSpec

UNBOUNDED = WindowSpec("rows", None, text="[ROWS UNBOUNDED]")


def window_spec(node: StreamWindow, source: StreamSource) -> WindowSpec:
    """The window that a stream's brackets ask for."""
    if node.args.get("partition_by"):
        return _partitioned(node, source)
    return _SPECS[node.args["kind"]](node, source.stream)


def note_on(node: StreamWindow, source: StreamSource) -> str | None:
    """What explain should say about a window: that a bare number was read as ticks."""
    size = node.args.get("size")
    if not is_bare(size) or node.args["kind"] != "range":
        return None
    return (
        f"{node.args['text']} of {source.alias} counts ticks: one tick is one {source.stream.time.unit[:-1]}"
    )


def _now(node: StreamWindow, stream: StreamDef) -> WindowSpec:
    return WindowSpec("range", 0, text=node.args["text"])


def _range(node: StreamWindow, stream: StreamDef) -> WindowSpec:
    size = node.args.get("size")
    length = None if size is None else ticks(size, stream.time, "RANGE")
    return WindowSpec("range", length, text=node.args["text"])


def _rows(node: StreamWindow, stream: StreamDef) -> WindowSpec:
    size = node.args.get("size")
    return WindowSpec("rows", None if size is None else _row_count(size), text=node.args["text"])


_SPECS = {"now": _now, "range": _range, "rows": _rows}


def _row_count(size: exp.Expr) -> int:
    try:
        count = int(size.name)
    except ValueError:
        count = 0
    if count < 1:
        raise error(f"ROWS {size.name} is not a window", size, "write a whole number of at least 1")
    return count


def _partitioned(node: StreamWindow, source: StreamSource) -> WindowSpec:
    if node.args["kind"] != "rows":
        raise unsupported(f"PARTITION BY with {node.args['kind'].upper()}", node)
    scope = Scope([Item.of(source.alias, source)])
    keys = tuple(scope.column(c).name for c in node.args["partition_by"])
    spec = _rows(node, source.stream)
    return spec if spec.size is None else WindowSpec("rows", spec.size, keys, spec.text)
