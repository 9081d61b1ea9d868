"""The interface between a host (Spark, a test, ``evaluate``) and one partition's engine.

A host builds an :class:`~penstock.engine.engine.Engine` from a :class:`Stage` and then calls ``step`` once
for every micro-batch with the :class:`Arrival` s of that batch; the engine answers with a
:class:`StepOutput`. Both sides are plain data and pickle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine.shares import Epochs

if TYPE_CHECKING:
    from penstock.engine.operator import Node

# The names of these columns begin with RESERVED, so that no column of a user's is named so.
TS = "#ts"
"""Column of an arriving or leaving batch: the timestamp in ticks, int64."""
SIGN = "#sign"
"""Column of a batch of relation elements: +1 or -1, int8."""
END = "#end"
"""Column of a batch that goes on to another stage: the known end of life, int64, where there is one."""


RESULT = "result"
"""The root of a stage with one root."""
STREAMS = ("source", "exchange")
"""The kinds of inputs whose rows come while a stage runs."""
SOURCE = "#source"
"""Column of a batch of keys: the number of the source's partition that they came from."""


@dataclass(frozen=True)
class StageInput:
    """One input of a stage.

    ``kind`` is ``"source"`` (a stream: rows carry ``TS``; future rows are no older than the largest timestamp
    seen less ``skew``), ``"exchange"`` (elements of an earlier stage: rows carry ``TS`` and ``SIGN``; each of
    its ``upstream`` partitions reports its progress), ``"table"`` (static rows, handed over when the engine
    is built) or ``"keys"`` (the keys in each partition of a source declared as partitioned, in the dimension
    ``axis``). ``key`` is the column that a stream is split by, if it is a single one. ``waits``: the query
    shows complete instants, so that all stages must wait for them if the table changes. ``adaptive``: the
    bound follows the disorder seen, and ``skew`` is the most that it may be. ``stamped``: the engine gives
    the rows of a batch one timestamp, later than those of all batches before; ``skew`` is then -1.
    ``stream``: the stream whose rows it has, which may come by several inputs. ``ties``: columns that order
    rows of equal timestamps, some of them beside the schema; None: rows keep the order of their arrival.
    ``producers``: of a source, how many report their progress, as the partitions of an exchange do; its rows
    then need no ``skew``.
    ``epochs``: those by which rows are counted to divide a budget among partitions, if that is so.
    """

    name: str
    schema: pa.Schema
    kind: str = "source"
    skew: int = 0
    idle_after: int | None = None
    upstream: int = 1
    axis: int = 0
    key: str | None = None
    waits: bool = False
    adaptive: bool = False
    stamped: bool = False
    stream: str = ""
    ties: pa.Schema | None = field(default=None, compare=False)
    producers: int = field(default=0, compare=False)
    epochs: Epochs | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Scheduling:
    """The scheduler (:mod:`penstock.engine.scheduler`) and the rows of a slice; None: a step is one slice."""

    scheduler: str = "fifo"
    slice_rows: int | None = None


@dataclass(frozen=True)
class MemoryLimit:
    """The bytes of state that an engine holds in memory; what exceeds them is in files of the directory.

    Without one, that is the system's directory for temporary files.
    """

    bytes: int
    directory: str | None = None


@dataclass(frozen=True)
class Stage:
    """One partition's program: the operators' roots by name, and the inputs they read.

    Each root has its own clock, the least progress of its inputs. A query has one root, ``RESULT``; a
    pipeline has none, since its queries come by commands (:mod:`penstock.engine.registry`). ``one_clock``:
    all of them run by the least progress of all inputs, and share the windows of every stream. ``partition``:
    the number of the partition that an engine runs, which its host fills in. ``number``: 1 for the second
    stage of a pipeline, which runs the second part of its queries.
    """

    roots: dict[str, Node]
    inputs: tuple[StageInput, ...]
    tables: dict[str, pa.Table] = field(default_factory=dict, compare=False)
    scheduling: Scheduling = field(default=Scheduling(), compare=False)
    memory: MemoryLimit | None = field(default=None, compare=False)
    one_clock: bool = False
    partition: int = field(default=0, compare=False)
    number: int = 0

    @property
    def root(self) -> Node:
        """The root of a stage with one root."""
        (root,) = self.roots.values()
        return root

    @property
    def waits(self) -> bool:
        """Whether some root waits for safe time."""
        return any(map(waits, self.roots.values())) or any(i.waits for i in self.inputs)


def waits(node: Node) -> bool:
    """Whether the node or one below it needs its input in timestamp order, whole instants at a time."""
    return not node.is_static and (node.waits or any(map(waits, node.inputs)))


@dataclass(frozen=True)
class Arrival:
    """What one producer (a map task, an upstream partition) sends to one engine in one step.

    ``min_ts`` and ``max_ts`` cover every row the producer saw, also those that a pushed-down filter
    dropped or that went to other partitions; None if it saw none. ``progress`` is for exchanges: every
    later element has a timestamp of at least that, and ``min_ts`` is the query's first instant. Arrivals of
    one input are taken in the order of ``producer``, rows within a batch in their order: that is the order
    of arrival. A ``copy`` holds rows that another engine is sent too and counts if they are late.
    ``total`` is how many rows the producer sent all engines together; None if all went to this one.
    ``disorder``: the most that one of the rows it saw was behind one that came before it. ``epochs``: the
    rows of ``total`` by epoch, where they are counted so.
    """

    input: str
    producer: int
    batch: pa.RecordBatch | None = None
    min_ts: int | None = None
    max_ts: int | None = None
    progress: int | None = None
    copy: bool = False
    total: int | None = None
    disorder: int = 0
    epochs: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class RootOutput:
    """The result elements of a root in a step (``TS``, ``SIGN``, then its schema), in timestamp order.

    Every later element has a timestamp of at least ``progress``. ``first`` is the instant of the root's
    first input, as far as it is known. ``late`` are the rows that came too late to be placed, by input.
    ``by``: the elements go on to the second stage, by these columns; None: they are results.
    """

    batch: pa.RecordBatch
    progress: int
    first: int | None = None
    late: dict[str, pa.RecordBatch] = field(default_factory=dict)
    by: tuple[str, ...] | None = None


@dataclass(frozen=True)
class StepOutput:
    """What a step returns, by root, and which part of the log a rebuild needs.

    A rebuild needs no step before ``needs_from`` (steps count from 0). After a snapshot of the operators that
    depend on all of their input it would need none before ``replay_from``. ``failed``: registered queries
    that raised an error in this step, which ended them, with the error.
    """

    roots: dict[str, RootOutput]
    needs_from: int
    replay_from: int
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def only(self) -> RootOutput:
        """The output of a stage with one root."""
        (output,) = self.roots.values()
        return output


@dataclass(frozen=True)
class Snapshot:
    """The state of an engine at ``version``; a rebuild from it replays the steps from ``start`` on.

    It is needed as long as ``StepOutput.needs_from`` is at most its version. ``size``: the bytes of its data,
    which is left out if there are more than were asked for.
    """

    version: int
    start: int
    data: bytes
    size: int
