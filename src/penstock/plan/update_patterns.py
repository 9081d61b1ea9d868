"""What can be said of a relation's changes from the logical plan alone."""

from __future__ import annotations

from penstock.expression import Column
from penstock.plan import logical


def grows(node: logical.Logical) -> bool:
    """Whether rows only ever enter the relation."""
    match node:
        case logical.Window(_, spec):
            return spec.size is None
        case logical.TableSource():
            return True
        case logical.Join() | logical.Select() | logical.Project():
            return all(grows(i) for i in logical.inputs(node))
        case logical.SetOperation(left, right, "union", True):
            return grows(left) and grows(right)
    return False


def distinct_lives(relation: logical.Logical) -> bool:
    """Whether rows that are equal also begin and end together: they show every part's timestamp."""
    if not isinstance(relation, logical.Project) or not _joins_windows(relation.input):
        return False
    shown = {e.name for _, e in relation.columns if isinstance(e, Column)}
    windows = [n for n in logical.walk(relation.input) if isinstance(n, logical.Window)]
    return bool(windows) and all(_shows_time(window, shown) for window in windows)


def _joins_windows(node: logical.Logical) -> bool:
    """Whether a relation is a join of windows over registered streams and of tables, with filters."""
    if isinstance(node, logical.Window):
        return logical.stream_of(node) is not None
    kinds = logical.Join | logical.Select | logical.TableSource
    return isinstance(node, kinds) and all(_joins_windows(i) for i in logical.inputs(node))


def _shows_time(window: logical.Window, shown: set[str]) -> bool:
    source = logical.stream_of(window)
    assert source is not None
    stamp = source.stream.options.timestamp
    return not window.spec.by_rows and stamp is not None and f"{source.alias}.{stamp}" in shown


def passes_on(root: logical.Logical) -> bool:
    """Whether a query shows results as they are found, so that none can cancel another.

    RSTREAM shows what is there, row by row; ISTREAM does where rows only enter or no two that are equal meet.
    """
    if not isinstance(root, logical.ToStream):
        return False
    return root.kind == "rstream" or (
        root.kind == "istream" and (grows(root.input) or distinct_lives(root.input))
    )
