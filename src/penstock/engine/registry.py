"""The queries of an engine: those it starts with, and those that are registered and dropped while it runs.

A stage has inputs and, for a single query, its root. The queries of a pipeline come by commands, each with
its plan. A query that is registered in a running engine sees the rows *since* the instant after the latest
row that its streams had shown: the same in every partition, since all partitions know the timestamps of all
rows. What it shares with others does not change that (``operators/since.py``). With a *history* it sees rows
from before that, too, which windows of other queries have (:mod:`penstock.engine.history`).
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.engine.command import DROP, REGISTER, Command
from penstock.engine.element import BEFORE_TIME
from penstock.engine.operator import Node, nodes, with_inputs
from penstock.engine.operators.history import History, begun
from penstock.engine.operators.i_stream import holds_results
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.since import Since
from penstock.engine.stage import Arrival, StageInput, waits
from penstock.errors import EngineError


@dataclass(frozen=True)
class QueryPlan:
    """A query as an engine runs it: its root, and the static tables that only it reads.

    It runs in the partitions before ``partitions``; None: in all. ``second``: its plan in the second stage,
    whose only input is what the first one returns, sent on by the hash of the columns ``by``. ``apart``: it
    shares nothing with other queries, unless a setting says so later.
    """

    root: Node
    inputs: tuple[StageInput, ...] = ()
    tables: dict[str, pa.Table] = field(default_factory=dict, compare=False)
    partitions: int | None = None
    second: QueryPlan | None = None
    by: tuple[str, ...] = ()
    apart: bool = False

    def at(self, stage: int) -> QueryPlan:
        """Its part in a stage; one without a second part runs in no partition of the second stage."""
        return self if stage == 0 else self.second or replace(self, partitions=0)

    @property
    def streams(self) -> frozenset[str]:
        """The names of the stage's inputs that it reads, tables left out."""
        return self.root.streams

    @property
    def reads_windows(self) -> bool:
        """Whether it has windows that keep rows, which it could share."""
        return any(node.keeps_window for node in nodes(self.root))

    @property
    def waits(self) -> bool:
        """Whether a pipeline shows it at complete instants: those that read windows wait, to share."""
        return waits(self.root) or any(i.waits for i in self.inputs) or self.reads_windows

    @property
    def shows_complete(self) -> bool:
        """Whether its results are of complete instants."""
        second = self.second is not None and self.second.shows_complete
        return self.waits or holds_results(self.root) or second

    @property
    def span(self) -> int:
        """The ticks of its longest time window."""
        return self.root.span

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


def exchange_of(query: str) -> str:
    """The name of the second stage's input that has the first one's elements of a query."""
    return f"stage 1 of {query}"


@dataclass(frozen=True)
class Registered:
    """A query that runs: its plan, as it came, and the first instant that it sees.

    ``history``: by input, an earlier first instant, if the query was registered with history; ``begin`` is
    then the first instant of its result. None until that is found out: see ``Registry.asking``.
    """

    plan: str
    since: int = int(BEFORE_TIME)
    history: Mapping[str, int] = field(default_factory=dict)
    begin: int | None = None

    def first(self, input: str) -> int:
        """The first instant that it sees of an input."""
        return self.history.get(input, self.since)


