"""The queries of an engine: those it starts with, and those that are registered and dropped while it runs.

A stage has inputs and, for a single query, its root. The queries of a pipeline come by commands, each with
its plan. A query that is registered in a running engine sees the rows *since* the instant after the latest
row that its streams had shown: the same in every partition, since all partitions know the timestamps of all
rows. What it shares with others does not change that (``operators/since.py``).
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.engine.command import DROP, REGISTER, Command
from penstock.engine.element import BEFORE_TIME
from penstock.engine.operator import Node, with_inputs
from penstock.engine.operators.project import Project
from penstock.engine.operators.select import Select
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.since import Since
from penstock.engine.operators.source import Source
from penstock.engine.stage import Arrival, StageInput, waits
from penstock.errors import EngineError


@dataclass(frozen=True)
class QueryPlan:
    """A query as an engine runs it: its root, and the static tables that only it reads.

    It runs in the partitions before ``partitions``; None: in all.
    """

    root: Node
    inputs: tuple[StageInput, ...] = ()
    tables: dict[str, pa.Table] = field(default_factory=dict, compare=False)
    partitions: int | None = None

    @property
    def streams(self) -> frozenset[str]:
        """The names of the stage's inputs that it reads, tables left out."""
        return frozenset(_streams(self.root))

    @property
    def reads_windows(self) -> bool:
        """Whether it has windows that keep rows, which it could share."""
        return _reads_windows(self.root)

    @property
    def waits(self) -> bool:
        """Whether a pipeline shows it at complete instants: those that read windows wait, to share."""
        return waits(self.root) or any(i.waits for i in self.inputs) or self.reads_windows

    def encoded(self) -> str:
        """The plan in a command."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def decoded(text: str) -> QueryPlan:
        """The inverse of ``encoded``."""
        try:
            plan = pickle.loads(base64.b64decode(text))
        except Exception as error:
            raise EngineError(
                f"a registered query was planned by another version of Penstock: {error}; drop it and "
                "register it again"
            ) from None
        assert isinstance(plan, QueryPlan)
        return plan


def _reads_windows(node: Node) -> bool:
    kept = isinstance(node, SeqWindow) and not node.is_momentary
    return kept or any(map(_reads_windows, node.inputs))


def _streams(node: Node) -> set[str]:
    if isinstance(node, Source):
        return set() if node.table else {node.input}
    return set().union(*(_streams(i) for i in node.inputs))


@dataclass(frozen=True)
class Registered:
    """A query that runs: its plan, as it came, and the first instant that it sees."""

    plan: str
    since: int = int(BEFORE_TIME)


@dataclass(frozen=True)
class Registry:
    """The registered queries by name, in their order, and the latest timestamp of each input so far."""

    queries: Mapping[str, Registered] = field(default_factory=dict)
    highest: Mapping[str, int] = field(default_factory=dict)

    def after(self, commands: Sequence[Command], clock: Collection[str] | None = None) -> Registry:
        """The registry after commands. A name that is taken keeps its query: the host has refused it.

        ``clock``: the inputs that all queries go by, if they have one clock.
        """
        queries = dict(self.queries)
        for command in commands:
            name = command.payload.get("query", "")
            if command.kind == REGISTER and name not in queries:
                plan = command.payload["plan"]
                queries[name] = Registered(plan, self._since(clock or QueryPlan.decoded(plan).streams))
            elif command.kind == DROP:
                queries.pop(name, None)
        return self if queries == self.queries else replace(self, queries=queries)

    def without(self, names: Collection[str]) -> Registry:
        """The registry without queries that failed."""
        return replace(self, queries={n: q for n, q in self.queries.items() if n not in names})

    def _since(self, streams: Collection[str]) -> int:
        shown = [self.highest[name] for name in streams if name in self.highest]
        return max(shown) + 1 if shown else int(BEFORE_TIME)

    def shown(self, arrivals: Sequence[Arrival]) -> Registry:
        """The registry after a step's rows."""
        highest = dict(self.highest)
        for a in arrivals:
            if a.max_ts is not None:
                highest[a.input] = max(highest.get(a.input, a.max_ts), a.max_ts)
        return self if highest == self.highest else replace(self, highest=highest)

    def state(self) -> dict[str, Any]:
        """The form stored in headers: without the plans, which are large and stored beside them."""
        return {"since": {n: q.since for n, q in self.queries.items()}, "highest": dict(self.highest)}

    @staticmethod
    def of(state: Mapping[str, Any], plans: Mapping[str, str]) -> Registry:
        """The inverse of ``state``."""
        since = state["since"]
        return Registry({n: Registered(plans[n], s) for n, s in since.items()}, dict(state["highest"]))

    def plans(self) -> dict[str, str]:
        """The plans by name."""
        return {n: q.plan for n, q in self.queries.items()}


def since(root: Node, instant: int) -> Node:
    """The plan over the rows from an instant on; streams and their windows are left as others have them."""
    if instant == BEFORE_TIME:
        return root
    done: dict[int, Node] = {}

    def change(node: Node) -> Node:
        if id(node) not in done:
            bounded = _is_stream(node) or (isinstance(node, SeqWindow) and _stores_a_stream(node))
            done[id(node)] = Since(node, instant) if bounded else with_inputs(node, change)
        return done[id(node)]

    return change(root)


def _is_stream(node: Node) -> bool:
    return isinstance(node, Source) and not node.table


def _stores_a_stream(window: SeqWindow) -> bool:
    """Whether its store has rows of a stream as they came, and not of what earlier rows may have led to."""
    below = window.input
    while isinstance(below, Select | Project):
        below = below.input
    return window.stored is not None and _is_stream(below)
