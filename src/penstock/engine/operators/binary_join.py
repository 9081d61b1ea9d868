"""binary-join: the join of two relations; an mjoin whose pipelines have one probe each."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.operators.mjoin import MJoin


@dataclass(frozen=True)
class BinaryJoin(MJoin):
    """Two inputs, two synopses."""

    name = "binary-join"
