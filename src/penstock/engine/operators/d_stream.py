"""d-stream: what leaves a relation, DSTREAM(τ) = R(τ−1) − R(τ) as bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.engine.element import Chunk
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Operator, StartContext, ToStream


@dataclass(frozen=True)
class DStream(ToStream):
    """Delete stream."""

    name = "d-stream"

    @property
    def waits(self) -> bool:
        """An instant's changes must be complete."""
        return True

    def start(self, context: StartContext) -> Operator:
        """No synopsis: it needs only the changes of an instant."""
        return _DStream()


class _DStream(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        left = settled(inputs[0], clock)
        left = left.where(left.sign < 0)
        return Chunk(left.ts, np.ones(len(left), np.int8), left.columns)
