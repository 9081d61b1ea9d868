"""union: bag union. No synopsis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Chunk, Pattern, batch_of
from penstock.engine.operator import Clock, Operator, Parts, StartContext


@dataclass(frozen=True)
class Union(Parts):
    """All rows of its inputs, of which all or none have known ends."""

    name = "union"

    @property
    def pattern(self) -> Pattern:
        """The inputs' pattern; CHANGING if some input changes."""
        changes = any(p.pattern is Pattern.CHANGING for p in self.parts)
        return Pattern.CHANGING if changes else self.parts[0].pattern

    def start(self, context: StartContext) -> Operator:
        grows = self.pattern is not Pattern.APPEND and any(p.pattern is Pattern.APPEND for p in self.parts)
        return _Union(self.schema, grows)


class _Union(Operator):
    def __init__(self, schema: pa.Schema, grows: bool) -> None:
        self._schema = schema
        self._grows = grows

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        renamed = [
            replace(c, columns=batch_of(c.columns.columns, self._schema, len(c)), rid=None) for c in inputs
        ]
        return Chunk.concat(renamed, self._schema).in_order()

    def horizon(self) -> int:
        # Operators above see a relation that changes, and leave it to the windows below to say what they
        # hold; a part that only grows has none that does.
        return int(BEFORE_TIME) if self._grows else super().horizon()
