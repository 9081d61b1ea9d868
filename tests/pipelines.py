"""A random pipeline: queries over the same streams that are registered and dropped between steps.

Each must have the output that it would have alone, over the rows from its registration on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import oracle
from checking import Skip, cancelling, within, without_bounds
from local_host import (
    Change,
    Manner,
    Partition,
    changes_of_batch,
    definition,
    settings_of,
    steps_of,
    table_rows,
)
from own_aggregates import own_definitions
from restless import PLANNERS, planned_by
from strategies import Case, Choices, draw_queries
from strategies.constraints import obeying
from trials import manner_of

from penstock.catalog import Input
from penstock.cql.query import bind, define_view
from penstock.cql.statements import CreateView, parse
from penstock.engine.command import Command
from penstock.engine.element import BEFORE_TIME
from penstock.errors import PenstockError, PipelineError
from penstock.in_process import onward
from penstock.plan.admission import Admitted, admit
from penstock.plan.logical import Query
from penstock.plan.pipeline import PipelinePlan, plan_pipeline


@dataclass(frozen=True)
class PipelineTrial:
    """Queries with the steps at which they are registered and dropped (None: never)."""

    queries: tuple[tuple[str, int, int | None], ...]
    case: Case
    manner: Manner
    planner: str = "as set"
    one_clock: bool = False
    private: tuple[str, ...] = ()
    """The queries that share nothing."""
    history: tuple[str, ...] = ()
    """The queries that are registered with history."""
    stages: int | None = None
    """How many the pipeline has; None: as its first queries need."""

    def run(self) -> None:
        """Raises if a query has not the output that it would have alone."""
        with planned_by(self.planner):
            found = PipelineRun(self).all_steps()
        if not found:
            raise Skip("no query was admitted")
        for ran in found:
            _check(self, ran)

    def snippet(self) -> str:
        """A program that runs this trial."""
        return (
            'import sys; sys.path.insert(0, "tests")\nfrom math import inf, nan\n'
            "from pipelines import PipelineTrial\nfrom local_host import Manner\n"
            "from strategies import Case\n\n"
            f"PipelineTrial(\n    {self.queries!r},\n    Case(\n        {self.case.cql!r},\n"
            f"        {self.case.inputs!r},\n        {self.case.schemas!r},\n        None,\n"
            f"        {self.case.unit!r},\n        constraints={self.case.constraints!r},\n    ),\n"
            f"    {self.manner!r},\n    {self.planner!r},\n"
            f"    {self.one_clock!r},\n    {self.private!r},\n    {self.history!r},\n    {self.stages!r},\n"
            ").run()\n"
        )


def pipeline(choices: Choices, depth: int | None = None) -> PipelineTrial:
    """Two to five queries, most of them there from the start."""
    texts, case = draw_queries(choices, choices.pick(2, 3, 4, 5))
    manner = manner_of(choices)
    if choices.chance(3):
        case = obeying(choices, case)
    texts += _of_all_sizes(choices, case) if choices.chance(3) else []
    if choices.chance(4) and len(texts) > 1:
        texts[-1] = texts[0]
    steps = len(manner.cuts) + 1
    queries = []
    for n, text in enumerate(texts):
        # What an earlier query reads is what a later one may have a history of.
        text = _resized(choices, choices.pick(*texts[:n])) if n and choices.chance(3) else text
        at = choices.pick(0, 0, *range(steps))
        gone = choices.pick(None, None, None, *range(at + 1, steps + 1))
        queries.append((text, at, gone))
    limit = choices.pick(None, None, None, 1, 50_000)
    planner, one_clock = choices.pick(*PLANNERS), choices.chance(2)
    turned = [
        (choices.index(steps + 1), "sharing", choices.pick("off", "on")) for _ in range(choices.index(4))
    ]
    manner = replace(manner, heavy=(), memory_limit=limit, settings=(*manner.settings, *turned))
    private = tuple(f"q{n}" for n in range(len(queries)) if choices.chance(5))
    history = tuple(f"q{n}" for n in range(len(queries)) if choices.chance(2))
    stages = choices.pick(None, None, 1, 2)
    if choices.chance(6):
        manner = replace(manner, constraints="monitored")
    return PipelineTrial(tuple(queries), case, manner, planner, one_clock, private, history, stages)


def _resized(choices: Choices, text: str) -> str:
    """The query, with windows of other sizes now and then: they are what shares a store.

    The last row alone stays the last one: a scalar subquery may have it.
    """
    if choices.chance(2):
        return text
    size = r"\[(PARTITION BY \w+ ROWS|ROWS|RANGE) (?!1\])\d\]"
    return re.sub(size, lambda m: f"[{m[1]} {choices.pick(1, 2, 5)}]", text)


def _of_all_sizes(choices: Choices, case: Case) -> list[str]:
    """Queries over row windows of one stream: with several sizes, filters and columns."""
    streams = [
        n for n, rows in case.inputs.items() if rows and isinstance(rows[0], tuple) and len(rows[0]) == 2
    ]
    named = [n for n in streams if "a INT" in case.schemas[n] or "a BIGINT" in case.schemas[n]]
    if not named:
        return []
    stream, found = choices.pick(*named), []
    for _ in range(choices.pick(2, 3)):
        size, other, least = choices.pick(1, 2, 3, 5), choices.pick(1, 2, 4), choices.pick(-1, 0, 1)
        window = choices.pick(f"[ROWS {size}]", f"[ROWS {size}]", f"[PARTITION BY a ROWS {size}]")
        where = choices.pick("", f"WHERE r0.a > {least}", f"WHERE r0.a <> {least}")
        found.append(
            choices.pick(
                f"SELECT r0.a AS c0, COUNT(*) AS c1 FROM {stream} {window} AS r0 {where} GROUP BY r0.a",
                f"SELECT COUNT(*) AS c0, MAX(r0.a) AS c1 FROM {stream} {window} AS r0 {where}",
                f"SELECT r0.a AS c0, r1.a AS c1 FROM {stream} {window} AS r0, {stream} [ROWS {other}] AS r1 "
                f"{where or 'WHERE TRUE'} AND r0.a = r1.a",
                f"SELECT DISTINCT r0.a AS c0 FROM {stream} {window} AS r0 {where}",
            )
        )
    return found


@dataclass
class Ran:
    """A query that ran: since when, what came of it, and up to which instant that is all there is.

    ``history``: by stream an earlier first instant; ``begin`` is then the first instant of the result.
    """

    text: str
    admitted: Admitted
    since: int
    changes: list[Change]
    complete: int
    history: dict[str, int] = field(default_factory=dict)
    begin: int | None = None


class PipelineRun:
    """A pipeline's engines, one for each partition."""

    def __init__(self, trial: PipelineTrial) -> None:
        self.trial = trial
        self.catalog: dict[str, Any] = {
            n: definition(n, s, trial.case, trial.manner) for n, s in trial.case.schemas.items()
        }
        self.bound = {f"q{n}": _bound(text, self.catalog) for n, (text, _, _) in enumerate(trial.queries)}
        manner = trial.manner
        self.settings = settings_of(manner)
        self.plan = self._planned()
        self.partitions, self.second = (
            [Partition(s.stage, n) for n in range(manner.partitions)] if s else []
            for s in (self.plan.stage, self.plan.second)
        )
        self.streams = {i.name: i.stream.name for i in self.plan.sources}
        self.ran: dict[str, Ran] = {}
        self._sequence = 0

    def _planned(self) -> PipelinePlan:
        streams = [d for d in self.catalog.values() if isinstance(d, Input)]
        names = [f"q{n}" for n, (_, at, _) in enumerate(self.trial.queries) if at == 0]
        first = {name: q for name in names if (q := self.bound[name]) is not None}
        try:
            return plan_pipeline(
                streams,
                first,
                self.trial.manner.partitions,
                None,
                self.settings,
                self.trial.one_clock,
                self.trial.stages,
            )
        except PenstockError as error:
            raise Skip(str(error)) from None

    def all_steps(self) -> list[Ran]:
        """Run the trial."""
        steps = steps_of(self.plan.stage, self.trial.case, self.trial.manner)
        for number, step in enumerate(steps):
            how = self.trial.manner.before[number] if number < len(self.trial.manner.before) else ""
            for partition in (*self.partitions, *self.second):
                if "snapshot" in how:
                    partition.snapshot("whole" in how)
                if "rebuild" in how:
                    partition.rebuild()
            commands = self._commands(number, last=number + 1 == len(steps))
            outputs = [p.step(arrivals, commands) for p, arrivals in zip(self.partitions, step, strict=True)]
            self._since()
            following = [p.step(onward(outputs, n), commands) for n, p in enumerate(self.second)]
            for out in (*outputs, *following):
                assert not out.failed, out.failed
                for name, root in out.roots.items():
                    ran = self.ran[name]
                    if root.by is not None:
                        continue
                    ran.changes += changes_of_batch(root.batch, ran.admitted.schema.names)
                    ran.complete = root.progress
        return list(self.ran.values())

    def _commands(self, number: int, last: bool) -> list[Command]:
        found = []
        for n, (text, at, gone) in enumerate(self.trial.queries):
            name = f"q{n}"
            if gone == number and name in self.ran:
                found.append(self._command("drop", {"query": name}))
            if at == number and (plan := self._admitted(name, late=number > 0)) is not None:
                self.ran[name] = Ran(text, plan, int(BEFORE_TIME), [], int(BEFORE_TIME))
                tables = {t.name: table_rows(t, self.trial.case.inputs[t.table.name]) for t in plan.tables}
                ready = replace(plan.plan, tables={**plan.plan.tables, **tables})
                payload = {"query": name, "plan": ready.encoded(), "history": name in self.trial.history}
                found.append(self._command("register", payload))
        for name, value in ((n, v) for step, n, v in self.trial.manner.settings if step == number):
            found.append(self._command("setting", {"name": name, "value": value}))
        if last:
            found.append(self._command("end", {"ticks": 0}))
        return found

    def _command(self, kind: str, payload: dict[str, Any]) -> Command:
        self._sequence += 1
        return Command(self._sequence, kind, payload)

    def _admitted(self, name: str, late: bool) -> Admitted | None:
        query = self.bound[name]
        if query is None:
            return None
        try:
            sharing = "off" if name in self.trial.private else "on"
            how = replace(self.settings, sharing=sharing), name in self.trial.history
            found = admit(self.plan, name, query, *how)
        except PipelineError:
            return None
        return None if late and found.reads_relations else found

    def _since(self) -> None:
        """The first instants that queries see: all partitions agree."""
        for partition in self.partitions:
            for name, query in partition.engine.queries.registry.queries.items():
                if self.ran[name].since != BEFORE_TIME:
                    assert query.since == self.ran[name].since
                self.ran[name].since = query.since
        for name, ran in self.ran.items():
            # A query that runs in one partition has its history there.
            here = self.partitions if ran.admitted.spread else self.partitions[:1]
            for partition in here:
                query = partition.engine.queries.registry.queries.get(name)
                if query is not None:
                    history = {self.streams[i]: first for i, first in query.history.items()}
                    assert (history, query.begin) == (ran.history, ran.begin) or not ran.history
                    ran.history, ran.begin = history, query.begin


