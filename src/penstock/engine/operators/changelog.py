"""changelog: the net changes of a relation at each instant, as output to the user. A system operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        return settled(replace(inputs[0], end=None, rid=None), clock)
