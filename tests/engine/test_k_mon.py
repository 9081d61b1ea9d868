"""k-Mon: the examples and theorems of thesis chapter 6, on the running join.

The joins of figure 6.8: (a) S1(A, B) -> S2(A, C) and S1 -> S3(B, D) with D < 8; (b) S1(A, B) -> S2(B, C) ->
S3(C, D) with D > 10. The figures are not in the text: attributes follow from the examples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from constrained_join import Run
from restless import collecting_always
from strategies import Choices
from strategies.constraints import draw_tree_join

import penstock
from penstock.constraint import Within
from penstock.engine.joins import closing
from penstock.engine.joins.closing import Clusters, Order, Places
from penstock.engine.joins.constrained_join import ConstrainedJoin
from penstock.engine.joins.join_constraints import InputKey, JoinConstraints
from penstock.engine.joins.k_mon import KMon
from penstock.engine.kernels import membership

SCHEMAS_A = {"S1": "A INT, B INT", "S2": "A INT, C INT", "S3": "B INT, D INT"}
FROM_A = "FROM S1, S2, S3 WHERE S1.A = S2.A AND S1.B = S3.B AND S3.D < 8"
QUERY_A = f"SELECT S1.A, S1.B, S2.C, S3.D {FROM_A}"
KEYS_A = {"S2": "PRIMARY KEY (A)", "S3": "PRIMARY KEY (B)"}
SCHEMAS_B = {"S1": "A INT, B INT", "S2": "B INT, C INT", "S3": "C INT, D INT"}
QUERY_B = "SELECT S1.A, S1.B, S2.C, S3.D FROM S1, S2, S3 WHERE S1.B = S2.B AND S2.C = S3.C AND S3.D > 10"
KEYS_B = {"S2": "PRIMARY KEY (B)", "S3": "PRIMARY KEY (C)"}


@pytest.fixture(autouse=True)
def collect_after_every_row() -> Iterator[None]:
    with collecting_always():
        yield


def figure_a(**more: str) -> Run:
    """The state of figure 6.8(a)."""
    run = Run(QUERY_A, SCHEMAS_A, {n: f"{KEYS_A.get(n, '')} {more.get(n, '')}" for n in SCHEMAS_A})
    for row in ((6, 20), (4, 15)):
        run.put("S2", *row)
    for row in ((5, 3), (7, 9), (10, 12)):
        run.put("S3", *row)
    return run


def test_example_6_3_1() -> None:
    run = figure_a()
    assert run.kept("S2", "A", "C") == {(6, 20), (4, 15)}
    assert run.kept("S3", "B") == {(5,)}
    assert run.no("S3") == {(7,), (10,)}
    assert run.put("S1", 6, 5) == [(6, 5, 20, 3)]
    assert run.kept("S1", "A", "B") == set()  # the Yes of a root is not stored (theorem 6.3.5)
    assert run.put("S1", 8, 10) == []
    assert run.kept("S1", "A", "B") == set()  # its child in S3 is No, so it is No and dropped


def test_example_6_3_2() -> None:
    run = Run(QUERY_B, SCHEMAS_B, KEYS_B)
    run.put("S2", 2, 4)
    run.put("S1", 1, 2)
    assert run.kept("S1", "B") == {(2,)} and run.kept("S2", "B", "C") == {(2, 4)}  # both Unknown
    assert run.put("S3", 4, 12) == [(1, 2, 4, 12)]
    assert run.kept("S1", "B") == set()
    assert run.kept("S2", "B", "C") == {(2, 4)} and run.kept("S3", "C") == {(4,)}  # Yes, for rows of S1


def test_example_6_3_3() -> None:
    """A row that fails its filter is kept as a key, by which rows of parents and grandparents are dropped."""
    run = Run(QUERY_B, SCHEMAS_B, KEYS_B)
    run.put("S3", 6, 8)
    assert run.no("S3") == {(6,)}
    run.put("S2", 3, 6)
    assert run.kept("S2", "B") == set() and run.no("S2") == {(3,)}
    for a in range(5):
        run.put("S1", a, 3)
    assert run.kept("S1", "B") == set()


def test_example_6_3_4() -> None:
    """A row that leaves its window takes the results with it."""
    query = QUERY_B.replace("S3 WHERE", "S3 [ROWS 1] WHERE")
    rows = {"S1": [(1, {"A": 1, "B": 2})], "S2": [(2, {"B": 2, "C": 4})],
            "S3": [(3, {"C": 4, "D": 12}), (4, {"C": 9, "D": 12})]}  # fmt: skip
    found = penstock.evaluate(query, rows, constraints=KEYS_B)
    joined = {"A": 1, "B": 2, "C": 4, "D": 12}
    assert found == [(3, "+", joined), (4, "-", joined)]
    run = Run(query, SCHEMAS_B, KEYS_B)
    for stream, row in (("S1", (1, 2)), ("S2", (2, 4)), ("S3", (4, 12))):
        run.put(stream, *row)
    assert run.kept("S1", "B") == {(2,)}  # a result is ended by its rows, so they stay
    run.put("S3", 9, 12)
    run.put("S3", 11, 12)
    assert run.kept("S1", "B") == set() and run.kept("S2", "B") == set()


def test_example_6_6_1() -> None:
    run = figure_a(S1="REFERENCES S3 (B) WITHIN 1 ROWS")
    assert run.no("S3") == set()  # the reference makes it needless
    run.put("S1", 4, 10)
    assert run.kept("S1", "A", "B") == {(4, 10)}
    run.put("S3", 1, 1)
    assert run.kept("S1", "A", "B") == set()


def test_example_6_7_1() -> None:
    run = figure_a(S1="CLUSTERED BY (B) WITHIN 1 ROWS")
    found = [r for row in ((6, 5), (8, 8), (4, 5), (11, 10)) for r in run.put("S1", *row)]
    assert found == [(6, 5, 20, 3), (4, 5, 15, 3)]
    assert run.kept("S1", "A", "B") == {(8, 8)}  # Unknown
    assert run.kept("S3", "B") == set()  # two other values since the first 5, and none waits for it


@pytest.mark.parametrize(("type_", "kept"), [("INT", 1), ("STRING", 2)])
def test_clusters_of_hashed_keys_close_nothing(type_: str, kept: int) -> None:
    """Two texts may have one hash: that the cluster of one is over says nothing of the other."""
    schemas = {"S1": f"A INT, B {type_}", "S3": f"B {type_}, D INT"}
    run = Run(
        "SELECT S1.A, S3.D FROM S1, S3 WHERE S1.B = S3.B",
        schemas,
        {"S1": "CLUSTERED BY (B) WITHIN 0 ROWS", "S3": "PRIMARY KEY (B)"},
    )
    value = int if type_ == "INT" else str
    for b in (5, 1):
        run.put("S3", value(b), 0)
    for b in (5, 1):
        run.put("S1", b, value(b))
    assert len(run.kept("S3", "B")) == kept


def test_example_6_8_1() -> None:
    schemas, keys = SCHEMAS_A, dict(KEYS_A)
    keys["S3"] += " ORDERED BY (B) WITHIN 2 ROWS"
    run = Run(QUERY_A, schemas, keys)
    for row in ((7, 9), (5, 3), (10, 12)):
        run.put("S3", *row)
    assert run.join.retention._orders[0].least == 7
    assert run.no("S3") == set()
    run.put("S1", 6, 4)
    assert run.kept("S1", "A", "B") == set()


@pytest.mark.parametrize(
    ("clustered", "ordered", "s1", "s2"),
    [
        (True, False, {(6, 8), (3, 13)}, {(6, 20)}),
        (False, True, {(3, 13)}, {(6, 20), (4, 15)}),
        (True, True, {(3, 13)}, set()),
    ],
)
def test_example_6_10_1(clustered: bool, ordered: bool, s1: set, s2: set) -> None:
    """Two constraints together drop more than the union of what each drops."""
    more = {"S1": "CLUSTERED BY (A) WITHIN 0 ROWS" if clustered else ""}
    run = Run(QUERY_A, SCHEMAS_A, {**KEYS_A, **more, "S3": f"PRIMARY KEY (B) {'ORDERED BY (B)' * ordered}"})
    for row in ((6, 20), (4, 15)):
        run.put("S2", *row)
    for row in ((5, 3), (7, 9), (10, 12)):
        run.put("S3", *row)
    for row in ((4, 5), (6, 8), (3, 13)):
        run.put("S1", *row)
    assert run.kept("S1", "A", "B") == s1
    assert run.kept("S2", "A", "C") == s2


def test_example_6_10_2() -> None:
    """With a reference as well, rows that refer to a dropped one stay longer."""
    rows = ((6, 10), (4, 10), (8, 8))
    alone = figure_a(S1="CLUSTERED BY (B) WITHIN 0 ROWS")
    for row in rows:
        alone.put("S1", *row)
    assert alone.kept("S1", "A", "B") == {(8, 8)} and alone.no("S3") == {(7,)}
    both = figure_a(S1="CLUSTERED BY (B) WITHIN 0 ROWS REFERENCES S3 (B) WITHIN 3 ROWS")
    for row in rows:
        both.put("S1", *row)
    assert both.kept("S1", "A", "B") == {(6, 10), (4, 10), (8, 8)} and both.no("S3") == set()
    for key in (1, 2, 3):
        both.put("S3", key, 1)
    assert both.kept("S1", "A", "B") == set()


def covers(graph: JoinConstraints, *streams: int) -> bool:
    """Whether every input is reachable from some of these."""
    return set().union(*map(graph.reachable, streams)) == set(range(graph.inputs))


def test_the_graph_of_figure_6_8() -> None:
    run = figure_a()
    graph = run.join._node.constraints
    assert graph is not None
    assert set(graph.edges) == {(0, 1), (0, 2)} and graph.roots == [0] and graph.shape == "tree"
    assert covers(graph, 0) and not covers(graph, 1, 2)


def test_two_roots_are_the_only_minimal_cover() -> None:
    """Theorem 6.3.4; neither root alone covers, so the Yes of a root is kept for rows of the other."""
    query = "SELECT S1.A AS a, S2.A AS b FROM S1, S2, S3 WHERE S1.B = S3.B AND S2.B = S3.B"
    schemas = {"S1": "A INT, B INT", "S2": "A INT, B INT", "S3": "B INT"}
    run = Run(query, schemas, {"S3": "PRIMARY KEY (B)"})
    graph = run.join._node.constraints
    assert graph is not None and graph.roots == [0, 1] and not covers(graph, 0)
    run.put("S3", 1)
    run.put("S1", 7, 1)
    assert run.kept("S1", "B") == {(1,)}
    assert run.put("S2", 8, 1) == [(7, 8)]


@pytest.mark.parametrize(
    ("classes", "inputs", "shape"),
    [
        (((0, 1), (1, 2), (2, 0)), 3, "cyclic"),
        (((0, 1), (1, 2)), 3, "many-many"),
        (((0, 1),), 3, "not connected"),
    ],
)
def test_graphs_that_are_no_directed_trees(classes: tuple, inputs: int, shape: str) -> None:
    key = InputKey(1, (0,), lasting=True)
    assert JoinConstraints(classes, inputs, (key,)).shape == shape


TABLE_6_2 = [
    ("", "PRIMARY KEY (A)", {"S1": {"Yes", "No"}}),
    ("REFERENCES S2 (A) WITHIN 2 ROWS", "PRIMARY KEY (A)", {"S1": {"Yes", "No", "Unknown"}, "S2": {"No"}}),
    ("CLUSTERED BY (A) WITHIN 2 ROWS", "PRIMARY KEY (A)", {"S1": {"Yes", "No"}, "S2": {"Yes", "No"}}),
    ("ORDERED BY (A) WITHIN 2 ROWS", "PRIMARY KEY (A)", {"S1": {"Yes", "No"}, "S2": {"Yes", "No"}}),
    ("", "PRIMARY KEY (A) ORDERED BY (A) WITHIN 2 ROWS",
     {"S1": {"Yes", "No", "Unknown"}, "S2": {"No"}}),
]  # fmt: skip


@pytest.mark.parametrize(("parent", "child", "reduced"), TABLE_6_2)
@pytest.mark.slow
def test_table_6_2(parent: str, child: str, reduced: dict[str, set[str]]) -> None:
    """Which components each constraint reduces: of many rows, few remain in them."""
    query = "SELECT S1.A FROM S1, S2 WHERE S1.A = S2.A AND S2.D < 8"
    run = Run(query, {"S1": "A INT", "S2": "A INT, D INT"}, {"S1": parent, "S2": child})
    for key in range(40):
        if key % 4:
            run.put("S2", key, 1 if key % 2 else 9)
        for _ in range(2):
            run.put("S1", key)
    counts = dict(zip(("S1", "S2"), run.join.retention.components(), strict=True))
    for label in ("S1", "S2"):
        for component, rows in counts[label].items():
            assert (rows <= 6) == (component in reduced.get(label, set()) or rows == 0), (label, counts)


def test_violations_are_counted() -> None:
    run = Run("SELECT S1.A FROM S1, S2 WHERE S1.A = S2.A", {"S1": "A INT", "S2": "A INT"},
              {"S1": "REFERENCES S2 (A) WITHIN 2 SECONDS ORDERED BY (A) WITHIN 1 ROWS",
               "S2": "PRIMARY KEY (A) CLUSTERED BY (A) WITHIN 5 SECONDS"})  # fmt: skip
    run.put("S2", 1)
    run.put("S2", 1)
    for key in (5, 6, 7, 3):
        run.put("S1", key)
    found = {text.split()[0] + text.split()[1]: n for text, n in run.join.retention.violations}
    assert found == {"S2has": 1, "rowsof": 0, "S1is": 1, "S2is": 0}


def test_places_order_and_clusters() -> None:
    places = Places(reach=2)
    places.see(np.array([1, 1, 4, 6]))
    assert [places.since(k, 9) for k in (0, 1, 2)] == [9, 6, 4]
    order = Order(Within(1, by_rows=True))
    order.see(np.array([1, 2, 3]), np.array([5, 9, 7]))
    order.settle(3, 0)
    assert order.least == 9 and order.closed(np.array([8, 9])).tolist() == [True, False]
    clusters = Clusters(Within(1, by_rows=True))
    clusters.see(np.array([1, 2, 3, 4]), np.array([5, 8, 5, 10]))
    assert clusters.keys[clusters.over(4, 0)].tolist() == [5, 8]


def test_membership_agrees_with_python() -> None:
    random = np.random.default_rng(7)
    for columns, most in ((2, 9), (1, 90)):
        for count in (0, 20, 50, 70):
            held, keys = random.integers(0, most, (50, columns)), random.integers(0, most, (count, columns))
            there = set(map(tuple, held.tolist()))
            expected = [tuple(k) in there for k in keys.tolist()]
            found = membership.among(held, keys).tolist()
            assert found == membership.among.py_func(held, keys).tolist() == expected
    keys, new = random.integers(0, 9, (60, 2)), np.arange(60) >= 45
    again = [tuple(k) in set(map(tuple, keys[:i].tolist())) for i, k in enumerate(keys.tolist())]
    assert membership.repeats(keys, np.ones(60, np.bool_), new) == sum(again[45:])


def test_clusters_agree_with_python() -> None:
    """Rows are added to clusters that are there, and begin others."""
    random = np.random.default_rng(9)
    for kernel in (membership.clusters, membership.clusters.py_func):
        held, keys, at = np.arange(0, 20, 2), random.integers(0, 20, 50), random.permutation(50)
        first, rows = (np.concatenate([a, np.zeros(50, np.int64)]) for a in (held + 1, held + 5))
        with np.errstate(over="ignore"):
            new, far, before = kernel(held, first, rows, keys, at)
        known: dict[int, list[int]] = {int(k): [int(k) + 1, int(k) + 5] for k in held}
        for key, time in zip(keys.tolist(), at.tolist(), strict=True):
            known[key] = [min(time, known.get(key, [time])[0]), known.get(key, [0, 0])[1]]
        for row, key in enumerate(keys.tolist()):
            assert (far[row], before[row]) == (at[row] - known[key][0], known[key][1])
            known[key][1] += 1
        every = [*held.tolist(), *keys[new].tolist()]
        assert {k: [int(f), int(n)] for k, f, n in zip(every, first, rows, strict=False)} == known


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("asked", [5, 45, 90])
def test_joined_rows_agree_with_python(columns: int, asked: int) -> None:
    """Whichever side has fewer rows."""
    random = np.random.default_rng(8)
    held, keys = (random.integers(0, 40 if columns == 1 else 7, (100, columns)) for _ in range(2))
    there, asking = np.arange(100) % 100 < 50, np.arange(100) < asked
    known = set(map(tuple, held[there].tolist()))
    expected = [bool(a) and tuple(k) in known for k, a in zip(keys.tolist(), asking, strict=True)]
    for kernel in (membership.joined_rows, membership.joined_rows.py_func):
        with np.errstate(over="ignore"):
            assert kernel(held, there, keys, asking).tolist() == expected
    assert any(expected) and not membership.joined_rows(held, there, keys, ~asking & asking).any()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.some(4)
def test_constraints_that_do_not_hold_only_lose_results(seed: int) -> None:
    """Every k too small, and keys that are none: some results are missing, none is wrong."""
    case = draw_tree_join(Choices(random=Random(seed)))
    names = list(case.inputs)
    strict = " ".join(f"REFERENCES {other} (k)" for other in names)
    false = {n: f"PRIMARY KEY (d) ORDERED BY (k) CLUSTERED BY (k) {strict}" for n in names}
    cql = re.sub(r"\[[A-Z ]*k? ?ROWS \d+\]", "", case.cql)
    how = {"schemas": case.schemas, "until": case.until, "batches": 9}
    exact, some = (
        Counter(map(str, penstock.evaluate(cql, case.inputs, constraints=given, **how)))
        for given in ({}, false)
    )
    assert some <= exact


def complete(rows: dict[str, set[tuple[int, int]]], s1: tuple[int, int]) -> bool:
    """Whether a row of S1 in figure 6.8(a) joins a row of S2 and one of S3 that passes its filter."""
    a, b = s1
    return any(x == a for x, _ in rows["S2"]) and any(x == b and d < 8 for x, d in rows["S3"])


@pytest.mark.parametrize("seed", range(4))
def test_components_are_those_of_theorems_6_3_1_and_6_3_2(seed: int) -> None:
    """In figure 6.8(a): a root's row is Yes (and not stored) if its children are, No (and not stored) if one
    of them is, and Unknown otherwise; results come with a row's entry into Yes (6.3.3, 6.3.5).
    """
    die, run = Random(seed), Run(QUERY_A, SCHEMAS_A, KEYS_A)
    rows: dict[str, set[tuple[int, int]]] = {"S1": set(), "S2": set(), "S3": set()}
    found: set[tuple[int, ...]] = set()
    for _ in range(40):
        stream = die.choice(["S1", "S2", "S3"])
        row = (die.randrange(8), die.randrange(8) + (4 if stream == "S3" else 0))
        key = row if stream == "S1" else (row[0],)
        if any((r if stream == "S1" else (r[0],)) == key for r in rows[stream]):
            continue
        before = {s for s in rows["S1"] if complete(rows, s)}
        rows[stream].add(row)
        entered = {s for s in rows["S1"] if complete(rows, s)} - before
        new = run.put(stream, *row)
        assert {(a, b) for a, b, *_ in new} == entered and len(new) == len(entered)
        assert found.isdisjoint(new)
        found |= set(new)
        refuted = {b for b, d in rows["S3"] if d >= 8}
        unknown = {s for s in rows["S1"] if not complete(rows, s) and s[1] not in refuted}
        assert run.kept("S1", "A", "B") == unknown
        assert run.kept("S3", "B") == {(b,) for b, d in rows["S3"] if d < 8}


@pytest.mark.parametrize(
    ("waiting", "over", "dropped"),
    [
        (False, True, True),  # C1 to C3 hold
        (True, True, False),  # C2 does not: a row of S1 waits in Unknown
        (False, False, False),  # C3 does not: rows of S1 may still come
    ],
)
def test_conditions_of_theorem_6_7_1(waiting: bool, over: bool, dropped: bool) -> None:
    """The row (6, 20) of S2 in figure 6.8(a), with CA(0) on S1.A; {S1} is a minimal cover (C1)."""
    run = figure_a(S1="CLUSTERED BY (A) WITHIN 0 ROWS")
    run.put("S1", 6, 1 if waiting else 5)
    if over:
        run.put("S1", 9, 1)
    assert ((6, 20) not in run.kept("S2", "A", "C")) == dropped


def test_rows_that_came_with_the_end_of_their_cluster_meet_the_keys_of_the_no_component() -> None:
    """In one step: a row of S1 that refers to one that failed, and rows after which none else does."""
    run = figure_a(S1="CLUSTERED BY (B) WITHIN 0 ROWS")
    run.put_many("S1", (6, 10), (6, 5), (6, 5))
    assert run.kept("S1", "A", "B") == set() and run.no("S3") == {(7,)}


@pytest.mark.parametrize("clause", ["ORDERED BY (B)", "CLUSTERED BY (B)"])
def test_many_one_joins_are_the_edges_of_the_tree(clause: str) -> None:
    """Not the join of the two roots, which the equality of their columns with those of S3 implies: rows of S2
    that refer to a row which failed are No at once (theorem 6.3.2).
    """
    query = "SELECT S1.A FROM S1, S2, S3 WHERE S1.B = S3.B AND S2.B = S3.B AND S3.D < 8"
    schemas = {"S1": "A INT, B INT", "S2": "A INT, B INT", "S3": "B INT, D INT"}
    obeyed = f"{clause} WITHIN 9 ROWS"
    run = Run(query, schemas, {"S1": obeyed, "S2": obeyed, "S3": "PRIMARY KEY (B)"})
    graph = run.join._node.constraints
    assert graph is not None and set(graph.edges) == {(0, 2), (1, 2)} == set(graph.tree)
    run.put("S3", 5, 9)
    run.put("S1", 1, 5)
    run.put("S2", 1, 5)
    assert run.kept("S1", "B") == run.kept("S2", "B") == set()


def test_c1_of_theorem_6_7_1() -> None:
    """One of two roots is no cover: that its cluster is over says nothing of rows of the other."""
    query = "SELECT S1.A AS a, S2.A AS b FROM S1, S2, S3 WHERE S1.B = S3.B AND S2.B = S3.B"
    schemas = {"S1": "A INT, B INT", "S2": "A INT, B INT", "S3": "B INT"}
    clustered = "CLUSTERED BY (B) WITHIN 0 ROWS"
    for both in (False, True):
        run = Run(query, schemas, {"S1": clustered, "S2": clustered * both, "S3": "PRIMARY KEY (B)"})
        run.put("S3", 1)
        for b in (1, 2):
            run.put("S1", 7, b)
            run.put("S2", 8, b)
        assert ((1,) not in run.kept("S3", "B")) == both


@pytest.mark.parametrize("seed", range(6))
def test_a_dropped_row_joins_nothing_to_come(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the future of the stream: no later result of all rows has a row that was dropped."""
    case = draw_tree_join(Choices(random=Random(900 + seed)))
    names = list(case.inputs)
    schemas = {n: f"{s}, id INT" for n, s in case.schemas.items()}
    cql = re.sub(r"\[[^\]]*\]", "", re.sub(r"^(I|D)STREAM\((.*)\)$", r"\2", case.cql))
    cql = re.sub(r"SELECT .*? FROM", f"SELECT {', '.join(f'{n}.id AS {n}' for n in names)} FROM", cql)
    inputs = {n: [(t, {**row, "id": at}) for at, (t, row) in enumerate(case.inputs[n])] for n in names}
    dropped: list[tuple[int, str, int]] = []
    drop = KMon._drop

    def watch(self: KMon, i: int, of: Any) -> None:
        ids = self._inputs.stubs[i].gather(f"{names[i]}.id", of.rows[~of.alive]).to_pylist()
        dropped.extend((self._now, names[i], one) for one in ids)
        drop(self, i, of)

    monkeypatch.setattr(KMon, "_drop", watch)
    how = {"schemas": schemas, "until": case.until, "batches": 7}
    penstock.evaluate(cql, inputs, constraints=case.constraints, **how)
    every = penstock.evaluate(f"SET penstock.constraints = 'off'; {cql}", inputs, **how)
    for now, name, one in dropped:
        assert not any(ts >= now and row[name] == one for ts, _, row in every)


