"""What operators with one input and an unchanged schema have in common."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.operator import Node


@dataclass(frozen=True)
class Unary(Node):
    """One input; the schema is the input's."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @property
    def schema(self) -> pa.Schema:
        """Its input's."""
        return self.input.schema
