"""changelog: the net changes of a relation at each instant, as output to the user. A system operator.

Within an instant − elements come before + elements: a reader that writes and deletes by a key applies them in
this order, and the row that replaces another stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.element import Chunk, Pattern
from penstock.engine.netting import settled
from penstock.engine.operator import Clock, Operator, Shows, StartContext


@dataclass(frozen=True)
class Changelog(Shows):
    """The root of a query whose result is a relation."""

    name = "changelog"

    @property
    def pattern(self) -> Pattern:
        return Pattern.CHANGING

    @property
    def waits(self) -> bool:
        """An instant's changes must be complete."""
        return True

    def start(self, context: StartContext) -> Operator:
        """No synopsis: it needs only the changes of an instant."""
        return _Changelog()


class _Changelog(Operator):
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        return _leaving_first(settled(replace(inputs[0], end=None, rid=None), clock))


def _leaving_first(chunk: Chunk) -> Chunk:
    """A chunk in timestamp order with the − elements of each instant before its + elements."""
    ts, sign = chunk.ts, chunk.sign
    if not ((ts[1:] == ts[:-1]) & (sign[1:] < sign[:-1])).any():
        return chunk
    return chunk.take(np.lexsort((sign, ts)))
