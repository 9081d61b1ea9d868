"""The operator contract: a frozen node in the plan, and the running operator it starts.

A node says what an operator is (its inputs, schema, update pattern, parameters) and is printed by
``explain``. ``start`` makes the running operator, which holds the synopses. Once per step the scheduler calls
``run`` with the contents of the input queues; its result goes to the output queues.

An operator names the attributes that are its state in ``saved``: numbers, NumPy arrays, Arrow data, synopses
(:mod:`penstock.engine.snapshot`). A snapshot holds the state of the operators whose input is no longer
available for replay; ``format`` is raised when its meaning changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, FOREVER, Chunk, Int64s, Pattern
from penstock.engine.knobs import Knobs
from penstock.engine.shares import Shares
from penstock.engine.snapshot import Stateful
from penstock.engine.synopses.store import Stores
from penstock.measurement import Reading

if TYPE_CHECKING:
    from penstock.engine.operators.source import Source


@dataclass(frozen=True)
class Clock:
    """The query's time in a step.

    Every element still to come has a timestamp of at least ``now``; all instants before it are complete. The
    instants that this step completes are ``before <= τ < now``. ``first`` is the instant of the query's first
    input, None before it. ``instants`` are those of this step that have input, for nodes that read them.
    ``share`` is this partition's share of the stage's rows so far; ``shares`` are those in the epochs of this
    step, where rows are counted by epochs. The shares of all partitions sum to 1, so a query's budget is
    divided by them. ``budget``: how many times its declared budget a query has now. ``memory``: the bytes
    that this query may use of a memory shared by several queries, if any. ``tables``: whether the rows of
    static tables have been fed.
    """

    before: int
    now: int
    first: int | None = None
    instants: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    share: float = 1.0
    memory: int | None = None
    tables: bool = False
    shares: Shares | None = None
    budget: float = 1.0

    def share_at(self, instant: int) -> float:
        """The share at an instant of this step."""
        return self.share if self.shares is None else self.shares.at(instant)


@dataclass(frozen=True)
class StartContext:
    """What an operator is handed when it starts: the stores of its clock group.

    ``history``: the rows from before that a query that is being started sees, by query and input. What may
    change from step to step comes later: time and the share of a budget with each step (``Clock``), settings
    by ``Operator.configure``. Measurements are asked for (``Operator.measure``). Seeds are parameters of the
    node: the plan is in the log, and queries of one engine may have different ones.
    """

    stores: Stores = field(default_factory=Stores)
    history: dict[tuple[str, str], Chunk] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """Where the rows of a relation are: the store, and the relation's columns by their names there.

    ``longer``: by how much their lives end after the stored end. ``since``: the first instant of rows that
    are in the relation. ``pane``: the name of their lives, in a store that several row windows share.
    """

    store: str
    columns: tuple[tuple[str, str], ...]
    longer: int = 0
    since: int = int(BEFORE_TIME)
    pane: str = ""


@dataclass(frozen=True)
class Growth:
    """What an operator keeps of an input that accumulates: ``keeps`` in words.

    ``per_group``: not more than some of each group, so that it may be bounded in fact.
    """

    input: Node
    keeps: str
    per_group: bool = False


@dataclass(frozen=True)
class Node(ABC):
    """A plan node: one of the operators of thesis table 2.1 with its parameters."""

    name: ClassVar[str]
    is_plan: ClassVar[bool] = True
    """It has no state, and nothing in it goes to disk."""
    passes_on: ClassVar[bool] = False
    """Whether each of its rows is a row of its one input."""

    def __init_subclass__(cls) -> None:
        # Of its own, so that the dataclass does not make one, which would walk the whole plan every time.
        cls.__hash__ = Node._hash_once  # type: ignore[assignment]

    def _hash_once(self) -> int:
        if "_hash" not in self.__dict__:
            values = tuple(getattr(self, f.name) for f in fields(self) if f.compare)
            self.__dict__["_hash"] = hash((type(self), values))
        return int(self.__dict__["_hash"])

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash: another process has others."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose output queues it reads."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of the payload."""

    @property
    @abstractmethod
    def pattern(self) -> Pattern:
        """The update pattern of its output."""

    @property
    def waits(self) -> bool:
        """Whether it needs its input in timestamp order, whole instants at a time."""
        return False

    @property
    def reads_ties(self) -> bool:
        """Whether its relation depends on the order of rows with equal timestamps."""
        return False

    @cached_property
    def is_static(self) -> bool:
        """Whether it reads only tables, which are whole before the first row of a stream."""
        return bool(self.inputs) and all(i.is_static for i in self.inputs)

    @cached_property
    def accumulates(self) -> bool:
        """Whether its relation grows without end as rows arrive, so that an operator that keeps it does."""
        return any(i.accumulates for i in self.inputs)

    @property
    def corrects(self) -> bool:
        """Whether ends of life that were known are corrected when a table changes (see ``Chunk``)."""
        return self.pattern is Pattern.EXPIRING and any(i.corrects for i in self.inputs)

    @property
    def is_momentary(self) -> bool:
        """Whether a row is there at the instant of its timestamp only, so that no change can end it early."""
        expires = self.pattern is Pattern.EXPIRING and bool(self.inputs)
        return expires and all(i.is_momentary for i in self.inputs)

    def growth(self) -> Iterator[Growth]:
        """What it keeps that grows without end."""
        return iter(())

    @property
    def has_ids(self) -> bool:
        """Whether its elements carry row ids."""
        return False

    @property
    def stored(self) -> Stored | None:
        """The store that has all of its rows, if chunks carry row ids (``Chunk.rows``)."""
        return None

    @property
    def as_came(self) -> Source | None:
        """The stream whose rows it has as they came, some of them and other columns; None: no stream's."""
        return self.inputs[0].as_came if self.passes_on else None

    @property
    def all_of(self) -> Source | None:
        """The stream whose rows since any instant it has, also if it began before that instant."""
        return None

    @property
    def reads_instants(self) -> bool:
        """Whether it reads ``Clock.instants``, which are collected only if a node does."""
        return False

    def holds(self, per_tick: float | None) -> int | None:
        """The rows that its relation has at once, by the rows per tick that arrive; None if unknown."""
        return self.inputs[0].holds(per_tick) if len(self.inputs) == 1 else None

    @property
    def lag(self) -> int:
        """The largest delay, in ticks, of an element after its row."""
        return 0

    @property
    def ends_within(self) -> int:
        """The most ticks after its last row after which it has returned what it held back."""
        return self.lag

    @property
    def depends_on_past(self) -> bool:
        """Whether its output depends on past states of a relation that no operator below keeps."""
        return False

    @property
    def fills(self) -> str:
        """The name of the store that it fills, if operators above it read one."""
        return ""

    @property
    def keeps_window(self) -> bool:
        """Whether it keeps rows of a window, which queries may share."""
        return False

    @cached_property  # of inputs that several nodes read, not for each of them again
    def streams(self) -> frozenset[str]:
        """The names of the inputs that it reads, tables left out."""
        return frozenset().union(*(i.streams for i in self.inputs))

    @cached_property
    def span(self) -> int:
        """The ticks of the longest time window in it."""
        return max((i.span for i in self.inputs), default=0)

    def columns_read(self, needed: set[str]) -> Iterator[set[str]]:
        """The columns that it reads of each input, if these of its own are needed."""
        return (set(i.schema.names) for i in self.inputs)

    def unnamed(self) -> Node:
        """The node with the result's columns numbered, if its state does not depend on their names."""
        return self

    def private(self, query: str) -> Node:
        """The node for a query that shares nothing; its inputs are private already."""
        return self

    def read_by(self, reader: str) -> Node:
        """The node whose window, if it passes on a window's rows, has this only reader."""
        return with_inputs(self, lambda i: i.read_by(reader)) if self.passes_on else self

    @abstractmethod
    def start(self, context: StartContext) -> Operator:
        """The running operator, with empty synopses."""

    def describe(self) -> str:
        """Its parameters, for explain."""
        return ""

    def details(self) -> Iterator[str]:
        """Lines about how it runs, for explain."""
        return iter(())


