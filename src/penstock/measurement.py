"""Measurements of a running query and its parts, as typed records.

A record says: at a time, in a query, stage and partition, an *entity* (engine, input, operator, queue, store,
adaptive instance, decision) had a *property* with a value, a text, or a value for what the text names.
Kinds of entities and properties are declared here; readers select by these alone.

An entity's id is a path: ``mjoin.3/O/order/17`` is decision 17 of the order in which tuples of ``O`` probe,
in operator 3 of the stage. Operators publish readings relative to themselves (``Operator.measure``); the
engine adds the operator's path, and its host adds query, stage, partition and time.

A store is published once, with the operators that use it. What a join sees of an input is a *window*; several
windows may be of one store.

>>> own = [Reading(Property.PROBES, 7), *under("O", Kind.WINDOW, [Reading(Property.ROWS, 3)])]
>>> found = measured(under("mjoin.3", Kind.OPERATOR, own))
>>> found.total(Property.ROWS), found.of(Property.ROWS)[0].entity
(3.0, 'mjoin.3/O')
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, overload


class Kind(StrEnum):
    """What publishes."""

    QUERY = "query"
    ENGINE = "engine"
    INPUT = "input"
    OPERATOR = "operator"
    QUEUE = "queue"
    STORE = "store"
    WINDOW = "window"
    CACHE = "cache"
    ADAPTIVE = "adaptive"
    DECISION = "decision"
    ROOT = "root"


class Property(StrEnum):
    """What is published: name, unit of the value ("" if only the text counts), meaning, and the text's."""

    unit: str
    doc: str
    text: str

    def __new__(cls, name: str, unit: str, doc: str, text: str = "") -> Property:
        """A property is its name; the rest documents it."""
        self = str.__new__(cls, name)
        self._value_ = name
        self.unit, self.doc, self.text = unit, doc, text
        return self

    # any entity
    NAME = "name", "", "What the entity is called", "the name"
    DESCRIPTION = "description", "", "Its parameters", "as in explain"
    ROWS = "rows", "rows", "Rows of state; of a queue, elements that wait"
    BYTES = "bytes", "bytes", "Bytes of state"

    # query, of which only SysStream has measurements
    BATCH_SECONDS = "batch_seconds", "seconds", "The time that the last batch took"
    ENDED = "ended", "", "The query has ended; its last measurements were published before"
    PUBLISH_SECONDS = "publish_seconds", "seconds", "What the last publication on SysStream took"

    # query, engine, input, operator
    LATENCY = "latency", "seconds", "From the arrival of a result's last row to the result", "p50 or p99"
    THROUGHPUT = "throughput", "per second", "Rows received, or elements emitted, since the step before"

    # engine
    STREAM_TIME = "stream_time", "ticks", "How far the query's time has come"
    HELD_BACK_BY = "held_back_by", "", "The input with the least progress", "the input"
    WAITING = "waiting", "rows", "Rows held back until their time is safe"
    INCOMPLETE = "incomplete", "instants", "Instants that rows, windows or results wait for", "they, if few"
    AHEAD = "ahead", "ticks", "After how long without rows none of these instants is left"
    STEPS = "steps", "steps", "Steps that the state contains; the same in all partitions of a stage"
    UNSHARED_BYTES = "unshared_bytes", "bytes", "What the state would take if no two queries shared any"
    OVERFLOWED = "overflowed", "bytes", "Bytes of files on disk, which hold state beyond the memory limit"
    SCHEDULER = "scheduler", "", "The order in which its operators run", "the scheduler"
    SLICE_ROWS = "slice_rows", "rows", "The rows that go through its operators at once; 0 for all of a step"
    SETTING = "setting", "", "A setting that was changed while it runs", "its name and value"
    QUEUE_PEAK = "queue_peak", "elements", "The most elements that its queues held at once in the last step"
    STEP_SECONDS = "step_seconds", "seconds", "The engine's part of the last batch"
    REPLAYED_STEPS = "replayed_steps", "steps", "Steps replayed when the engine was last built"
    REBUILD_SECONDS = "rebuild_seconds", "seconds", "Time that building the engine took"
    STEPS_AGAIN = "steps_again", "steps", "Steps asked for a second time, and answered from memory"
    LAST_STEP_BYTES = "last_step_bytes", "bytes", "Bytes of the last step's answers that are kept in memory"
    PID = "pid", "", "The engine's process, on its machine", "the machine's name"
    LOG_BYTES = "log_bytes", "bytes", "Bytes of the partition's log in the checkpoint that a rebuild replays"
    SNAPSHOT_BYTES = "snapshot_bytes", "bytes", "Bytes of the snapshot in the checkpoint that a rebuild loads"
    LATE_ROWS_KEPT = "late_rows_kept", "0 or 1", "Whether late rows are written to files"

    # input and root
    LATE = "late", "rows", "Rows that came too late and were left out, since it began", "of a root, the input"

    # input
    RECEIVED = "received", "rows", "Rows received since the engine was built"
    DISORDER = "disorder", "ticks", "The most that a row was behind one of the same input that came before it"
    DISORDER_BOUND = "disorder_bound", "ticks", "The most that it may be behind", "declared, auto or arrival"
    BEHIND = "behind", "ticks", "How far the input's latest row is behind that of the furthest input"
    MOST_BEHIND = "most_behind", "ticks", "The most that it was behind after a step"
    UNMATCHED = "unmatched", "rows", "Deletions left out since the relation did not hold the row"
    KEY = "key", "0 or 1", "The column an input is split by; 1 if its values are quoted in DDL", "the column"
    HEAVY_SHARE = "heavy_share", "share", "The part of the rows received that have a frequent key", "the key"

    # operator and queue
    HELD_RESULTS = "held_results", "results", "Results of ISTREAM whose instants are not complete"
    ELEMENTS = "elements", "elements", "Elements emitted; of a queue, elements that went through it"
    SECONDS = "seconds", "seconds", "Time the operator has run"
    SELECTIVITY = "selectivity", "ratio", "Elements emitted per element consumed in the last step"
    MATCHES_PER_PROBE = "matches_per_probe", "ratio", "Matches found per probe since the engine was built"
    PROBES = "probes", "probes", "Probes of stores; of an index, those now counted"
    COMPARED = "compared", "comparisons", "Timestamps that a W-join compared"
    TESTED = "tested", "tuples", "Tuples that a W-join tested by predicates or found by an index"
    FROM = "from", "", "The operator or input that fills a queue, or whose output a root is", "its entity"
    QUERIES = "queries", "queries", "How many queries of a pipeline use the operator", "their names"
    STORE = "store", "", "A store that the operator fills or reads", "its entity"

    # store
    STUBS = "stubs", "stubs", "How many readers it has"
    USED_BY = "used_by", "", "An operator that fills or reads it", "its entity"

    # adaptive instance
    ORDER = "order", "position", "A step of the order now used, counted from 0", "the filter or input"
    METHOD = "method", "", "The access method now used", "the method"
    ALGORITHM = "algorithm", "", "The algorithm that chooses", "its name"
    CHANGES = "changes", "decisions", "How often the plan changed"
    RECALLED = "recalled", "decisions", "How often a plan was found in the plan log"
    DRIFTS = "drifts", "times", "How often the stream changed abruptly"
    STEADY = "steady", "", "A filter that is tracked less because no change moved it", "the filter"
    FIRST_MATCH = "first_match", "", "A filter that probes for a first match, then for all", "the filter"
    TUPLES = "tuples", "tuples", "Tuples processed"
    EVALUATIONS = "evaluations", "filters", "Filters evaluated on tuples"
    PROFILED = "profiled", "tuples", "Tuples on which every filter was evaluated, to learn"
    CPU_SECONDS = "cpu_seconds", "seconds", "CPU time by activity (thesis table 4.2)", "the activity"
    SINGLE_PLAN = (
        "single_plan",
        "cost",
        "The average cost of the best single plan since the log began",
        "the plan",
    )
    ADAPTED = "adapted", "cost", "The average cost of the plans that were used since then, in the same unit"
    TRANSIENT = "transient", "0 or 1", "A statistic that often changes and soon comes back", "its name"
    INVALIDATION = "invalidation", "", "When a window frees the rows that have expired", "active or lazy"
    INVALIDATIONS = "invalidations", "", "How often a window freed the rows that had expired"
    UPDATES = "updates", "rows", "Rows that entered the window of an index, as now counted"
    COST = "cost", "weighted units", "What an access method would cost for the rows now counted", "the method"

    # cache of a join subresult
    ENTRIES = "entries", "keys", "Keys that a cache has"
    HITS = "hits", "tuples", "Tuples whose key a cache had; those after the first of a new key count as well"
    MISSES = "misses", "keys", "Keys that a cache did not have"
    EVICTED = "evicted", "keys", "Keys that a cache gave up for lack of memory"
    BENEFIT = "benefit", "seconds per tuple", "What a cache saves, for each tuple of the join"
    MAINTENANCE = "maintenance", "seconds per tuple", "What keeping a cache complete takes, in the same unit"
    STATE = "state", "caches", "Candidates of the caches in a state", "used, profiled or unused"

    # constraints of a join, and its stores under them
    DROPPED = "dropped", "rows", "Rows that constraints let a join drop before their end", "the reason"
    COMPONENT = "component", "rows", "Rows after the last collection (thesis 6.3)", "Yes, No or Unknown"
    COLLECTIONS = "collections", "times", "How often rows were looked at for those to drop"
    VIOLATIONS = "violations", "rows", "Rows seen to violate a declared constraint", "the constraint"
    CHOSEN = "chosen", "0 or 1", "Whether the No component of an input is kept", "the input"
    SIZE_KEPT = "size_kept", "bytes", "The expected size of that component", "the input"
    SIZE_WAITING = "size_waiting", "bytes", "The expected size of rows that wait without it", "the input"
    ADHERENCE = "adherence", "see text", "The k now used of a monitored constraint; -1: none", "rows or ticks"
    OBSERVED = "observed", "see text", "The largest distance in the last arrivals", "rows or ticks"
    EVIDENCE = "evidence", "rows", "Rows that were measured among these arrivals"
    INCREASES = "increases", "times", "How often a distance exceeded the k in use"
    ARCHIVED = "archived", "rows", "Rows on disk that a join let go by monitored constraints"
    RETURNED = "returned", "rows", "Rows that came back from disk, since a row came that joins them"
    MISSED_SHARE = "missed_share", "share", "Estimate of the results missed, from those of the sample"
    MISSED_SHARE_LOW = "missed_share_low", "share", "The lower end of its 95 % interval"
    MISSED_SHARE_HIGH = "missed_share_high", "share", "The upper end of its 95 % interval"

    # decision
    DECIDED_AT = "decided_at", "tuples", "After how many tuples it was made", "the plan chosen"
    GAIN = "gain", "share", "The share of the cost that it saves"
    REASON = "reason", "", "Why the plan before was left, if it was not for a better one", "the reason"
    STATISTIC = "statistic", "see text", "A statistic behind it; of a filter, the share it drops", "its name"
    FROM_LOG = "from_log", "0 or 1", "Whether the plan was found in the plan log"

    # budget, and the windows under one
    BUDGET = "budget", "", "The budget", "as in CQL"
    BUDGET_SHARE = "budget_share", "share", "This partition's part of the budget"
    SHORT_OF = "short_of", "", "A resource that does not suffice", "rate or memory"
    MODEL = "model", "", "The model of the stream in use", "age or frequency"
    POLICY = "policy", "", "What decides on tuples", "a policy, sampling scheme or allocation"
    EXPECTED_RECALL = "expected_recall", "share", "The part of all results that the model expects"
    MEASURED_RECALL = "measured_recall", "share", "The same, measured on monitored tuples"
    SAMPLING_FRACTION = "sampling_fraction", "share", "The part of all results that is sampled"
    MEASURED_FRACTION = "measured_fraction", "share", "The same, measured on monitored tuples"
    MONITORED_RESULTS = "monitored_results", "results", "Results that recall is measured on"
    MONITORED_ROWS = "monitored_rows", "rows", "Rows kept for life, to learn from and to measure by"
    RECALL_AT_ROWS = "recall_at_rows", "share", "The recall with another memory", "rows"
    RECALL_AT_BYTES = "recall_at_bytes", "share", "The recall with another part of a shared memory", "bytes"
    ERROR_AT_ROWS = "error_at_rows", "share", "The relative error of a COUNT with another memory", "rows"
    ERROR_AT_BYTES = "error_at_bytes", "share", "The same with another part of a shared memory", "bytes"
    SHARED_MEMORY = "shared_memory", "bytes", "The memory that queries share, of which this one has a part"
    WEIGHT = "weight", "", "How much the query matters beside those that share the memory"
    ARRIVAL_RATE = "arrival_rate", "rows per second", "Rate of arrivals, in stream time"
    ARRIVALS_PER_TICK = "arrivals_per_tick", "rows per tick", "Rate of arrivals, in stream time"
    EFFECTIVE_RATE = "effective_rate", "rows per second", "Rate of the arrivals that may probe"
    ROWS_NEEDED = "rows_needed", "rows", "Rows of the whole window"
    ROWS_ALLOTTED = "rows_allotted", "rows", "Rows that a window may keep"
    SHED = "shed", "rows", "Rows left out", "the reason"
    RESULTS_BY_AGE = "results_by_age", "results", "Results of a tuple at an age", "the class of ages, from 0"
    SURPRISE = "surprise", "", "By how much the stream differs from the model"


