"""The thesis's example of section 5.2.3: logical filters along the paths of figure 5.3(a)."""

from __future__ import annotations

from penstock.streamon.logical_filters import join_order, path, spanning_tree

# Figure 5.3(a): R1 - R2, R1 - R3, R3 - R4, R3 - R5, R5 - R6.
ACYCLIC = {1: [2, 3], 2: [1], 3: [1, 4, 5], 4: [3], 5: [3, 6], 6: [5]}


def test_a_logical_filter_is_a_path() -> None:
    parents = spanning_tree(1, ACYCLIC)
    filters = {f"F{n}": path(parents, j) for n, j in enumerate((2, 3, 4, 5, 6), 1)}
    assert filters == {"F1": [2], "F2": [3], "F3": [3, 4], "F4": [3, 5], "F5": [3, 5, 6]}


def test_the_order_of_filters_becomes_an_order_of_joins() -> None:
    parents = spanning_tree(1, ACYCLIC)
    ends = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6}
    assert join_order([ends[f] for f in (3, 2, 1, 4, 5)], parents) == [3, 4, 2, 5, 6]


def test_precedence_holds_whatever_the_order() -> None:
    parents = spanning_tree(6, ACYCLIC)
    order = join_order([2, 4, 1, 3, 5], parents)
    assert order == [5, 3, 1, 2, 4]


def test_a_cyclic_join_is_ordered_by_a_spanning_tree() -> None:
    cycle = {1: [2, 4], 2: [1, 3], 3: [2, 4], 4: [1, 3]}
    assert spanning_tree(1, cycle) == {2: 1, 4: 1, 3: 2}


def test_what_no_equality_leads_to_is_in_no_path() -> None:
    assert spanning_tree(1, {1: [2], 2: [1], 3: []}) == {2: 1}
