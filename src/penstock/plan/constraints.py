"""Which constraints a join can exploit: what is declared of its streams, in terms of its inputs and keys.

A constraint of a stream is one of the join if the columns that it names are joined. Keys are also found in
the query: ``[PARTITION BY k ROWS 1]``, DISTINCT and GROUP BY have one row for each key, at any instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from penstock.constraint import Constraints, Reference, Use, Within
from penstock.engine.joins.join_constraints import (
    Counted,
    InputArrival,
    InputKey,
    InputReference,
    JoinConstraints,
)
from penstock.errors import CatalogError
from penstock.expression import Column, Expression
from penstock.functions import types
from penstock.plan.facts import reads
from penstock.plan.join_graph import join_graph
from penstock.plan.logical.operator import Logical, StreamRows, leaves
from penstock.routing import Route
from penstock.schema import sql_name


@dataclass(frozen=True)
class _Input:
    """An input of the join: its label, the keys of its relation, and the stream that its rows are of."""

    label: str
    node: Logical
    joined: Mapping[str, int]
    """By column, the class of keys that it is in."""

    @property
    def rows(self) -> StreamRows | None:
        return self.node.stream_rows

    def class_of(self, column: str) -> int | None:
        """The class that a column of the stream is in."""
        names = self.rows.names if self.rows else {}
        return next((c for name, c in self.joined.items() if names.get(name) == column), None)

    def reads(self, stream: str) -> bool:
        return self.rows is not None and self.rows.source.definition.name.casefold() == stream.casefold()


def join_constraints(
    nodes: Sequence[Logical], labels: Sequence[str], conjuncts: Sequence[Expression], use: Use
) -> JoinConstraints | None:
    """What the inputs of a join obey; None if nothing is declared and nothing is monitored."""
    declared = [n.stream_rows.source.definition.options.constraints for n in nodes if n.stream_rows]
    if not any(declared) and not use.monitored:
        return None
    if any(node.is_static for node in nodes):
        return JoinConstraints((), len(nodes), unused=("a join with tables keeps all rows of its windows",))
    graph = join_graph([node.schema.names for node in nodes], conjuncts)
    inputs = [
        _Input(label, node, {name: c for c, of in enumerate(graph.classes) for k, name in of if k == i})
        for i, (label, node) in enumerate(zip(labels, nodes, strict=True))
    ]
    members = tuple(tuple(i for i, _ in of) for of in graph.classes)
    found = JoinConstraints(
        members,
        len(nodes),
        tuple(key for i, of in enumerate(inputs) for key in _keys(i, of)),
        tuple(r for i, of in enumerate(inputs) for r in _references(i, of, inputs)),
        tuple(a for i, of in enumerate(inputs) for a in _arrivals(i, of)),
        tuple(of.rows.window_rows if of.rows else None for of in inputs),
        use=use,
    )
    found = replace(found, unused=tuple(_not_joined(inputs)))
    found = _by_time(found) if use.by_time else found
    return _with_monitored(found, inputs) if use.monitored else found


def _with_monitored(found: JoinConstraints, inputs: Sequence[_Input]) -> JoinConstraints:
    """With the constraints that the inputs may happen to obey; those declared as strict need no watching."""
    keys = dict.fromkeys(k for i, j in found.pairs for k in _monitored_keys(found, i, j, inputs[j]))
    references = [
        InputReference(
            i, j, found.shared(i, j), Within(0, _counts_rows(found, inputs[j])),
            _comes(inputs[j], inputs[i], "at most k after"), True
        )
        for i, j in found.pairs
        if all(r.within.k for r in found.references_of(i, j))
    ]  # fmt: skip
    arrivals = [a for i in range(found.inputs) for a in _monitored_arrivals(found, i, inputs[i])]
    return replace(
        found,
        keys=(*found.keys, *keys),
        references=(*found.references, *references),
        arrivals=(*found.arrivals, *arrivals),
    )


def _counts_rows(found: JoinConstraints, of: _Input) -> bool:
    """Whether places in a stream are known; otherwise k is a length of time."""
    return of.rows is not None and not found.use.by_time


def _monitored_keys(found: JoinConstraints, i: int, j: int, of: _Input) -> Iterator[InputKey]:
    """Where a relation has a key at any instant, its rows are replaced: then none lasts."""
    if of.rows is not None and found.key_of(i, j) is None:
        names = [_short(name) for name, c in of.joined.items() if c in found.shared(i, j)]
        text = f"{of.label} has one row per {', '.join(names)}"
        yield InputKey(j, found.shared(i, j), True, text, True)


def _monitored_arrivals(found: JoinConstraints, i: int, of: _Input) -> Iterator[InputArrival]:
    names = of.rows.names if of.rows else {}
    joined = {name: c for name, c in of.joined.items() if len(set(found.classes[c])) > 1}
    for name, c in joined.items():
        for kind in ("clustered", "ordered"):
            strict = [a for a in found.arrivals if (a.kind, a.input, a.of_class) == (kind, i, c)]
            if any(not a.within.k for a in strict):
                continue
            counts = _counts_rows(found, of) and name in names
            text = f"{of.label} is {kind} by {_short(name)} within k"
            yield InputArrival(kind, i, c, Within(0, counts), names.get(name, name), text, True)


def _not_joined(inputs: Sequence[_Input]) -> Iterator[str]:
    """Constraints of columns that are not joined."""
    for of in inputs:
        declared = of.rows.source.definition.options.constraints if of.rows else Constraints()
        if any(of.class_of(c) is None for c in declared.primary_key):
            yield f"PRIMARY KEY of {of.label}: not all of its columns are joined"
        for arrival in declared.arrivals:
            if of.class_of(arrival.column) is None:
                yield f"{of.label} {arrival}: the column is not joined"


def _by_time(found: JoinConstraints) -> JoinConstraints:
    """Without what counts rows."""
    counting = [r.text for r in found.references if r.within.by_rows]
    counting += [a.text for a in found.arrivals if a.within.by_rows]
    unused = [f"{text}: a pipeline does not send places of rows; declare it by time" for text in counting]
    return replace(
        found,
        references=tuple(r for r in found.references if not r.within.by_rows),
        arrivals=tuple(a for a in found.arrivals if not a.within.by_rows),
        unused=(*found.unused, *unused),
    )


def _keys(i: int, of: _Input) -> Iterator[InputKey]:
    """The keys all of whose columns are joined."""
    for columns, lasting in of.node.unique_keys:
        classes = [of.joined.get(c) for c in columns]
        known = tuple(sorted({c for c in classes if c is not None}))
        if known and None not in classes:
            text = f"{of.label} has one row per {', '.join(_short(c) for c in columns)}"
            yield InputKey(i, known, lasting, text if lasting else f"{text} at any instant")


def _references(i: int, of: _Input, inputs: Sequence[_Input]) -> Iterator[InputReference]:
    declared = of.rows.source.definition.options.constraints.references if of.rows else ()
    for reference in declared:
        for j, target in enumerate(inputs):
            if j == i or not target.reads(reference.target):
                continue
            _check_target(of, reference, target)
            own = [of.class_of(c) for c in reference.columns]
            theirs = [target.class_of(c) for c in reference.target_columns]
            if own == theirs and None not in own:
                known = tuple(sorted({c for c in own if c is not None}))
                later = f"at most {reference.within} after" if reference.within.k else "no later than"
                yield InputReference(i, j, known, _timed(reference.within), _comes(target, of, later))


def _comes(target: _Input, of: _Input, later: str) -> str:
    return f"rows of {target.label} come {later} those of {of.label} that they join"


def _timed(within: Within) -> Within:
    """The strict form by time, which says the same as by rows: what is later by a row is later in time, as
    far as a join can tell, which waits for all rows of an instant. So no rows have to be counted.
    """
    return within if within.k else Within()


def _check_target(of: _Input, reference: Reference, target: _Input) -> None:
    assert of.rows is not None and target.rows is not None
    there = target.rows.source.definition.schema.names
    wrong = [c for c in reference.target_columns if c not in there]
    if wrong:
        name = of.rows.source.definition.name
        raise CatalogError(
            f"stream {name!r}: REFERENCES names column {wrong[0]!r}, which {reference.target!r} does not "
            f"have; its columns are {', '.join(there)}"
        )
    own_schema, schema = of.rows.source.definition.schema, target.rows.source.definition.schema
    for mine, theirs in zip(reference.columns, reference.target_columns, strict=True):
        kinds = own_schema.field(mine).type, schema.field(theirs).type
        if not _comparable(*kinds):
            name, (a, b) = of.rows.source.definition.name, map(sql_name, kinds)
            raise CatalogError(
                f"stream {name!r}: REFERENCES relates {mine!r}, which is {a}, to {theirs!r} of "
                f"{reference.target!r}, which is {b}; name columns of one type"
            )


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether values of two types may be equal."""
    families = (types.is_numeric, types.is_string, types.is_temporal)
    return left == right or any(of(left) and of(right) for of in families)