_PROPERTIES = {str(p): p for p in Property}


class Reading(NamedTuple):
    """One property of an entity; until ``under`` sets it, the entity is the one that yields the reading."""

    property: Property
    value: float = 0.0
    text: str = ""
    entity: str = ""
    kind: Kind | None = None


class Measurement(NamedTuple):
    """A reading with its origin: ``time`` is in µs since 1970; stages count from 1, partitions from 0."""

    time: int
    query: str
    stage: int
    partition: int
    entity: str
    kind: Kind
    property: Property
    value: float
    text: str


def under(entity: str, kind: Kind, readings: Iterable[Reading]) -> Iterator[Reading]:
    """Readings of an entity and of its parts."""
    # In every step of every engine some hundred readings pass through here, most of them several times.
    prefix, new = f"{entity}/", Reading._make
    for prop, value, text, part, of_kind in readings:
        yield new((prop, value, text, prefix + part, of_kind) if part else (prop, value, text, entity, kind))


def curve(prop: Property, values: Iterable[float], at: Iterable[object]) -> Iterator[Reading]:
    """A property that has a value at several places."""
    return (Reading(prop, value, str(x)) for value, x in zip(values, at, strict=True))


def order(steps: Iterable[object]) -> Iterator[Reading]:
    """An order of filters or probes."""
    return (Reading(Property.ORDER, position, str(step)) for position, step in enumerate(steps))


