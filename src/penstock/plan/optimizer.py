"""The optimizer: the rewrite rules in order, with the reasons for the order."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan.logical import Logical, rewrite
from penstock.plan.rules.infer_filters import infer_filters
from penstock.plan.rules.keep_in_row_window import keep_in_row_window
from penstock.plan.rules.limit_rank import limit_rank
from penstock.plan.rules.push_select_below_join import push_select_below_join
from penstock.plan.rules.push_select_below_window import push_select_below_window
from penstock.plan.rules.semijoin_to_join import semijoin_to_join

RULES: tuple[Callable[[Logical], Logical], ...] = (
    semijoin_to_join,  # first, since the others work on joins
    infer_filters,  # before push_select_below_join, since it makes the filters that one pushes
    push_select_below_join,  # before push_select_below_window, since it puts selects on windows
    limit_rank,  # after push_select_below_join, which puts the conditions on a rank right above it
    push_select_below_window,
    keep_in_row_window,  # after push_select_below_window, for what that one must leave above
)


def optimize(root: Logical) -> Logical:
    """Apply the rules."""
    for rule in RULES:
        root = rewrite(root, rule)
    return root
