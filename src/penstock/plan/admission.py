"""The admission of a query to a pipeline: its plan over the inputs that are there, or why there is none.

What queries have in common (inputs, filters, windows, whole subplans) becomes equal nodes, which an engine
runs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.engine.operator import Node, nodes
from penstock.engine.registry import QueryPlan, apart, exchange_of
from penstock.engine.stage import StageInput, waits
from penstock.errors import PipelineError
from penstock.expression import Column
from penstock.plan import canonical, logical
from penstock.plan.budgeted import budgets
from penstock.plan.compile import built, optimized
from penstock.plan.explain import routed, tree
from penstock.plan.partition import Way
from penstock.plan.physical import SourceInput, TableInput
from penstock.plan.pipeline import PipelinePlan, allowed, by_stream, check_streams, is_there
from penstock.plan.sampled import is_sampled
from penstock.plan.sharing import shared
from penstock.settings import Settings


@dataclass(frozen=True)
class Admitted:
    """A query of a pipeline: its plan for the engines, and what its host must know of it.

    The host adds the rows of ``tables`` to the plan. ``spread``: whether all partitions run it.
    """

    plan: QueryPlan
    kind: str
    schema: pa.Schema
    tables: tuple[TableInput, ...]
    reads_relations: bool
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def spread(self) -> bool:
        return self.plan.partitions is None


def admit(
    plan: PipelinePlan,
    name: str,
    query: logical.Query,
    settings: Settings | None = None,
    history: bool = False,
) -> Admitted:
    """A query as a pipeline runs it. Raises PipelineError if the pipeline lacks the splits that it needs.

    ``history``: it is registered with history.
    """
    settings = settings or Settings()
    root = optimized(query, settings.use_of_constraints(by_time=True))
    _check(plan, name, query, root)
    if history:
        _check_history(name, query, root)
    way = _way(plan, name, root, two_stages=plan.second is not None and not history)
    made = built(query, root, way, settings, name)
    names = canonical.aliases(root)
    node = canonical.in_plan(made.root, names)
    builder = made.builder
    own = [
        canonical.renamed_source(i, names) if isinstance(i, SourceInput) else i for i in builder.host_inputs
    ]
    _check_columns(plan, name, [i for i in own if isinstance(i, SourceInput)])
    hosts = [*plan.sources, *own]
    node, taken, _ = shared(node, [*plan.stage.stage.inputs, *builder.stage_inputs], hosts)
    mine = tuple(i for i in taken if i.kind == "table")
    assert len(taken) == len(plan.stage.stage.inputs) + len(mine), "an input of its own"
    second = _second(plan, name, canonical.in_plan(made.second, names), way)
    if waits(node) or (second is not None and waits(second.root)):
        mine = tuple(replace(i, waits=True) for i in mine)
    spread = way.is_spread or plan.partitions == 1
    by = tuple(canonical.in_plan(way.stages[1].by, names)) if second else ()
    own_tables = dict(builder.constants)
    registered = QueryPlan(
        node, mine, own_tables, None if spread else 1, second, by, settings.sharing == "off"
    )
    tables = tuple(i for i in builder.host_inputs if isinstance(i, TableInput))
    relations = any(s.definition.is_relation for s in logical.sources(root))
    kind = "stream" if root.is_stream else "relation"
    return Admitted(registered, kind, root.schema, tables, relations, query.notes, query.warnings)


def _check(plan: PipelinePlan, name: str, query: logical.Query, root: logical.Logical) -> None:
    """Reject a query that no pipeline, or none with this unit of time, can take."""
    if query.time != plan.time:
        raise PipelineError(f"{name} counts time in {query.time}, the pipeline in {plan.time}")
    if not logical.sources(root):
        raise PipelineError(f"{name} reads no stream; a query of a pipeline must read one")
    if any(b.within.shared for b in budgets(root)):
        raise PipelineError(
            f"{name} has a part of SET penstock.memory, which the queries of a pipeline cannot have yet; "
            "write WITHIN MEMORY with a size"
        )


def _check_columns(plan: PipelinePlan, name: str, read: Sequence[SourceInput]) -> None:
    """Reject a query that reads columns which the pipeline does not send."""
    sent = {i.stream.name: [n.removeprefix(f"{i.alias}.") for n, _ in i.columns] for i in plan.sources}
    for source in read:
        stream = source.stream.name
        wanted = [n.removeprefix(f"{source.alias}.") for n, _ in source.columns]
        missing = [n for n in wanted if n not in sent[stream]]
        if missing:
            every = [*sent[stream], *missing]
            raise PipelineError(
                f"{name} reads {stream}.{missing[0]}, which the pipeline does not send; it sends "
                f"{', '.join(sent[stream])}. Start a pipeline with columns={{{stream!r}: {every!r}}}"
            )


def _second(plan: PipelinePlan, name: str, root: Node | None, way: Way) -> QueryPlan | None:
    """The part of a query in the second stage, if it has one."""
    if root is None:
        return None
    source = _leaf(root)
    read = StageInput(exchange_of(name), source.schema, "exchange", upstream=plan.partitions)
    return QueryPlan(root, (read,), partitions=None if way.stages[1].by else 1)


def _leaf(node: Node) -> Node:
    return _leaf(node.inputs[0]) if node.inputs else node


def _check_history(name: str, query: logical.Query, root: logical.Logical) -> None:
    """Reject what depends on when its rows came, or on more than the rows of its windows."""
    refused = f"{name} cannot be registered WITH HISTORY:"
    if any(budgets(root)) or is_sampled(query.root):
        raise PipelineError(f"{refused} WITHIN and SAMPLE depend on the rows before; register it without")
    for node in logical.walk(root):
        if isinstance(node, logical.ToStream) and node.kind == "rstream" and node is not root:
            raise PipelineError(
                f"{refused} it reads an RSTREAM, whose instants before its registration are not known; "
                "register it without"
            )


def _way(plan: PipelinePlan, name: str, root: logical.Logical, two_stages: bool) -> Way:
    """The first way to spread a query for which the pipeline has the splits."""
    there = plan.routes
    check_streams(root, there)
    for way in allowed(root, plan.time, plan.partitions, there, two_stages):
        if is_there(root, way, there):
            return way
    possible = list(allowed(root, plan.time, plan.partitions, {}, two_stages=False))
    wanted = "; ".join(f"{stream} {routed(r, plan.time)}" for stream, r in by_stream(root, possible[0]))
    has = ", ".join(i.name for i in plan.sources)
    by_two = allowed(root, plan.time, plan.partitions, there, two_stages=True)
    more = any(is_there(root, w, there) for w in by_two) and plan.second is None
    raise PipelineError(
        f"{name} needs rows where the pipeline does not send them: {wanted}. The pipeline has {has}. Rows "
        "that join, that are of a group or that give equal results must be in one partition: select the "
        "columns of a split too, register it before the first start, or start a pipeline with also "
        f"split={_advice(root, possible)} ([] is one partition){' or with stages=2' if more else ''}"
    )


def _advice(root: logical.Logical, possible: Sequence[Way]) -> str:
    """A value of ``split`` with which the query would be admitted."""
    for way in possible:
        found = by_stream(root, way)
        keys = {name: [k for a in r.axes for k in a.keys] for name, r in found}
        plain = all(isinstance(k, Column) for several in keys.values() for k in several)
        if plain and all(a.keys for _, r in found for a in r.axes):
            return repr({name: [[str(k) for k in several]] for name, several in keys.items()})
    raise AssertionError("one partition is always possible")


def explain_pipeline(plan: PipelinePlan, queries: Mapping[str, Admitted]) -> str:
    """The inputs of a pipeline and the plan of each query, with what it shares with whom."""
    return "\n".join(_lines(plan, queries))


def _lines(plan: PipelinePlan, queries: Mapping[str, Admitted]) -> Iterator[str]:
    many = "1 partition" if plan.partitions == 1 else f"{plan.partitions} partitions"
    stages = "" if plan.second is None else " in two stages"
    yield f"pipeline on {many}{stages}, {len(queries)} queries"
    for source in plan.sources:
        readers = [name for name, q in queries.items() if source.name in q.plan.streams]
        read = f"read by {_some(readers)}" if readers else "read by no query"
        yield f"spark    {source.name}: {routed(source.route, plan.time)}; {read}"
    users: dict[Any, dict[str, None]] = {}
    for name, query in queries.items():
        clock = clock_of(plan, query)
        for node in nodes(shown_plan(name, query)):
            users.setdefault((clock, node), {})[name] = None
            if node.fills:
                users.setdefault((clock, node.fills), {})[name] = None
    for name, query in queries.items():
        shown = (
            "when an instant is complete" if query.plan.shows_complete else "at once, as results are found"
        )
        place = "" if query.spread else ", in one partition"
        yield f"query    {name}: {query.kind}{place}; shown {shown}"

        clock = clock_of(plan, query)

        def also(node: Node, own: str = name, clock: Any = clock) -> str:
            others = [n for n in users.get((clock, node), ()) if n != own]
            note = f"  = shared with {_some(others)}" if others else ""
            more = [n for n in users.get((clock, node.fills), ()) if n not in (own, *others)]
            return f"{note}  = store shared with {_some(more)}" if more else note

        if query.plan.second is not None:
            by = f"by hash of {', '.join(query.plan.by)}" if query.plan.by else "to one partition"
            yield f"  stage 2, elements of stage 1 {by}"
            yield from tree(query.plan.second.root, "    ", set(), also)
            yield "  stage 1"
        yield from tree(shown_plan(name, query), "  " if query.plan.second is None else "    ", set(), also)


def clock_of(plan: PipelinePlan, query: Admitted) -> Any:
    """What queries have in common that run by the same clock: only those share."""
    return None if plan.stage.stage.one_clock else (query.plan.streams, query.plan.waits)


def shown_plan(name: str, query: Admitted) -> Node:
    """The operators of a query as engines have them."""
    return apart(query.plan.root, name) if query.plan.apart else query.plan.root


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
