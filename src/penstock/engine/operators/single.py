"""single: checks that a scalar subquery's relation has at most one row at an instant. A system operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.element import BEFORE_TIME, Chunk, Pattern
from penstock.engine.netting import net
from penstock.engine.operator import Clock, Operator, StartContext, Unary
from penstock.errors import DataError


@dataclass(frozen=True)
class Single(Unary):
    """Passes on its input and counts its rows."""

    name = "single"

    @property
    def waits(self) -> bool:
        """An instant must be complete before it is counted."""
        return True

    def start(self, context: StartContext) -> Operator:
        return _Single(self)


class _Single(Operator):
    saved = ("_count",)

    def __init__(self, node: Single) -> None:
        self._grows = node.input.pattern is Pattern.APPEND
        self._count = 0

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        chunk = net(inputs[0].in_order())
        if not len(chunk):
            return chunk
        counts = self._count + np.cumsum(chunk.sign.astype(np.int64))
        last = np.r_[chunk.ts[1:] != chunk.ts[:-1], True]
        if bool((counts[last] > 1).any()):
            when = int(chunk.ts[last][np.argmax(counts[last] > 1)])
            raise DataError(f"a scalar subquery has more than one row at {when}; aggregate it or use IN")
        self._count = int(counts[-1])
        return chunk

    def horizon(self) -> int:
        return int(BEFORE_TIME) if self._grows else super().horizon()
