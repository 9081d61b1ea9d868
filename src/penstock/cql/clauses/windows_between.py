"""WINDOW after FROM: windows between streams (Hammad, Aref, Elmagarmid: "Joining multiple data streams").

``WINDOW w`` bounds the time between any two streams, ``WINDOW (A, B) w`` that between two, ``DWINDOW (A, B)
w`` also says that A is first, ``WINDOW PATH (A, B, C) (v, w)`` that the rows come in this order or in the
reverse one, neighbours within v and w. The bounds are conditions of the join. A stream without a window of
its own gets ``[RANGE b]``, where b is how long a row of it may wait for others: see ``WindowGraph.reach``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

from sqlglot import exp

from penstock.cql.clauses.joins import Joined, JoinInput
from penstock.cql.clauses.windows import BETWEEN
from penstock.cql.names.context import Context
from penstock.cql.names.scope import Item, Scope
from penstock.cql.syntax.duration import is_bare, ticks
from penstock.cql.syntax.errors import did_you_mean, error
from penstock.cql.syntax.nodes import StreamsWindow, WindowClause
from penstock.plan.budgeted import replaced
from penstock.plan.logical import Logical, OuterJoin, Window, WindowGraph, WindowSpec, walk
from penstock.plan.logical.w_join import Given, UnconnectedError, conditions
from penstock.schema import MOST_TICKS, TimeDomain

AFTER_FROM = ("where", "group", "having", "qualify", "order", "limit")


def with_windows(joined: Joined, clause: WindowClause, select: exp.Select, context: Context) -> Joined:
    """The join of FROM with the windows between its streams."""
    _check_place(clause, select)
    every = {i.alias: i for i in joined.scope.items if isinstance(i.node, Window)}
    clauses = [(node, _names(node, joined.scope, every)) for node in clause.expressions]
    members = _members(clauses, every)
    if len(members) < 2:
        raise _too_few(every, clause)
    given, path = Given(), tuple[int, ...]()
    for node, names in clauses:
        among = [members.index(n) for n in names or members]
        for note in _notes(node, context.time):
            context.note(note)
        for i, j, most in _bounds(node, among, context.time):
            given[i, j] = min(most, given.get((i, j), most))
        if node.args["kind"] == "path":
            if path:
                raise error("WINDOW PATH is given twice", node, "write one path over all of its streams")
            path = tuple(among)
    stamped_items = [every[name].node.stamped() for name in members]
    columns = tuple(found[0].name for _, found in stamped_items)
    graph = _graph(columns, given, path, members, clause)
    nodes = {}
    for k, name in enumerate(members):
        nodes[name] = _windowed(stamped_items[k][0], name, graph.reach(k), context)
    result = _with_nodes(joined, every, nodes)
    _check_filled(result, clause)
    _warn_of_outer_joins(result, columns, context)
    every_condition = [*joined.conjuncts, *conditions(columns, given, path)]
    return replace(result, conjuncts=every_condition, between=_of_inputs(graph, result.inputs))


def _check_place(clause: WindowClause, select: exp.Select) -> None:
    later = [select.args[arg] for arg in AFTER_FROM if select.args.get(arg)]
    if any(node.meta["start"] < clause.meta["start"] for node in later):
        raise error("WINDOW must stand between FROM and WHERE", clause, "move it to the end of FROM")


# names


def _names(node: StreamsWindow, scope: Scope, streams: dict[str, Item]) -> list[str]:
    """The aliases that a window names; none if it is between all streams."""
    word = {"window": "WINDOW", "dwindow": "DWINDOW", "path": "WINDOW PATH"}[node.args["kind"]]
    found = [_stream(name, word, scope, streams) for name in node.expressions]
    twice = next((n for k, n in enumerate(found) if n in found[:k]), None)
    if twice is not None:
        hint = "give the stream two aliases, as in S AS x, S AS y"
        raise error(f"'{twice}' occurs twice in {word}", node, hint)
    if found and node.args["kind"] != "path" and len(found) != 2:
        hint = "write a WINDOW for each pair, with AND between, or WINDOW without streams for all pairs"
        raise error(f"{word} takes two streams, not {len(found)}", node, hint)
    if node.args["kind"] == "path" and len(node.args["sizes"]) != len(found) - 1:
        lengths = f"{len(found) - 1} lengths of time for {len(found)} streams, not {len(node.args['sizes'])}"
        hint = "write e.g. WINDOW PATH (A, B, C) (5 SECONDS, 2 SECONDS)"
        raise error(f"WINDOW PATH takes {lengths}", node, hint)
    return found


def _stream(name: exp.Expr, word: str, scope: Scope, streams: dict[str, Item]) -> str:
    item = scope.item(name.name)
    if item is None:
        aliases = [i.alias for i in scope.items]
        hint = did_you_mean(name.name, aliases, f"FROM has {', '.join(aliases)}")
        raise error(f"'{name.name}' is not in FROM", name, hint)
    if item.alias not in streams:
        hint = "name streams only; a relation is joined as it is at each instant"
        raise error(f"{word} takes streams, and '{item.alias}' has no timestamps", name, hint)
    return item.alias


def _members(clauses: list[tuple[StreamsWindow, list[str]]], streams: dict[str, Item]) -> list[str]:
    """The streams that windows are between: all, if some window names none, or those that are named and
    those that have no window of their own.
    """
    if any(not names for _, names in clauses):
        return list(streams)
    named = {n for _, names in clauses for n in names}
    return [n for n, i in streams.items() if n in named or _spec(i.node) is BETWEEN]


def _spec(node: Logical) -> WindowSpec | None:
    return node.spec if isinstance(node, Window) else None


def _too_few(streams: dict[str, Item], clause: WindowClause) -> Exception:
    hint = "write it in brackets after the stream, as in S [RANGE 5 SECONDS]"
    there = f"FROM has only '{next(iter(streams))}'" if streams else "FROM has none"
    return error(f"WINDOW needs two or more streams, and {there}", clause, hint if streams else None)


# bounds


def _bounds(node: StreamsWindow, among: list[int], time: TimeDomain) -> Iterator[tuple[int, int, int]]:
    """By two streams, the most by which the second may be later than the first."""
    kind = node.args["kind"]
    what = "WINDOW PATH" if kind == "path" else kind.upper()
    lengths = [ticks(size, time, what) for size in node.args["sizes"]]
    if kind == "path":
        for (i, j), most in zip(pairwise(among), lengths, strict=True):
            yield from ((i, j, most), (j, i, most))
    elif kind == "dwindow":
        yield from ((*among, lengths[0]), (*reversed(among), 0))  # type: ignore[misc]
    else:
        for i, j in combinations(among, 2):
            yield from ((i, j, lengths[0]), (j, i, lengths[0]))


def _notes(node: StreamsWindow, time: TimeDomain) -> Iterator[str]:
    if any(is_bare(size) for size in node.args["sizes"]):
        yield f"a bare number of WINDOW counts ticks: one tick is one {time.unit[:-1]}"


def _graph(
    columns: tuple[str, ...],
    given: Given,
    path: tuple[int, ...],
    members: Sequence[str],
    clause: WindowClause,
) -> WindowGraph:
    try:
        graph = WindowGraph.closed(columns, given, path)
    except UnconnectedError as failure:
        first, *others = (", ".join(f"'{members[i]}'" for i in group) for group in failure.groups)
        hint = "add a WINDOW between them, or write a window in brackets after a stream that none is for"
        raise error(f"no WINDOW connects {first} with {' or '.join(others)}", clause, hint) from None
    if graph.span > MOST_TICKS:
        raise error("the windows add up to a length that is too long", clause, "write shorter ones")
    return graph


# windows of streams


def _windowed(node: Logical, name: str, reach: int, context: Context) -> Logical:
    """A stream under its own window, or under the one that follows from the clause."""
    assert isinstance(node, Window)
    if node.spec is not BETWEEN:
        return node
    text = "[NOW]" if reach == 0 else f"[RANGE {context.time.length(reach)}]"
    context.note(f"{name} has no window: {text} follows from WINDOW")
    return replace(node, spec=WindowSpec("range", reach, text=text))


def _with_nodes(joined: Joined, items: dict[str, Item], nodes: dict[str, Logical]) -> Joined:
    """The join with the plans of some of its items replaced."""
    inputs = joined.inputs
    for name, node in nodes.items():
        old = items[name].node
        inputs = [replace(i, node=replaced(i.node, old, node)) for i in inputs]
    found = [replace(i, node=nodes.get(i.alias, i.node)) for i in joined.scope.items]
    return replace(joined, inputs=inputs, scope=replace(joined.scope, items=found))


def _check_filled(joined: Joined, clause: WindowClause) -> None:
    """Reject streams without window that the clause cannot name: the right side of a semijoin."""
    for node in (n for i in joined.inputs for n in walk(i.node)):
        if _spec(node) is BETWEEN:
            alias = node.schema.names[0].rpartition(".")[0]
            hint = f"write one in brackets after '{alias}'"
            raise error(f"WINDOW gives no window to '{alias}' of a semijoin", clause, hint)


def _warn_of_outer_joins(joined: Joined, columns: Sequence[str], context: Context) -> None:
    """The windows are conditions of WHERE, which rows without a partner do not satisfy."""
    outer = [n for i in joined.inputs for n in walk(i.node) if isinstance(n, OuterJoin)]
    without = {"left": lambda j: (j.right,), "right": lambda j: (j.left,), "full": lambda j: j.inputs}
    sides = [side for join in outer for side in without[join.kind](join)]
    if any(c in side.schema.names for side in sides for c in columns):
        context.warn(
            "WINDOW drops the rows of the outer join that have no partner; to keep them, leave the stream "
            "out of WINDOW, give it a window in brackets and write the bound in ON"
        )


def _of_inputs(graph: WindowGraph, inputs: Sequence[JoinInput]) -> WindowGraph | None:
    """The windows between inputs of the join that are streams, and not parts of outer joins."""
    alone = {n for i in inputs if isinstance(i.node, Window) for n in i.node.schema.names}
    members = [k for k, column in enumerate(graph.columns) if column in alone]
    return graph.among(members) if len(members) > 1 else None
