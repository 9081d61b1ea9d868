"""What pages and the API show, as plain typed records; all of them become JSON as they are."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class QueryView:
    """A query: one of ``ps.sql``, a pipeline, or a query of a pipeline.

    ``key`` names it in the API. ``kind``: "query", "pipeline" or "member". ``state``: "running", "registered"
    (until the first batch), "stopped", "failed", "dropped" or "ended". Rates are in rows per second;
    ``lateness`` is how many seconds after its last row a result is seen (p99). ``error`` says in plain words
    why it failed, ``advice`` what to do. ``can`` are the actions that apply now: start, stop, drop, set.
    """

    key: str
    name: str
    kind: str
    state: str
    text: str = ""
    pipeline: str = ""
    run: str = ""
    started: float | None = None
    rows_in: float | None = None
    rows_out: float | None = None
    batch: int | None = None
    batch_seconds: float | None = None
    last_batch: float | None = None
    state_rows: int = 0
    state_bytes: int = 0
    waiting_rows: int = 0
    late_rows: int = 0
    lateness: float | None = None
    error: str = ""
    advice: str = ""
    held_back: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    can: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """A property of an entity, with its unit and meaning as declared in ``measurement.Property``."""

    property: str
    value: float
    text: str = ""
    unit: str = ""
    doc: str = ""


@dataclass(frozen=True)
class Ordering:
    """An order of filters or probes in use: of which input's tuples, by which algorithm."""

    of: str
    steps: tuple[str, ...]
    algorithm: str = ""
    changes: int = 0
    profiled: int = 0
    tuples: int = 0
    entity: str = ""


@dataclass(frozen=True)
class Part:
    """An entity in one partition."""

    partition: int
    rows: float = 0.0
    bytes: float = 0.0
    elements: float = 0.0
    rate: float = 0.0
    seconds: float = 0.0
    busy: float | None = None


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan. ``id`` is ``stage/entity``, as measurements name it.

    ``kind``: "source" (what Spark scans, filters and sends), "operator", "window" (an operator that fills a
    store), "store" (rows once, with a stub for each of ``readers``), "cache", "index" or "result". A store,
    cache or index is ``part_of`` an operator. ``busy``: the share of wall time it ran. ``queries``: the
    queries that need it; more than one means it is shared. ``settings``: what can be changed here while the
    query runs. Numbers are totals over partitions; ``parts`` has each.
    """

    id: str
    kind: str
    name: str
    label: str = ""
    stage: int = 1
    part_of: str = ""
    rows: float = 0.0
    bytes: float = 0.0
    elements: float = 0.0
    rate: float = 0.0
    seconds: float = 0.0
    busy: float | None = None
    selectivity: float | None = None
    queries: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    method: str = ""
    budget: str = ""
    orders: tuple[Ordering, ...] = ()
    settings: tuple[str, ...] = ()
    properties: tuple[Shown, ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class PlanEdge:
    """A way of rows from node to node. ``kind``: "queue" between operators, "exchange" between Spark, stages
    and partitions (``label`` says what is moved how), "stub" from a store to its reader.

    ``waiting``: elements in the queue now; ``rate``: elements per second.
    """

    source: str
    target: str
    kind: str = "queue"
    label: str = ""
    elements: float = 0.0
    rate: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True)
class StageView:
    """A stage: operators that run in one engine per partition."""

    number: int
    partitions: int
    why: str = ""
    scheduler: str = ""
    slice_rows: int | None = None
    step_seconds: float = 0.0
    queue_peak: float = 0.0


@dataclass(frozen=True)
class PlanView:
    """A plan as a picture needs it; ``running`` says whether the numbers are measured.

    ``partition``: the one that the numbers are of; None for all together.
    """

    query: str
    running: bool
    nodes: tuple[PlanNode, ...]
    edges: tuple[PlanEdge, ...]
    stages: tuple[StageView, ...]
    queries: tuple[str, ...] = ()
    partition: int | None = None
    notes: tuple[str, ...] = ()
    time: float = 0.0

    def node(self, id: str) -> PlanNode:
        """The node of an id."""
        return next(n for n in self.nodes if n.id == id)


@dataclass(frozen=True)
class DecisionView:
    """A change of plan, or a setting that was changed.

    ``time``: seconds since 1970, when it was first seen. ``kind``: "order", "access method", "caches",
    "budget", "algorithm" or "setting". ``statistics``: the numbers that led to it.
    """

    query: str
    time: float
    kind: str
    entity: str
    partition: int
    number: int
    before: str
    after: str
    gain: float = 0.0
    at_tuple: int = 0
    from_log: bool = False
    statistics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """Something that holds a query back, or that one should know.

    ``kind``: "source", "operator", "queue", "partition", "spark", "late", "memory" or "idle". ``weight``
    orders them, 1 for what takes all of the time. ``node``: the node of the plan that it is about, if one.
    """

    kind: str
    weight: float
    text: str
    advice: str = ""
    node: str = ""


@dataclass(frozen=True)
class Kept:
    """Where memory is: a store, the state of an operator, a cache, or rows that wait for their time."""

    node: str
    name: str
    rows: float
    bytes: float
    shared_by: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class SeriesView:
    """A series of history: times are seconds since 1970."""

    entity: str
    property: str
    unit: str
    times: list[float]
    values: list[float]


@dataclass(frozen=True)
class ColumnView:
    """A column of an input."""

    name: str
    type: str
    note: str = ""


@dataclass(frozen=True)
class InputView:
    """A registered stream, relation, table, view, function or sink."""

    name: str
    kind: str
    columns: tuple[ColumnView, ...] = ()
    definition: str = ""


@dataclass(frozen=True)
class SettingView:
    """A setting of a running query: its value now, what it may be, and what it does."""

    name: str
    value: str
    choices: tuple[str, ...]
    doc: str
    changes_results: bool = False
    refused: str = ""
