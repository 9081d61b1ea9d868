"""One read-only view of everything that pages and the API show.

It looks at the backend's measurements about once per second, keeps their history and the time line of
decisions, and makes views of them on request. Nothing in it depends on how many clients look.

>>> model = Model(backend)                                                         # doctest: +SKIP
>>> [q.state for q in model.queries()], model.plan("traffic").nodes                # doctest: +SKIP
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from penstock.errors import CatalogError
from penstock.measurement import Kind, Measurement, Measurements, Property
from penstock.server.backend import Backend, Batch, Run
from penstock.server.decisions import Decisions
from penstock.server.findings import WAITING, Silence, findings, memory
from penstock.server.history import History
from penstock.server.plans import plan_view, planned_measurements
from penstock.server.settings import STALE_S
from penstock.server.views import (
    DecisionView,
    Finding,
    InputView,
    Kept,
    PlanView,
    QueryView,
    SeriesView,
    SettingView,
)
from penstock.server.watching import Watching
from penstock.streamon.advice import late_rows


class Model(Watching):
    """What is shown; ``watch`` samples in a thread until ``close``."""

    watched = "model"

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.history, self.log = History(), Decisions()
        self._runs: dict[str, Run] = {}
        self._measured: dict[str, Measurements] = {}
        self._times: dict[str, int] = {}
        self._plans: dict[tuple[str, int | None], tuple[int, PlanView]] = {}
        self._silence = Silence()
        self._lock = threading.Lock()
        self.version = 0
        """Grows whenever something may have changed: pages need not look again while it stays."""

    # sampling

    def sample(self) -> None:
        """Look at the backend once."""
        runs = {r.key: r for r in self.backend.runs()}
        found: dict[str, list[Measurement]] = {}
        for m in self.backend.measurements():
            found.setdefault(m.query, []).append(m)
        measured = {run: Measurements(own) for run, own in found.items()}
        with self._lock:
            changed = runs != self._runs
            self._runs = runs
            names = {r.run: r.name for r in runs.values() if r.run and r.kind != "member"}
            for run, own in measured.items():
                latest = max(m.time for m in own)
                if run in names and self._times.get(run) != latest:
                    changed = True
                    self._times[run] = latest
                    self.history.observe(run, own)
                    self.log.observe(run, names[run], own)
            self._silence.observe(Measurements(m for own in measured.values() for m in own))
            for r in runs.values():
                if r.batch is not None and r.run and r.kind != "member":
                    self.history.note(r.run, "query", "batch_seconds", r.batch.ended, r.batch.seconds)
            self._measured = {**{k: v for k, v in self._measured.items() if k in names}, **measured}
            self._times = {k: v for k, v in self._times.items() if k in names}
            self.history.forget(set(names))
            self.log.forget(set(names))
            self.version += changed
            if changed:
                self._plans.clear()

    # views

    def queries(self) -> list[QueryView]:
        """All queries, pipelines before their members."""
        with self._lock:
            return [self._query(r) for r in self._runs.values()]

    def query(self, key: str) -> QueryView:
        """One query by its key."""
        return self._query(self._run(key))

    def _run(self, key: str) -> Run:
        found = self._runs.get(key) or next(
            (r for r in self._runs.values() if r.key.casefold() == key.casefold()), None
        )
        if found is None:
            raise CatalogError(f"there is no query {key!r}; there are: {', '.join(self._runs) or 'none'}")
        return found

    def _query(self, r: Run) -> QueryView:
        found = self._measured.get(r.run, Measurements())
        shown = QueryView(
            r.key, r.name, r.kind, r.state, r.text, r.pipeline, r.run, r.started, error=r.error,
            settings=dict(r.settings), can=r.can,
        )  # fmt: skip
        if r.batch is not None:
            shown = replace(
                shown, batch=r.batch.number, batch_seconds=r.batch.seconds, last_batch=r.batch.ended
            )
        shown = replace(shown, advice=_advice(r))
        if not found:
            return shown
        silent = self._silence.of(r.run, found, r.batch)
        measured = _measured(shown, r, found)
        if r.root:
            return self._of_member(measured, r, found, silent)
        return replace(measured, held_back=next(iter(silent.values()), ""))

    def _of_member(
        self, shown: QueryView, r: Run, found: Measurements, silent: Mapping[str, str]
    ) -> QueryView:
        """A query of a pipeline: the rows of the streams that it reads, and all state that it uses."""
        whole = self.plan(r.pipeline)
        own = replace(whole, nodes=tuple(n for n in whole.nodes if r.root in n.queries))
        read = {n.name: n.rate for n in own.nodes if n.kind == "source"}
        kept = [k for k in memory(found, own) if k.node != WAITING]
        return replace(
            shown,
            rows_in=sum(read.values()) if shown.rows_in else 0.0,
            state_rows=int(sum(k.rows for k in kept)),
            state_bytes=int(sum(k.bytes for k in kept)),
            late_rows=sum(late for (_, name), late in late_rows(found).items() if name in read),
            held_back=next((sentence for name, sentence in silent.items() if name in read), ""),
        )

    def plan(self, key: str, partition: int | None = None) -> PlanView:
        """The plan of a query, with numbers of all partitions or of one."""
        known = self._plans.get((key, partition))
        if known is None or known[0] != self.version:
            known = self._plans[key, partition] = self.version, self._plan(key, partition)
        return known[1]

    def _plan(self, key: str, partition: int | None) -> PlanView:
        r = self._run(key)
        found = self._measured.get(r.run, Measurements())
        if not found:
            stages = r.stages
            if not stages and r.text:
                stages = self.backend.plan(r.text).stages
            return plan_view(key, planned_measurements(stages), stages, running=False, notes=r.notes)
        busy = self.history.busy(r.run)
        return plan_view(key, found, r.stages, partition, r.root, busy, r.state == "running", r.notes)

    def planned(self, text: str) -> PlanView:
        """The plan of a text that does not run."""
        planned = self.backend.plan(text)
        found = planned_measurements(planned.stages)
        return plan_view("", found, planned.stages, running=False, notes=planned.notes)

    def measurements(self, key: str) -> Measurements:
        """The latest measurements of a query's engines."""
        return self._measured.get(self._run(key).run, Measurements())

    def series(self, key: str, since: float = 0.0, node: str = "", name: str = "") -> list[SeriesView]:
        """The history of a query: of one node and property, or of all."""
        return self.history.series(self._run(key).run, since, node, name)

    def decisions(self, key: str = "", since: float = 0.0) -> list[DecisionView]:
        """The time line of decisions, oldest first."""
        name = ""
        if key:
            r = self._run(key)
            name = r.pipeline or r.name
        return self.log.of(name, since)

    def findings(self, key: str) -> list[Finding]:
        """What holds a query back, the most important first."""
        r = self._run(key)
        found = self._measured.get(r.run, Measurements())
        if not found:
            return []
        plan, silent = self.plan(key), self._silence.of(r.run, found, r.batch)
        if r.root:
            read = {n.name for n in plan.nodes if n.kind == "source"}
            silent = {name: sentence for name, sentence in silent.items() if name in read}
        busy, length = self.history.busy(r.run), self.backend.length
        return findings(found, plan, busy, r.batch, silent, length)

    def memory(self, key: str) -> list[Kept]:
        """Where the memory of a query is, the largest first."""
        found = self._measured.get(self._run(key).run, Measurements())
        return memory(found, self.plan(key)) if found else []

    def inputs(self) -> list[InputView]:
        """What is registered."""
        return list(self.backend.inputs())

    # changes, which go to the backend; what they did is in the next sample

    def set(self, key: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running query; the time line has them once its engines use them."""
        self.backend.set(self._run(key).key, settings)
        self.sample()

    def settings(self, key: str, operator: str = "") -> list[SettingView]:
        """The settings that a query can change while it runs, and their values.

        With an ``operator``, those that it can have for itself are named ``filters@mjoin.7``.
        """
        return list(self.backend.settings(self._run(key).key, operator))


def _advice(r: Run) -> str:
    """What to do about a query that failed."""
    if not r.error:
        return ""
    if r.kind == "member":
        return "Correct the text or the data, then register it again; the other queries go on."
    if "start the query again" in r.error:  # it says itself what to do
        return "It resumes where its checkpoint is."
    return "Correct the cause, then start it again: it resumes where its checkpoint is."


def _outside(found: Measurements, batch: Batch | None) -> float:
    """Seconds of a batch outside its slowest engines: results are seen when it has ended."""
    steps: dict[int, float] = {}
    for m in found.of(Property.STEP_SECONDS):
        steps[m.stage] = max(m.value, steps.get(m.stage, 0.0))
    return 0.0 if batch is None else max(0.0, batch.seconds - sum(steps.values()))


def _measured(shown: QueryView, r: Run, found: Measurements) -> QueryView:
    last = max(m.time for m in found) / 1e6
    alive = r.state == "running" and time.time() - last < STALE_S
    engines = found.of_kind(Kind.ENGINE)
    results = Measurements(m for m in found.of_kind(Kind.ROOT) if not r.root or m.entity == f"root/{r.root}")
    last_stage = max((m.stage for m in results), default=1)
    outs = [m.value for m in results.of(Property.THROUGHPUT) if m.stage == last_stage]
    ins = [m.value for m in found.of_kind(Kind.INPUT).of(Property.THROUGHPUT) if m.stage == 1]
    waits = [m.value for m in (results if r.root else engines).of(Property.LATENCY) if m.text == "p99"]
    return replace(
        shown,
        rows_in=sum(ins) if alive else 0.0,
        rows_out=sum(outs) if alive else 0.0,
        state_rows=int(engines.total(Property.ROWS)),
        state_bytes=int(engines.total(Property.BYTES)),
        waiting_rows=int(engines.total(Property.WAITING)),
        late_rows=sum(late_rows(found).values()),
        lateness=max(waits) + _outside(found, r.batch) if waits else None,
    )