@pytest.mark.parametrize(("k", "kept"), [(2, False), (60, True)])
def test_no_components_are_kept_where_that_takes_less(
    k: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in figure 6.18, with CA on S1.A and RIDS(k): most rows of S2 fail the filter and are referred to.
    For a small k their parents are soon gone; for a large one the keys that refute them take less.
    """
    monkeypatch.setattr(closing, "NO_SAMPLE", 1)
    query = "SELECT S1.A FROM S1, S2 WHERE S1.A = S2.A AND S2.D < 1"
    clauses = f"CLUSTERED BY (A) WITHIN 4 ROWS REFERENCES S2 (A) WITHIN {k} ROWS"
    run = Run(query, {"S1": "A INT", "S2": "A INT, D INT"}, {"S1": clauses, "S2": "PRIMARY KEY (A)"})
    for key in range(40):
        run.put("S2", key, key % 10)
        if key >= 5:
            run.put("S1", key - 5)
    assert run.join.retention._no[1].is_kept == kept


def test_evaluate_warns_of_violations(caplog: pytest.LogCaptureFixture) -> None:
    """The third row of B comes later than A declares."""
    inputs = {"A": [(t, {"k": t}) for t in range(3)], "B": [(t * t + 1, {"k": t}) for t in range(3)]}
    told = {}
    for k in (1, 5):
        caplog.clear()
        obeyed = {"A": f"REFERENCES B (k) WITHIN {k} SECONDS"}
        query = "SELECT A.k FROM A [RANGE 20], B [RANGE 20] WHERE A.k = B.k"
        penstock.evaluate(query, inputs, constraints=obeyed)
        told[k] = caplog.messages
    assert (
        not told[5]
        and "a declared constraint was seen violated once: rows of B come at most 1 SECOND after"
        in told[1][0]
    )


def test_rows_that_are_dead_on_arrival_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in fifty of B has a row in A, which comes before it."""
    made: list[ConstrainedJoin] = []
    start = ConstrainedJoin.__init__
    monkeypatch.setattr(ConstrainedJoin, "__init__", lambda self, *a: [start(self, *a), made.append(self)][0])
    inputs = {"A": [(t, {"k": t}) for t in range(0, 3000, 50)], "B": [(t, {"k": t - 5}) for t in range(3000)]}
    query = "SELECT A.k FROM A [RANGE 100], B [RANGE 100] WHERE A.k = B.k"
    exact, some = (
        penstock.evaluate(query, inputs, batches=6, constraints=given)
        for given in ({}, {"B": "REFERENCES A (k)"})
    )
    assert some == exact and len(exact) > 50
    assert [stub.store.inserted for stub in made[0]._inputs.stubs] == [60, 60]


@pytest.mark.slow
def test_rows_whose_match_is_still_to_come_enter() -> None:
    """A row of B waits for one of A for ten seconds, of which most pass in later steps."""
    inputs = {"A": [(t, {"k": t}) for t in range(0, 900, 5)], "B": [(t, {"k": t + 10}) for t in range(900)]}
    query = "SELECT A.k FROM A [RANGE 100], B [RANGE 100] WHERE A.k = B.k"
    exact, some = (
        penstock.evaluate(query, inputs, batches=300, constraints=given)
        for given in ({}, {"B": "REFERENCES A (k) WITHIN 10 SECONDS"})
    )
    assert some == exact and len(exact) > 150
