"""Trees of joins (thesis 5.3): which one costs least, and the operators that run it."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pyarrow as pa
import pytest

from penstock.catalog import Input, InputOptions
from penstock.cql import bind
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.join_trees import Traffic, Tree, best_tree, cost, leaves, node_cost, trees
from penstock.settings import Settings


def one_key(rates: list[float], rows: list[float], share: float) -> Traffic:
    pairs = dict.fromkeys(combinations(range(len(rates)), 2), share)
    return Traffic(tuple(rates), tuple(rows), (pairs,))


def test_the_size_of_a_join() -> None:
    traffic = one_key([1, 1, 1], [100, 100, 100], 0.01)
    assert traffic.size(frozenset([0, 1])) == pytest.approx(100)
    # The third pair follows from the other two.
    assert traffic.size(frozenset([0, 1, 2])) == pytest.approx(100)
    assert traffic.rate(frozenset([0, 1])) == pytest.approx(2)


def test_a_tree_of_mjoins_for_two_fast_streams() -> None:
    """Thesis 5.3: if R3 and R4 are much faster than R1 and R2, keep the join of R1 and R2 alone."""
    traffic = one_key([1, 1, 50, 50], [100, 100, 100, 100], 0.01)
    assert best_tree(range(4), traffic, binary=False) == ((0, 1), 2, 3)
    found = best_tree(range(4), traffic, binary=True)
    assert found is not None and cost(((0, 1), 2, 3), traffic) < cost(found, traffic)


def test_a_burst_of_an_input_changes_the_tree() -> None:
    """Thesis 5.3: with a burst of R1, it is joined last."""
    traffic = one_key([100, 1, 1, 1], [100, 100, 100, 100], 0.01)
    found = best_tree(range(4), traffic, binary=True)
    assert isinstance(found, tuple) and 0 in found


@pytest.mark.parametrize("binary", (True, False))
@pytest.mark.parametrize("seed", range(6))
def test_the_best_tree_is_the_cheapest_of_all(seed: int, binary: bool) -> None:
    random = Random(seed)
    n = random.choice((3, 4, 5))
    pairs = {p: random.choice((0.001, 0.01, 0.1)) for p in combinations(range(n), 2)}
    traffic = Traffic(
        tuple(random.choice((1.0, 5.0, 30.0)) for _ in range(n)),
        tuple(random.choice((10.0, 100.0, 1000.0)) for _ in range(n)),
        (pairs,),
    )
    found = best_tree(range(n), traffic, binary)
    assert found is not None and leaves(found) == frozenset(range(n))
    least = min(cost(tree, traffic) for tree in trees(range(n), binary))
    assert cost(found, traffic) == pytest.approx(least)


def test_there_are_no_cross_products() -> None:
    chain = Traffic((1.0,) * 4, (10.0,) * 4, ({(0, 1): 0.1}, {(1, 2): 0.1}, {(2, 3): 0.1}))

    def connected(tree: Tree) -> bool:
        return isinstance(tree, int) or (chain.connected(leaves(tree)) and all(map(connected, tree)))

    found = best_tree(range(4), chain, binary=True)
    assert found is not None and connected(found)
    apart = Traffic((1.0,) * 3, (10.0,) * 3, ({(0, 1): 0.1},))
    assert best_tree(range(3), apart, binary=True) is None


def test_many_inputs_are_joined_from_the_left() -> None:
    traffic = one_key([1.0] * 9, [100.0] * 9, 0.001)
    found = best_tree(range(9), traffic, binary=True)
    assert found is not None and leaves(found) == frozenset(range(9))


def test_a_kept_result_costs_its_changes() -> None:
    traffic = one_key([1, 1, 1], [100, 100, 100], 0.01)
    blocks = [frozenset([0, 1]), frozenset([2])]
    more = one_key([9, 1, 1], [100, 100, 100], 0.01)
    assert node_cost(blocks, more) > node_cost(blocks, traffic)


def plan_of(join: str, rates: dict[str, float]) -> str:
    catalog = {
        n: Input(n, pa.schema([("a", pa.int64()), ("b", pa.int64())]), InputOptions(rate=rates.get(n)))
        for n in ("R1", "R2", "R3", "R4")
    }
    query = (
        "SELECT R1.b, R4.b AS c FROM R1 [ROWS 100], R2 [ROWS 100], R3 [ROWS 100], R4 [ROWS 100] "
        "WHERE R1.a = R2.a AND R2.a = R3.a AND R3.a = R4.a AND R1.b < R3.b"
    )
    return explain(compile(bind(query, catalog), 1, Settings(join=join)), costs=False)


def test_declared_rates_shape_the_tree() -> None:
    text = plan_of("tree", {"R1": 1, "R2": 1, "R3": 50, "R4": 50})
    assert "mjoin R1.a = R3.a = R4.a AND R1.b <= R3.b - 1" in text
    assert "binary-join R1.a = R2.a" in text
    assert "R1 ⋈ R2 by hash of R1.a" in text


def test_an_xjoin_has_only_two_way_joins() -> None:
    text = plan_of("xjoin", {})
    assert text.count("binary-join") == 3 and "mjoin" not in text