def _arrivals(i: int, of: _Input) -> Iterator[InputArrival]:
    declared = of.rows.source.definition.options.constraints.arrivals if of.rows else ()
    for arrival in declared:
        known = of.class_of(arrival.column)
        if known is not None:
            text = f"{of.label} is {arrival.kind} by {arrival.column} within {arrival.within}"
            within = _timed(arrival.within) if arrival.kind == "ordered" else arrival.within
            yield InputArrival(arrival.kind, i, known, within, arrival.column, text)


def _short(column: str) -> str:
    return column.rpartition(".")[2]


def counted(found: JoinConstraints) -> frozenset[int]:
    """The inputs all rows of whose streams are counted: k is a number of them."""
    references = (r.child for r in found.references if r.within.by_rows)
    arrivals = (a.input for a in found.arrivals if a.within.by_rows)
    return frozenset([*references, *arrivals])


def place_columns(nodes: Sequence[Logical], found: JoinConstraints) -> dict[int, tuple[str, ...]]:
    """By number of a stream that is counted, the columns that its filters read."""
    rows = [nodes[i].stream_rows for i in sorted(counted(found))]
    return {r.source.number: tuple(sorted(reads(r.filters))) for r in rows if r is not None}


def lifting(found: JoinConstraints) -> frozenset[int]:
    """The inputs whose filters the join itself evaluates: it keeps keys of the rows that fail, or learns from
    them how far the stream has come.
    """
    arrivals = (a.input for a in found.arrivals if not a.within.by_rows and not a.monitored)
    relying = (j for i, j in found.pairs if found.needs_no(i, j) or found.may_keep_no(i, j))
    return frozenset([*arrivals, *relying])


