"""A case: a query and finite inputs for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A query and finite inputs for it; prints as a call that runs.

    ``unit``: what a tick is; "timestamps" are of TIMESTAMP columns, in microseconds, which only hosts run.
    """

    cql: str
    inputs: dict[str, list[Any]]
    schemas: dict[str, str]
    until: int | None = None
    unit: str = "seconds"
    constraints: dict[str, str] = field(default_factory=dict)
    meaning: str = ""
    """A query that says what this one means where its table D is a relation, if they differ."""

    def __repr__(self) -> str:
        rows = ",\n".join(f"        {name!r}: {elements!r}" for name, elements in self.inputs.items())
        inputs = re.sub(r"\b(nan|inf)\b", r"float('\1')", "{\n" + rows + ",\n    }")
        return (
            f"penstock.evaluate(\n    {self.cql!r},\n    {inputs},\n"
            f"    schemas={self.schemas!r},\n    until={self.until!r},\n"
            f"    constraints={self.constraints!r},\n)"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))
