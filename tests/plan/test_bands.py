"""Comparisons that are bands, and what a band finds, against the comparison itself."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import cql
from penstock.catalog import Catalog, Input
from penstock.engine.joins.bands import Band, order_keys_of
from penstock.expression import Call, Column, Expression, Literal
from penstock.plan.compile import compile
from penstock.plan.explain import explain
from penstock.plan.join_graph import join_graph

X, Y, Z = (Column(name, pa.int64()) for name in ("A.x", "B.y", "C.z"))
F, G = Column("A.f", pa.float64()), Column("B.g", pa.float64())
SCHEMAS = [["A.x", "A.f", "A.s"], ["B.y", "B.g", "B.s"], ["C.z"]]


def call(function: str, *args: Expression | int) -> Call:
    bound = [Literal(a, pa.int64()) if isinstance(a, int) else a for a in args]
    kind = pa.bool_() if function in ("<", "<=", ">", ">=", "<>") else bound[0].type
    return Call(function, tuple(bound), kind)


@pytest.mark.parametrize(
    ("conjuncts", "band"),
    [
        ([call("<", X, Y)], "A.x <= B.y - 1"),
        ([call(">", Y, X)], "B.y >= A.x + 1"),
        ([call(">=", X, call("-", Y, 5)), call("<=", X, call("+", Y, 5))], "A.x BETWEEN B.y - 5 AND B.y + 5"),
        ([call("<", call("-", X, Y), 5)], "A.x <= B.y + 4"),
        ([call(">=", 5, call("-", X, Y))], "A.x <= B.y + 5"),
        ([call("<=", call("abs", call("-", X, Y)), 3)], "A.x BETWEEN B.y - 3 AND B.y + 3"),
        ([call("<", call("abs", call("-", X, Y)), 3)], "A.x BETWEEN B.y - 2 AND B.y + 2"),
        ([call("<", call("+", X, 1), call("-", Y, 2)), call("<", X, Y)], "A.x <= B.y - 4"),
    ],
)
def test_bands(conjuncts: list[Expression], band: str) -> None:
    graph = join_graph(SCHEMAS, conjuncts)
    assert [str(b) for b in graph.bands] == [band]
    assert graph.residual == ()


@pytest.mark.parametrize(
    "conjunct",
    [
        call("<", call("+", X, Y), 5),
        call("<", call("-", X, Y), Z),
        call("<", call("*", X, 2), Y),
        call("<>", X, Y),
        call("<", Column("A.s", pa.string()), Column("B.s", pa.string())),
        call("<", Literal(1, pa.int64()), Literal(2, pa.int64())),
        call("<", X, 5),
        call("<", call("-", X, Y), 2**62),
    ],
)
def test_what_is_none(conjunct: Expression) -> None:
    graph = join_graph(SCHEMAS, [conjunct])
    assert graph.bands == ()
    assert graph.residual == (conjunct,)


def test_a_band_of_doubles_is_verified() -> None:
    conjunct = call("<", call("-", F, G), Literal(0.5, pa.float64()))
    graph = join_graph(SCHEMAS, [conjunct])
    assert [b.floating for b in graph.bands] == [True]
    assert graph.residual == (conjunct,)


WHOLE = [-(2**63), -(2**63) + 3, -7, -1, 0, 1, 5, 2**62, 2**63 - 2, 2**63 - 1]
ROUGH = [
    -math.inf,
    -1e308,
    -1e16,
    -1.0,
    -0.1,
    -0.0,
    0.0,
    5e-324,
    0.1,
    0.3,
    1.0,
    1e16,
    1e308,
    math.inf,
    math.nan,
]


@pytest.mark.parametrize("offsets", [(-5, 5), (None, -1), (3, None), (0, 0), (2**62, None), (-(2**62), 7)])
def test_whole_bounds(offsets: tuple[int | None, int | None]) -> None:
    band = Band((0, "l"), (1, "r"), *offsets)
    for view in (band, band.seen_from(1)):
        keys, _ = order_keys_of(pa.array(WHOLE, pa.int64()))
        lows, highs = view.bounds(keys)
        for (n, right), left in product(enumerate(WHOLE), WHOLE):
            inside = (view.least is None or right + view.least <= left) and (
                view.most is None or left <= right + view.most
            )
            assert (lows[n] <= left <= highs[n]) == inside


def not_after(a: float, b: float) -> bool:
    """a <= b where NaN comes last."""
    return math.isnan(b) or (not math.isnan(a) and a <= b)


@pytest.mark.parametrize("offset", [0.0, 0.1, -0.3, 1e16, -1e308, 5e-324])
def test_rough_bounds_let_all_through(offset: float) -> None:
    rights, _ = order_keys_of(pa.array(ROUGH, pa.float64()))
    lefts = dict(zip(ROUGH, order_keys_of(pa.array(ROUGH, pa.float64()))[0].tolist(), strict=True))
    lows, _ = Band((0, "l"), (1, "r"), offset, None, True).bounds(rights)
    _, highs = Band((0, "l"), (1, "r"), None, offset, True).bounds(rights)
    for (n, right), left in product(enumerate(ROUGH), ROUGH):
        with np.errstate(all="ignore"):
            total = float(np.float64(right) + offset)
        if not_after(total, left):
            assert lows[n] <= lefts[left]
        if not_after(left, total):
            assert lefts[left] <= highs[n]


def test_times() -> None:
    rows = {
        "A": [(t * 1_000_000, {"t": t * 1_000_000}) for t in (1, 7, 20)],
        "B": [(t * 1_000_000, {"u": t * 1_000_000}) for t in (3, 12, 22)],
    }
    got = penstock.evaluate(
        "SELECT ISTREAM(A.t, B.u) FROM A, B WHERE A.t BETWEEN B.u - 5000000 AND B.u + 2000000", rows
    )
    pairs = [(r["t"] // 1_000_000, r["u"] // 1_000_000) for _, _, r in got]
    assert sorted(pairs) == [(1, 3), (7, 12), (20, 22)]


@pytest.mark.parametrize(
    ("where", "adapts"),
    [
        ("A.x - B.x < 3 AND B.x - C.x < 2", False),
        ("A.x = B.x AND B.x - C.x < 2", False),
        ("A.x = B.x AND B.y = C.y", True),
        ("A.x = B.x AND B.x = C.x", True),
    ],
)
def test_explain_says_whether_the_probes_are_ordered(where: str, adapts: bool) -> None:
    catalog = Catalog()
    for name in "ABC":
        catalog.add(Input(name, pa.schema([("x", pa.int64()), ("y", pa.int64())])))
    windows = ", ".join(f"{name} [RANGE 3]" for name in "ABC")
    text = explain(compile(cql.bind(f"SELECT A.x FROM {windows} WHERE {where}", catalog)))
    assert ("[a-greedy orders the filters and probes while it runs]" in text) == adapts
    assert ("[probes in a fixed order: no three inputs are linked by equalities]" in text) != adapts