def routed(found: JoinConstraints, nodes: Sequence[Logical], routes: Mapping[int, Route]) -> JoinConstraints:
    """What can be exploited with the streams spread like this.

    Rows between two of a cluster are known where all rows of the cluster are: by rows, a stream must be split
    by the column that it is clustered by.
    """
    kept, unused = [], list(found.unused)
    for arrival in found.arrivals:
        whole = arrival.kind == "ordered" or not arrival.within.by_rows
        if whole or _split_by(arrival, found, nodes, routes):
            kept.append(arrival)
        else:
            unused.append(f"{arrival.text}: the stream is not split by that column alone")
    return replace(found, arrivals=tuple(kept), unused=tuple(unused))


def _split_by(
    arrival: InputArrival, found: JoinConstraints, nodes: Sequence[Logical], routes: Mapping[int, Route]
) -> bool:
    rows = nodes[arrival.input].stream_rows
    route = routes.get(rows.source.number, Route()) if rows else Route()
    if route.partitions == 1:
        return True
    own = [axis for axis in route.own if axis.keys]
    if rows is None or len(route.own) != 1 or len(own) != 1 or len(own[0].keys) != 1 or own[0].spread:
        return False
    key = own[0].keys[0]
    return isinstance(key, Column) and rows.source.own_name(key.name) == arrival.column


def with_counts(
    found: JoinConstraints, nodes: Sequence[Logical], columns: Mapping[int, str | None]
) -> JoinConstraints:
    """The constraints with the columns of the rows that are counted; ``columns``: by input, what marks a
    partition's own rows.
    """
    inputs = sorted(counted(found))
    return replace(found, counted=tuple(_counted(found, i, nodes[i], columns[i]) for i in inputs))


def _counted(found: JoinConstraints, i: int, node: Logical, own: str | None) -> Counted:
    rows = node.stream_rows
    assert rows is not None
    return Counted(i, tuple(_key_columns(found, i, node)), own)


def _key_columns(found: JoinConstraints, i: int, node: Logical) -> Iterator[tuple[int, str]]:
    """By class of keys that arrive in a known order, the column of the source."""
    rows = node.stream_rows
    assert rows is not None
    for arrival in found.arrivals:
        if arrival.input == i and arrival.within.by_rows:
            yield arrival.of_class, f"{rows.source.alias}.{arrival.column}"


def labels(nodes: Sequence[Logical]) -> list[str]:
    """Distinct labels of the inputs of a join."""
    found: list[str] = []
    for node in nodes:
        name = _label(node)
        found.append(next(n for n in numbered(name) if n not in found))
    return found


def _label(node: Logical) -> str:
    """The qualifier of the columns; without one in the query, the only stream or table below."""
    named = node.schema.names[0].rpartition(".")[0] if node.schema.names else ""
    below = leaves(node)
    return below[0].alias if len(below) == 1 and (not named or named.startswith("#")) else named or "?"


def numbered(name: str) -> Iterator[str]:
    """A name, and names like it: ``C``, ``C (2)``, ``C (3)``."""
    return (name if n == 1 else f"{name} ({n})" for n in count(1))
