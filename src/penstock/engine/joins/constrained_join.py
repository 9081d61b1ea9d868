"""The join of inputs that are declared to obey constraints, which keeps rows that can still join (``k_mon``).

Its rows are in stores of its own, so that those that are dead on arrival need not be stored at all; except
under row windows, which need the rows themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.element import Pattern
from penstock.engine.joins.k_mon import KMon
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.synopses.store import Stores

if TYPE_CHECKING:
    from penstock.engine.operators.mjoin import MJoin


class ConstrainedJoin(JoinOperator):
    """A running join that drops rows by constraints."""

    format = 3
    retention: KMon

    def __init__(self, node: MJoin, stores: Stores) -> None:
        super().__init__(node, stores if node.pattern is Pattern.CHANGING else None)

    def _new_retention(self) -> KMon:
        found = self._node.constraints
        assert found is not None
        return KMon(self._inputs, found, self._changing)