def given(prop: Property, value: float | None) -> Iterator[Reading]:
    """A reading if there is a value."""
    if value is not None:
        yield Reading(prop, value)


class Measurements(Sequence[Measurement]):
    """A list of measurements with methods to select and to sum them."""

    SCHEMA: ClassVar[str] = (
        "time BIGINT, query STRING, stage INT, partition INT, entity STRING, kind STRING, property STRING, "
        "value DOUBLE, text STRING"
    )
    """The columns of ``rows`` for Spark, which cannot find them out where nothing is measured yet."""

    def __init__(self, records: Iterable[Measurement] = ()) -> None:
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, at: int) -> Measurement: ...

    @overload
    def __getitem__(self, at: slice) -> Measurements: ...

    def __getitem__(self, at: int | slice) -> Measurement | Measurements:
        return Measurements(self._records[at]) if isinstance(at, slice) else self._records[at]

    def __repr__(self) -> str:
        return f"Measurements({len(self)} records)"

    def of(self, prop: Property) -> Measurements:
        """Those of one property."""
        if not isinstance(prop, Property):
            raise TypeError(f"{prop!r} is no Property; measurements are selected by declared properties")
        return Measurements(m for m in self if m.property is prop)

    def of_kind(self, kind: Kind) -> Measurements:
        """Those of one kind of entity."""
        return Measurements(m for m in self if m.kind is kind)

    def of_operator(self, name: str) -> Measurements:
        """Those of operators of one name, and of their parts."""
        return Measurements(m for m in self if m.entity.partition("/")[0].rpartition(".")[0] == name)

    def entity(self, path: str) -> Measurements:
        """Those of one entity, without its parts."""
        return Measurements(m for m in self if m.entity == path)

    def parts(self, path: str) -> Measurements:
        """Those of one entity and of its parts."""
        return Measurements(m for m in self if m.entity == path or m.entity.startswith(f"{path}/"))

    def query(self, query: str) -> Measurements:
        """Those of one run of a query, by its id."""
        return Measurements(m for m in self if m.query == query)

    def has(self, prop: Property) -> bool:
        """Whether there is one of a property."""
        return any(m.property is prop for m in self)

    def value(self, prop: Property, default: float = 0.0) -> float:
        """The value of the only one of a property, or of the last one."""
        found = self.of(prop)
        return found[-1].value if found else default

    def text(self, prop: Property, default: str = "") -> str:
        """The text of the only one of a property, or of the last one."""
        found = self.of(prop)
        return found[-1].text if found else default

    def texts(self, prop: Property) -> list[str]:
        """The texts of a property, in the order of their values."""
        return [m.text for m in sorted(self.of(prop), key=lambda m: m.value)]

    def values(self, prop: Property) -> dict[str, float]:
        """The values of a property by their texts."""
        return {m.text: m.value for m in self.of(prop)}

    def total(self, prop: Property) -> float:
        """The sum of a property's values."""
        return float(sum(m.value for m in self.of(prop)))

    def by_engine(self) -> dict[tuple[str, int, int], Measurements]:
        """By query, stage and partition, in that order."""
        return dict(sorted(self._by(lambda m: (m.query, m.stage, m.partition)).items()))

    def by_entity(self) -> dict[str, Measurements]:
        """By entity, in the order of the plan."""
        return self._by(lambda m: m.entity)

    def by_name(self, prop: Property) -> dict[str, float]:
        """The values of a property by the last part of their entities' paths."""
        return {name_of(m.entity): m.value for m in self.of(prop)}

    def _by(self, key: Any) -> dict[Any, Measurements]:
        found: dict[Hashable, list[Measurement]] = {}
        for m in self:
            found.setdefault(key(m), []).append(m)
        return {k: Measurements(of_it) for k, of_it in found.items()}

    def rows(self) -> list[tuple[int, str, int, int, str, str, str, float, str]]:
        """Plain values, for ``spark.createDataFrame(found.rows(), Measurements.SCHEMA)``."""
        return [(*m[:5], str(m.kind), str(m.property), float(m.value), m.text) for m in self]


