"""relation-to-stream: the operator a query names, or ISTREAM where a result only grows."""

from __future__ import annotations

from sqlglot import exp

from penstock.cql.names.context import Context
from penstock.cql.syntax.duration import ticks
from penstock.cql.syntax.errors import error
from penstock.cql.syntax.nodes import RelationToStream
from penstock.plan.logical import Logical, ToStream


def to_stream(root: Logical, operator: RelationToStream, context: Context) -> ToStream:
    """A relation under the operator that the query names."""
    kind, every = operator.args["kind"], operator.args.get("every")
    kind, _, every_row = kind.partition(" ")
    if root.is_static:
        raise error(f"{kind.upper()} needs a stream or relation; this query reads only tables", operator)
    if every is None:
        if every_row:
            _check_all(root, operator)
        elif kind == "rstream":
            _warn_of_clock(root, context)
        elif kind == "istream":
            _warn_of_equal_windows(root, context)
        return ToStream(root, kind, all=bool(every_row))
    if kind != "rstream":
        raise error(f"EVERY applies to RSTREAM, not to {kind.upper()}", every)
    return ToStream(root, kind, ticks(every, context.time, "EVERY", least=1))


def _check_all(root: Logical, operator: RelationToStream) -> None:
    """Reject ISTREAM ALL of rows that may leave and enter again for other reasons than their own parts."""
    if root.unfixed:
        raise error(
            f"ISTREAM ALL is for joins, filters and projections of time windows, not for {root.unfixed}",
            operator,
            "write ISTREAM, which compares the result at each instant with that at the instant before",
        )


def _warn_of_clock(root: Logical, context: Context) -> None:
    """A relation that stays for long is output at each of its ticks; one that comes between them never is."""
    time, windows = context.time, [w.spec for w in root.windows]
    if time.kind == "timestamp" and any(w.kind == "session" for w in windows):
        context.warn(
            "RSTREAM outputs the relation at instants with input, and a session is in it only at its end, "
            "when there is rarely any; write ISTREAM"
        )
    if time.kind == "integer" and time.unit != "seconds" and not any(w.is_now for w in windows):
        context.warn(
            f"RSTREAM outputs the whole relation at every tick, which is one {time.unit.removesuffix('s')}; "
            "write EVERY after RSTREAM(...), as in EVERY 1 SECOND, for less"
        )


def _warn_of_equal_windows(root: Logical, context: Context) -> None:
    """A row that the next window has too does not enter again."""
    windows = [w for w in root.windows if w.spec.is_bounded]
    if windows and not root.bounds:
        context.warn(
            f"ISTREAM does not show a row of {windows[0].spec.text} that the window before had too; "
            "select window_start or window_end with it"
        )


def as_stream(root: Logical, name: str, window: exp.Expr, context: Context) -> ToStream:
    """A query without operator under a window: a stream if it only grows, else an error."""
    if root.is_static or not root.only_grows:
        raise error(
            f"'{name}' is a relation and takes no window",
            window,
            "only streams take windows: write ISTREAM( ) around its SELECT list",
        )
    context.note(f"{name} only grows, so it is streamed: ISTREAM is filled in")
    return ToStream(root, "istream")
