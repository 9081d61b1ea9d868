"""The order of rows with equal timestamps, for the operators that depend on it.

Operators say so (``Node.reads_ties``); only the inputs that such an operator reads get the columns by which
the source orders rows, and every other query pays nothing. A derived stream has an order of its own
(``tie-order``), so that below it no order matters.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.engine.operator import Node
from penstock.engine.operators.source import Source
from penstock.engine.operators.tie_order import TieOrder
from penstock.engine.stage import StageInput
from penstock.plan.physical import SourceInput, TableInput
from penstock.schema import RESERVED

HostInput = SourceInput | TableInput


def with_ties(
    root: Node, stage_inputs: Sequence[StageInput], host_inputs: Sequence[HostInput]
) -> tuple[tuple[StageInput, ...], tuple[HostInput, ...]]:
    """A stage's inputs with columns for ties where an operator reads them."""
    read = _read(root)
    hosts = tuple(ordered(i) if isinstance(i, SourceInput) and i.name in read else i for i in host_inputs)
    found = {i.name: i.ties for i in hosts if isinstance(i, SourceInput)}
    return tuple(replace(i, ties=found.get(i.name)) for i in stage_inputs), hosts


def ordered(source: SourceInput, sent: Collection[str] | None = None) -> SourceInput:
    """The input of a stream with columns for ties, in its own names; ``sent``: the columns that may be."""
    ties = source.stream.ties
    if ties is None:
        return source
    fields = [f for f in ties if sent is None or f.name in sent or f.name.startswith(RESERVED)]
    named = [f if f.name.startswith(RESERVED) else f.with_name(f"{source.alias}.{f.name}") for f in fields]
    return replace(source, ties=pa.schema(named))


def _read(root: Node) -> set[str]:
    """The inputs that an operator reads which depends on ties."""
    found, seen = set[str](), set[tuple[int, bool]]()
    waiting = [(root, False)]
    while waiting:
        node, reads = waiting.pop()
        if (id(node), reads) in seen:
            continue
        seen.add((id(node), reads))
        reads = (reads or node.reads_ties) and not isinstance(node, TieOrder)
        if isinstance(node, Source) and reads:
            found.add(node.input)
        waiting += [(below, reads) for below in node.inputs]
    return found