def _bound(text: str, catalog: dict[str, Any]) -> Query | None:
    known = {**catalog, **own_definitions()}
    *views, query = parse(text)
    try:
        for view in views:
            assert isinstance(view, CreateView)
            known[view.name] = define_view(view, known)
        return bind(query, known)
    except PenstockError:
        return None


def _check(trial: PipelineTrial, ran: Ran) -> None:
    since = ran.since
    case = trial.case
    inputs = {
        name: [e for e in rows if isinstance(e, dict) or e[0] >= ran.history.get(name, since)]
        for name, rows in case.inputs.items()
    }
    alone = replace(case, cql=ran.text, inputs=inputs)
    begins, until = None if since == BEFORE_TIME else since, None
    stamps = [e[0] for rows in case.inputs.values() for e in rows if not isinstance(e, dict)]
    if trial.one_clock and stamps:
        begins, until = max(since, min(stamps)), max(stamps)
    if ran.begin is not None:
        begins = min(ran.begin, *ran.history.values())
    about = f"{alone}\n{trial.manner}\nregistered at {since}, complete before {ran.complete}, "
    about += f"history {ran.history} from {ran.begin} on"
    try:
        expected = oracle.evaluate(
            ran.text, inputs, case.schemas, case.unit, until, begins=begins, opens=ran.begin
        )
    except oracle.Undetermined:
        return
    actual = without_bounds(ran.changes, alone)
    shown = [c for c in expected if c[0] < ran.complete]
    if not ran.admitted.plan.shows_complete:
        # Shown at once: also results of an instant that is not complete.
        shown = [c for c in expected if c[0] < ran.complete or _row(c) in set(map(_row, actual))]
    if trial.manner.constraints == "monitored":
        assert not _only_misses(ran.text) or within(actual, shown), about
        return
    if oracle.differences(actual, shown):
        how = {"at_once": False, "begins": begins, "opens": ran.begin}
        one = oracle.evaluate(ran.text, inputs, case.schemas, case.unit, until, **how)
        oracle.assert_same(actual, [c for c in one if c[0] < ran.complete or c in shown], about)
    assert not cancelling(actual), about


def _only_misses(text: str) -> bool:
    """Whether a query that misses results of a join has no others instead: nothing is computed of several."""
    return bool(re.fullmatch(r"SELECT (?!DISTINCT)[^()]* FROM [^()]*", text)) and not re.search(
        r" (JOIN|GROUP BY|UNION|EXCEPT|INTERSECT|ORDER BY|LIMIT|QUALIFY) ", text
    )


def _row(change: Change) -> tuple[Any, ...]:
    ts, sign, row = change
    return ts, sign, *oracle.normalise(row.values())