@dataclass(frozen=True)
class Registry:
    """The registered queries by name, in their order, and the latest timestamp of each input so far.

    ``failed``: queries that have failed in this partition, until the others have dropped them, too.
    ``asking``: those that were registered with history in this step, with the queries from before it that
    stood then; one that is dropped later in the step serves them still.
    """

    queries: Mapping[str, Registered] = field(default_factory=dict)
    highest: Mapping[str, int] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    asking: Mapping[str, Mapping[str, Registered]] = field(default_factory=dict, compare=False)

    def after(self, commands: Sequence[Command], clock: Collection[str] | None = None) -> Registry:
        """The registry after commands. A name that is taken keeps its query: the host has refused it.

        ``clock``: the inputs that all queries go by, if they have one clock.
        """
        queries, failed, asking = dict(self.queries), set(self.failed), dict[str, dict[str, Registered]]()
        for command in commands:
            name = command.payload.get("query", "")
            if command.kind == REGISTER and name not in queries:
                plan = command.payload["plan"]
                if command.payload.get("history"):
                    asking[name] = {n: q for n, q in queries.items() if q is self.queries.get(n)}
                queries[name] = Registered(plan, self._since(clock or QueryPlan.decoded(plan).streams))
            elif command.kind == DROP:
                queries.pop(name, None)
                asking.pop(name, None)
                failed.discard(name)
        if queries == self.queries and failed == self.failed:
            return self
        return replace(self, queries=queries, failed=frozenset(failed), asking=asking)

    def without(self, names: Collection[str]) -> Registry:
        """The registry without queries that failed."""
        queries = {n: q for n, q in self.queries.items() if n not in names}
        return replace(self, queries=queries, failed=self.failed.union(names))

    def with_history(self, name: str, history: Mapping[str, int], begin: int) -> Registry:
        """The registry in which a query has a history."""
        found = replace(self.queries[name], history=dict(history), begin=begin)
        return replace(self, queries={**self.queries, name: found})

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
        return {
            "since": {n: q.since for n, q in self.queries.items()},
            "history": {n: [dict(q.history), q.begin] for n, q in self.queries.items() if q.history},
            "highest": dict(self.highest),
            "failed": sorted(self.failed),
        }

    @staticmethod
    def of(state: Mapping[str, Any], plans: Mapping[str, str]) -> Registry:
        """The inverse of ``state``."""
        since, history = state["since"], state["history"]
        queries = {n: Registered(plans[n], s, *history.get(n, ({}, None))) for n, s in since.items()}
        return Registry(queries, dict(state["highest"]), frozenset(state["failed"]))

    def plans(self) -> dict[str, str]:
        """The plans by name."""
        return {n: q.plan for n, q in self.queries.items()}


def since(root: Node, instants: Mapping[str, int]) -> Node:
    """The plan over the rows from an instant on, by stream; streams and their windows are left as others
    have them.
    """
    done: dict[int, Node] = {}

    def change(node: Node) -> Node:
        if id(node) not in done:
            source = node.all_of
            if source is None:
                done[id(node)] = _with_own_store(with_inputs(node, change), node, instants)
            else:
                first = instants[source.input]
                done[id(node)] = node if first == BEFORE_TIME else Since(node, first)
        return done[id(node)]

    return change(root)


def _with_own_store(new: Node, node: Node, instants: Mapping[str, int]) -> Node:
    """A window over other rows than those of its plan needs a store of its own for them."""
    if new is node or not isinstance(new, SeqWindow) or not new.store:
        return new
    bounds = ", ".join(f"{name} {first}" for name, first in sorted(instants.items()))
    return replace(new, store=f"{new.store} since {bounds}")


def with_history(root: Node, query: str, registered: Registered) -> Node:
    """The plan of a query that has rows from before its registration, which shares nothing."""
    begin = registered.begin
    assert begin is not None

    def read(leaf: Node) -> Node:
        source = leaf.as_came
        if source is None:
            return leaf
        if source.input in registered.history:
            return History(source, registered.history[source.input], begin, query)
        return Since(source, registered.since)

    return begun(_private(root, query, read), begin)


def apart(root: Node, query: str) -> Node:
    """The plan of a query that shares nothing: nothing in it is equal to what another query has."""
    return _private(root, query, lambda leaf: leaf.private(query))


def _private(root: Node, query: str, read: Callable[[Node], Node]) -> Node:
    """The plan with stores that only this query uses; ``read``: what it has in the place of a leaf."""
    done: dict[int, Node] = {}

    def change(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = with_inputs(node, change).private(query) if node.inputs else read(node)
        return done[id(node)]

    return change(root)