def measured(
    readings: Iterable[Reading], query: str = "", stage: int = 1, partition: int = 0, time: int = 0
) -> Measurements:
    """Readings of an engine, with their origin."""
    origin = (time, query, stage, partition)
    return Measurements(
        Measurement(*origin, r.entity, r.kind or Kind.OPERATOR, r.property, r.value, r.text) for r in readings
    )


def name_of(entity: str) -> str:
    """The last part of an entity's path."""
    return entity.rpartition("/")[2]


def parent_of(entity: str) -> str:
    """The entity that one is part of; "" for those that are part of none."""
    return entity.rpartition("/")[0]


def encode(readings: Iterable[Reading]) -> bytes:
    """Readings as JSON, an entity's under its name."""
    entities = groupby(readings, key=lambda r: (r.entity, r.kind))
    data = [[entity, kind, [r[:3] if r.text else r[:2] for r in own]] for (entity, kind), own in entities]
    return json.dumps(data, default=float, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> Iterator[Reading]:
    """What ``encode`` made bytes of."""
    for entity, kind, own in json.loads(data):
        for name, value, *text in own:
            yield Reading(_PROPERTIES[name], value, text[0] if text else "", entity, Kind(kind))


def together(*encoded: bytes) -> bytes:
    """What several publishers have encoded, as one.

    >>> parts = [under("engine", Kind.ENGINE, [Reading(p, 7)]) for p in (Property.STEPS, Property.ROWS)]
    >>> [r.property.value for r in decode(together(*map(encode, parts)))]
    ['steps', 'rows']
    """
    return b"[" + b",".join(e[1:-1] for e in encoded if len(e) > 2) + b"]"


def table() -> str:
    """The properties as a table of Markdown, for docs/operations.md."""
    lines = ["| property | unit | meaning | text |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| `{p}` | {p.unit} | {p.doc} | {p.text} |" for p in Property)])