def with_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its inputs changed; itself if none is."""
    new: dict[str, Any] = {}
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Node):
            new[f.name] = change(value)
        elif isinstance(value, tuple) and any(isinstance(v, Node) for v in value):
            new[f.name] = tuple(map(change, value))
    same = all(_same(getattr(node, name), value) for name, value in new.items())
    return node if same else replace(node, **new)


def _same(old: Node | tuple[Node, ...], new: Node | tuple[Node, ...]) -> bool:
    """Whether these are the very nodes: to compare plans by value takes as long as they have paths."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        return all(a is b for a, b in zip(old, new, strict=True))
    return old is new


def nodes(*roots: Node) -> Iterator[Node]:
    """The nodes of plans, each once, above those that it reads."""
    seen: set[int] = set()
    left = list(reversed(roots))
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            left += reversed(node.inputs)


@dataclass(frozen=True)
class Unary(Node):
    """A node with one input, whose schema and update pattern it keeps unless it says otherwise."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern


@dataclass(frozen=True)
class Shows(Unary):
    """A root: what a query shows of a relation, whose rows it passes on."""

    def unnamed(self) -> Node:
        return replace(self, input=self.input.unnamed())


@dataclass(frozen=True)
class ToStream(Shows):
    """A relation-to-stream operator."""

    @property
    def pattern(self) -> Pattern:
        return Pattern.APPEND

    @property
    def accumulates(self) -> bool:
        return True

    @property
    def depends_on_past(self) -> bool:
        """What it shows at an instant may have arrived long before."""
        return True


@dataclass(frozen=True)
class Parts(Node):
    """A node with inputs of the same types, of which the first names the columns."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @property
    def schema(self) -> pa.Schema:
        return self.parts[0].schema


class Operator(Stateful, ABC):
    """A running operator."""

    @abstractmethod
    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        """Process one chunk per input, update the synopses, and return the output elements."""

    def pending(self) -> Sequence[Int64s]:
        """The instants, perhaps several times, at which it will return what it holds back by now."""
        return ()

    def horizon(self) -> int:
        """The smallest timestamp of an input row that the state still depends on; FOREVER for none.

        ``BEFORE_TIME`` if it depends on all of its input.
        """
        return FOREVER

    def configure(self, knobs: Knobs) -> None:
        """Take in settings that have changed, between two steps; also called once when it starts."""
        return

    def close(self) -> None:
        """Called when the operator is removed; its stubs are already detached."""
        return

    def rows(self) -> int:
        """Rows held in synopses."""
        return 0

    def bytes(self) -> int:
        """Bytes held in synopses."""
        return 0

    def unshared_bytes(self) -> int:
        """Bytes that its synopses would take if they were its own."""
        return self.bytes()

    def spare_bytes(self) -> int:
        """Of these, the bytes that it can do without at any time, as those of caches."""
        return 0

    def allow(self, spare: int) -> None:
        """Keep no more than so many of the bytes that it can do without."""
        return

    def measure(self) -> Iterator[Reading]:
        """Further measurements of it and its parts; the engine adds rows, bytes, elements, seconds."""
        return iter(())
