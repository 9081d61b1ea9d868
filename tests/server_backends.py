"""Backends of a server for tests: engines in this process, fed by hand."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.command import Command
from penstock.engine.knobs import OF_OPERATORS
from penstock.engine.stage import SIGN, TS
from penstock.errors import CatalogError
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Measurement, Measurements, measured
from penstock.plan.explain import explain
from penstock.schema import TimeDomain
from penstock.server.backend import Batch, Planned, Run
from penstock.server.results import Feed
from penstock.server.session_backend import only_query
from penstock.server.views import ColumnView, InputView, SettingView
from penstock.spark.driver.knobs import KNOBS, value_of

ROWS = {name: [(t, {"pid": t % 5, "size": t}) for t in range(1, 61)] for name in "CBO"}
JOIN = (
    "SELECT C.pid, SUM(C.size) AS s FROM C [RANGE 10], B [RANGE 10], O [RANGE 10] "
    "WHERE C.pid = B.pid AND B.pid = O.pid GROUP BY C.pid"
)


class InProcess:
    """Queries over finite inputs, run by engines in this process; ``step`` feeds the next part."""

    def __init__(
        self, inputs: Mapping[str, Sequence[Any]] = ROWS, partitions: int = 2, steps: int = 6
    ) -> None:
        self.finite = read_inputs(inputs, {}, TimeDomain("integer", "seconds"))
        self.partitions = partitions
        self.parts = list(self.finite.slices(steps))
        self.queries: dict[str, tuple[str, Any, InProcessRun]] = {}
        self.states: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.feeds: dict[str, Feed] = {}
        self.changed: dict[str, dict[str, str]] = {}
        self.commands: list[tuple[str, Any]] = []
        self.sent = 0
        self.at = 0
        self.time = time.time()

    def step(self) -> None:
        part = self.parts[self.at % len(self.parts)]
        self.at += 1
        self.time += 1.0
        batches = {n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows}
        new = [
            Command(n, "setting", {"name": k, "value": v}) for n, (k, v) in enumerate(self.commands, start=1)
        ][self.sent :]
        self.sent = len(self.commands)
        for name, (_, plan, run) in self.queries.items():
            if self.states[name] == "running":
                for batch in run.step(batches, new):
                    columns = [batch.column(n) for n in plan.schema.names]
                    shown = pa.RecordBatch.from_arrays(
                        [batch.column(TS), batch.column(SIGN), *columns],
                        names=["ts", "op", *plan.schema.names],
                    )
                    self.feeds[name].put(shown)

    def runs(self) -> list[Run]:
        return [
            Run(
                name, name, "query", self.states[name], text, run=f"run-{name}",
                error=self.errors.get(name, ""),
                started=self.time, batch=Batch(self.at, self.time, 0.5), stages=plan.stages, notes=plan.notes,
                settings=self.changed.get(name, {}),
                can=("stop", "set", "drop") if self.states[name] == "running" else ("start", "drop"),
            )
            for name, (text, plan, _) in self.queries.items()
        ]  # fmt: skip

    def measurements(self) -> Measurements:
        found: list[Measurement] = []
        for name, (_, _, run) in self.queries.items():
            for stage, engines in enumerate(run.engines, start=1):
                for partition, engine in enumerate(engines):
                    found += measured(engine.measure(), f"run-{name}", stage, partition, int(self.time * 1e6))
        return Measurements(found)

    def length(self, run: str, ticks: int) -> str:
        return TimeDomain().length(ticks)

    def inputs(self) -> list[InputView]:
        return [
            InputView(n, "stream", tuple(ColumnView(f.name, str(f.type)) for f in t.schema if f.name != TS))
            for n, t in self.finite.streams.items()
        ]

    def plan(self, text: str) -> Planned:
        only_query(text)
        plan = plan_of(text, self.finite.catalog(), [], self.partitions)
        return Planned(plan.stages, plan.notes, explain(plan))

    def register(self, name: str, text: str, pipeline: str | None = None, once: bool = False) -> str:
        only_query(text)
        if name in self.queries:
            raise CatalogError(f"a query {name!r} is already running; stop it, or choose another name")
        plan = plan_of(text, self.finite.catalog(), [], self.partitions)
        self.queries[name] = text, plan, InProcessRun(plan, self.finite.tables)
        self.states[name] = "running"
        fields = [pa.field("ts", pa.int64()), pa.field("op", pa.int8()), *plan.schema]
        self.feeds[name] = Feed(pa.schema(fields))
        return name

    def _known(self, key: str) -> str:
        if key not in self.queries:
            raise CatalogError(f"there is no query {key!r}; there are: {', '.join(self.queries) or 'none'}")
        return key

    def start(self, key: str) -> None:
        self.states[self._known(key)] = "running"

    def stop(self, key: str) -> None:
        self.states[self._known(key)] = "stopped"

    def drop(self, key: str) -> None:
        del self.queries[self._known(key)]
        self.feeds.pop(key).end()

    def fail(self, key: str, why: str) -> None:
        self.states[key], self.errors[key] = "failed", why

    def set(self, key: str, settings: Mapping[str, str]) -> None:
        self._known(key)
        for name, value in settings.items():
            value_of(name, value)
        for name, value in settings.items():
            self.changed.setdefault(key, {})[name] = str(value)
            self.commands.append((name, value_of(name, value)[1]))

    def settings(self, key: str, operator: str = "") -> list[SettingView]:
        now = self.changed.get(self._known(key), {})
        names = {n: f"{n}@{operator}" if operator and n in OF_OPERATORS else n for n in KNOBS}
        return [
            SettingView(names[n], now.get(names[n], now.get(n, "none")), k.choices, k.doc)
            for n, k in KNOBS.items()
        ]

    def execute(self, text: str) -> str:
        return text

    def feed(self, key: str) -> Feed:
        return self.feeds[self._known(key)]
