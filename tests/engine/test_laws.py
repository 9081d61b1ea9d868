"""The law: feed changes, then all of them with signs reversed, and everything is empty, synopses too.

And the definition: after every instant an operator's output relation is what its formula says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.element import Pattern
from penstock.engine.engine import Engine
from penstock.engine.operator import Node
from penstock.engine.operators.aggregate import Aggregate, AggregateColumn
from penstock.engine.operators.antijoin import Antijoin
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.duplicate_eliminate import DuplicateEliminate
from penstock.engine.operators.except_ import Except
from penstock.engine.operators.identify import Identify
from penstock.engine.operators.intersect import Intersect
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.project import Project
from penstock.engine.operators.rank import Rank
from penstock.engine.operators.select import Select
from penstock.engine.operators.source import Source
from penstock.engine.operators.union import Union
from penstock.engine.stage import RESULT, SIGN, TS, Arrival, Stage, StageInput
from penstock.engine.synopses.sorted_rows import SortKey
from penstock.expression import Call, Column, Literal
from penstock.measurement import Property, measured

Row = tuple[int | None, str | None]
Changes = list[tuple[int, int, Row]]
"""(instant, sign, row)."""
SIDES = ("L", "R")


def schema(side: str) -> pa.Schema:
    return pa.schema([(f"{side}.k", pa.int64()), (f"{side}.s", pa.string())])


def source(side: str) -> Node:
    return Source(side, schema(side), Pattern.CHANGING)


def numbered(side: str, id: str | None = None) -> Node:
    return Identify(source(side), id)


KEYS = (((0, "L.k"), (1, "R.k")),)
LEFT = numbered("L", "#left")
PAIRS = BinaryJoin((LEFT, numbered("R")), SIDES, KEYS, (), ("#left",))


def semi(anti: bool) -> Callable[[list[Row], list[Row]], list[tuple]]:
    return lambda left, right: [
        x for x in left if any(x[0] is not None and x[0] == y[0] for y in right) != anti
    ]


def sums(left: list[Row], right: list[Row]) -> list[tuple]:
    groups: dict[str | None, list[int]] = {}
    for k, s in left:
        groups.setdefault(s, []).extend([] if k is None else [k])
    rows = Counter(s for _, s in left)
    return [
        (
            s,
            rows[s],
            sum(v) if v else None,
            sum(v) / len(v) if v else None,
            min(v, default=None),
            max(v, default=None),
        )
        for s, v in groups.items()
    ]


def aggregate() -> Node:
    functions = [
        ("n", "count", ()),
        ("sum", "sum", ("L.k",)),
        ("avg", "avg", ("L.k",)),
        ("min", "min", ("L.k",)),
        ("max", "max", ("L.k",)),
    ]
    types = {"avg": pa.float64()}
    columns = tuple(AggregateColumn(n, f, a, types.get(f, pa.int64())) for n, f, a in functions)
    return Aggregate(source("L"), ("L.s",), columns)


def longest_strings(left: list[Row], right: list[Row]) -> list[tuple]:
    strings = [s for _, s in left if s is not None]
    return [(min(strings, default=None), max(strings, default=None), len(left))]


def ranked(
    kind: str, groups: bool, descending: bool, nulls_first: bool, skip: int, last: int | None, shown: bool
) -> Law:
    """Rows by their rank, in groups of ``s`` or all together, in the order of ``k``."""

    def formula(left: list[Row], right: list[Row]) -> list[tuple]:
        def key(row: Row) -> tuple:
            null = (row[0] is None) != nulls_first
            return (null, 0 if row[0] is None else -row[0] if descending else row[0])

        out = []
        for group in {row[1] for row in left} if groups else {None}:
            rows = [row for row in left if row[1] == group or not groups]
            rows.sort(key=lambda row: (*key(row), row[1] is not None, row[1] or ""))
            keys = [key(row) for row in rows]
            for n, row in enumerate(rows):
                less = keys.index(keys[n])
                rank = {"row_number": n, "rank": less, "dense_rank": len(set(keys[:less]))}[kind] + 1
                if skip < rank and (last is None or rank <= last):
                    out.append((*row, rank) if shown else row)
        return out

    by = ("L.s",) if groups else ()
    keys = (SortKey("L.k", descending, nulls_first),)
    return Law(Rank(source("L"), by, keys, kind, skip, last, "rank" if shown else None), formula)


@dataclass
class Law:
    node: Node
    formula: Callable[[list[Row], list[Row]], list[tuple]]


K = Column("L.k", pa.int64())
LAWS = {
    "select": Law(
        Select(source("L"), (Call(">", (K, Literal(1, pa.int64())), pa.bool_()),)),
        lambda left, right: [x for x in left if x[0] is not None and x[0] > 1],
    ),
    "project": Law(
        Project(source("L"), (("k", Call("+", (K, Literal(1, pa.int64())), pa.int64())),)),
        lambda left, right: [(None if k is None else k + 1,) for k, _ in left],
    ),
    "binary-join": Law(
        BinaryJoin((numbered("L"), numbered("R")), SIDES, KEYS, (), ("L.k", "L.s", "R.s")),
        lambda left, right: [(k, s, t) for k, s in left for m, t in right if k is not None and k == m],
    ),
    "mjoin on two keys": Law(
        MJoin((numbered("L"), numbered("R")), SIDES, (*KEYS, ((0, "L.s"), (1, "R.s"))), (), ("L.k", "R.s")),
        lambda left, right: [x for x in left for y in right if x == y and None not in x],
    ),
    "mjoin with a scan": Law(
        MJoin(
            (numbered("L"), numbered("R")),
            SIDES,
            (),
            (Call("<", (K, Column("R.k", pa.int64())), pa.bool_()),),
            ("L.k", "R.k"),
        ),
        lambda left, right: [
            (k, m) for k, _ in left for m, _ in right if k is not None and m is not None and k < m
        ],
    ),
    "aggregate": Law(aggregate(), sums),
    "duplicate-eliminate": Law(DuplicateEliminate((source("L"),)), lambda left, right: list(set(left))),
    "union": Law(Union((source("L"), source("R"))), lambda left, right: left + right),
    "except all": Law(
        Except((source("L"), source("R"))),
        lambda left, right: list((Counter(left) - Counter(right)).elements()),
    ),
    "except": Law(
        Except((source("L"), source("R")), all=False), lambda left, right: list(set(left) - set(right))
    ),
    "intersect all": Law(
        Intersect((source("L"), source("R"))),
        lambda left, right: list((Counter(left) & Counter(right)).elements()),
    ),
    "intersect": Law(
        Intersect((source("L"), source("R")), all=False), lambda left, right: list(set(left) & set(right))
    ),
    "antijoin": Law(Antijoin(LEFT, PAIRS, "#left"), semi(anti=True)),
    "semijoin": Law(Antijoin(LEFT, PAIRS, "#left", anti=False), semi(anti=False)),
    "identify": Law(numbered("L"), lambda left, right: left),
    "first rows": ranked("row_number", False, False, True, 0, 2, False),
    "rows from 2 to 4": ranked("row_number", False, True, False, 1, 4, False),
    "rows but the first": ranked("row_number", False, True, True, 1, None, False),
    "first rows of groups": ranked("row_number", True, True, False, 0, 1, False),
    "row numbers": ranked("row_number", False, True, False, 1, 4, True),
    "row numbers of groups": ranked("row_number", True, False, False, 0, None, True),
    "rank": ranked("rank", False, True, False, 0, 2, False),
    "ranks": ranked("rank", False, False, True, 1, 4, True),
    "ranks of groups": ranked("rank", True, False, True, 0, None, True),
    "dense rank": ranked("dense_rank", False, True, False, 1, 2, False),
    "dense ranks": ranked("dense_rank", False, False, True, 0, 3, True),
    "dense ranks of groups": ranked("dense_rank", True, True, True, 1, None, True),
}
STRINGS = Aggregate(
    source("L"),
    (),
    tuple(
        AggregateColumn(n, f, a, t)
        for n, f, a, t in [
            ("min", "min", ("L.s",), pa.string()),
            ("max", "max", ("L.s",), pa.string()),
            ("n", "count", (), pa.int64()),
        ]
    ),
)

rows = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "a", "b", "ü"]))


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    """Rows that enter and leave a relation, at instants 0 to 9, in order."""
    out: Changes = []
    there: list[Row] = []
    for instant in range(10):
        for _ in range(draw(st.integers(0, 3))):
            if there and draw(st.booleans()):
                out.append((instant, -1, there.pop(draw(st.integers(0, len(there) - 1)))))
            else:
                row = draw(rows)
                there.append(row)
                out.append((instant, 1, row))
    return out


def negated(given: Changes) -> Changes:
    return [(19 - instant, -sign, row) for instant, sign, row in reversed(given)]


def arrival(side: str, given: Changes, upto: int) -> Arrival:
    columns = {TS: [c[0] for c in given], SIGN: [c[1] for c in given]}
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(columns[TS], pa.int64()),
            pa.array(columns[SIGN], pa.int8()),
            pa.array([c[2][0] for c in given], pa.int64()),
            pa.array([c[2][1] for c in given], pa.string()),
        ],
        names=[TS, SIGN, f"{side}.k", f"{side}.s"],
    )
    return Arrival(side, 0, batch, min(columns[TS], default=None), upto)


def leaves(node: Node) -> set[str]:
    return {node.input} if isinstance(node, Source) else set().union(*(leaves(i) for i in node.inputs))


def run(
    node: Node, given: dict[str, Changes], steps: list[int]
) -> tuple[Engine, list[tuple[int, int, tuple]]]:
    sides = sorted(leaves(node))
    engine = Engine(Stage({RESULT: Changelog(node)}, tuple(StageInput(s, schema(s)) for s in sides)))
    out, before = [], -1
    for upto in [*steps, 21]:
        batch = engine.step(
            [arrival(s, [c for c in given[s] if before <= c[0] < upto], upto) for s in sides]
        ).only.batch
        out += [(r.pop(TS), r.pop(SIGN), tuple(r.values())) for r in batch.to_pylist()]
        before = upto
    return engine, out


def at(given: Changes, instant: int) -> list:
    bag: Counter = Counter()
    for when, sign, row in given:
        if when <= instant:
            bag[row] += sign
    assert all(n >= 0 for n in bag.values())
    return list(bag.elements())


def check(law: Law, left: Changes, right: Changes, steps: list[int]) -> None:
    both = {"L": left + negated(left), "R": right + negated(right)}
    engine, out = run(law.node, both, steps)
    for instant in range(21):
        expected = Counter(law.formula(at(both["L"], instant), at(both["R"], instant)))
        assert Counter(at(out, instant)) == expected, instant
    assert [t for t, _, _ in out] == sorted(t for t, _, _ in out)
    held = [m for m in measured(engine.measure()).of(Property.ROWS) if m.value]
    assert not held, f"left in synopses: {held}"


@pytest.mark.parametrize("name", LAWS)
@given(changes(), changes(), st.lists(st.integers(0, 20), max_size=3).map(sorted))
@pytest.mark.some(2)
def test_law(name: str, left: Changes, right: Changes, steps: list[int]) -> None:
    check(LAWS[name], left, right, steps)


@given(changes(), st.lists(st.integers(0, 20), max_size=3).map(sorted))
def test_strings_have_extremes_too(given: Changes, steps: list[int]) -> None:
    both = given + negated(given)
    _, out = run(STRINGS, {"L": both}, steps)
    first = min((c[0] for c in both), default=None)
    for instant in range(21 if first is not None else 0):
        expected = longest_strings(at(both, instant), []) if instant >= first else []
        assert at(out, instant) == expected, instant
