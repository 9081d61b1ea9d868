"""What a host (Spark, a test, ``evaluate``) and one partition's engine say to each other.

A host builds an :class:`~penstock.engine.engine.Engine` from a :class:`Stage` and then calls ``step`` once
for every micro-batch with the :class:`Arrival` s of that batch; the engine answers with a
:class:`StepOutput`. Both sides are plain data and pickle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from penstock.engine.operator import Node

TS = "__ts"
"""Column of an arriving or leaving batch: the timestamp in ticks, int64."""
SIGN = "__sign"
"""Column of a batch of relation elements: +1 or -1, int8."""
END = "__end"
"""Column of a batch that goes on to another stage: the known end of life, int64, where there is one."""


SOURCE = "__source"
"""Column of a batch of keys: the number of the source's partition that they came from."""


@dataclass(frozen=True)
class StageInput:
    """One input of a stage.

    ``kind`` is ``"source"`` (a stream: rows carry ``TS``; future rows are no older than the largest
    timestamp seen less ``skew``), ``"exchange"`` (elements of an earlier stage: rows carry ``TS`` and
    ``SIGN``; each of its ``upstream`` partitions reports how far its time has come), ``"table"`` (static
    rows, handed over when the engine is built) or ``"keys"`` (what a source that is declared as partitioned
    has where, in the dimension ``axis``). ``key`` is the column that a stream is split by, if it is one.
    """

    name: str
    schema: pa.Schema
    kind: str = "source"
    skew: int = 0
    idle_after: int | None = None
    upstream: int = 1
    axis: int = 0
    key: str | None = None


@dataclass(frozen=True)
class Stage:
    """One partition's program: the operators' root, its inputs, and whether they wait for safe time."""

    root: Node
    inputs: tuple[StageInput, ...]
    waits: bool = True
    tables: dict[str, pa.Table] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Arrival:
    """What one producer (a map task, an upstream partition) sends one engine in one step.

    ``min_ts`` and ``max_ts`` cover every row the producer saw, also those that a pushed-down filter
    dropped or that went to other partitions; None if it saw none. ``progress`` is for exchanges: every
    later element has a timestamp of at least that, and ``min_ts`` is the query's first instant. Arrivals of
    one input are taken in the order of ``producer``, rows within a batch in their order: that is the arrival
    order that breaks ties. A ``copy`` holds rows that another engine is sent too and counts if they are late.
    ``total`` is how many rows the producer sent all engines together; None if all went to this one.
    """

    input: str
    producer: int
    batch: pa.RecordBatch | None = None
    min_ts: int | None = None
    max_ts: int | None = None
    progress: int | None = None
    copy: bool = False
    total: int | None = None


@dataclass(frozen=True)
class StepOutput:
    """The result elements of a step (``TS``, ``SIGN``, then the root's schema), in timestamp order.

    Every later element has a timestamp of at least ``progress``. The engine's state depends on nothing
    that arrived before step ``needs_from`` (steps count from 0), given a replay of what arrived since.
    ``first`` is the instant of the query's first input, as far as it is known.
    ``late`` are the rows that came too late to be placed, by input.
    """

    batch: pa.RecordBatch
    progress: int
    needs_from: int
    first: int | None = None
    late: dict[str, pa.RecordBatch] = field(default_factory=dict)
