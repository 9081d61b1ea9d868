"""The static tables of a pipeline's queries: read at registration, at every start and at each refresh.

A query holds the rows that its registration has, changed by the ``tables`` commands since. The engines apply
such a command only if they have the query, so one that no batch has taken in yet is refreshed after that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from penstock.engine.registry import QueryPlan
from penstock.engine.tables import after, changes_of
from penstock.errors import PenstockError
from penstock.plan.admission import Admitted
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.commands import CommandStream, stored
from penstock.spark.driver.registrations import Registration
from penstock.spark.driver.tables import QueryTables

_log = logging.getLogger("penstock")


class RegisteredTables(QueryTables):
    """The tables of one query; ``taken``: whether the engines have it."""

    def __init__(self, admitted: Admitted, plan: QueryPlan, taken: Callable[[], bool]) -> None:
        super().__init__(admitted.tables, plan.inputs, plan.tables)
        self._taken = taken
        self._late: set[str] = set()
        self._dropped = False

    def resume(self, commands: CommandStream, directory: Directory, since: int) -> None:
        """After a start: find what the query holds, from the commands after ``since``, and refresh it."""
        changes = changes_of(c for c in stored(directory) if c.sequence > since)
        self._commands, self._held = commands, after(self._first, changes)
        self.started()
        for table in {i.table.name for i in self._inputs.values()}:
            self.refresh(table)

    def begin(self, commands: CommandStream) -> None:
        """Before the engines have the query: what it holds are the rows that its registration has."""
        self._commands = commands
        self.started()

    def catch_up(self) -> None:
        """Refresh what could not be refreshed before the engines had the query."""
        late, self._late = self._late, set()
        for table in late:
            threading.Thread(target=self.refresh, args=(table,), daemon=True).start()

    def end(self) -> None:
        self._dropped = True

    @property
    def runs(self) -> bool:
        return not self._dropped and super().runs

    def refresh(self, table: str) -> bool:
        if self._taken():
            return super().refresh(table)
        self._late |= {table} & {i.table.name for i in self._inputs.values()}
        return False


class PipelineTables:
    """The tables of all queries of a pipeline, by the id of the query.

    ``plan_of`` plans a query again; ``taken`` says whether the engines have it.
    """

    def __init__(
        self,
        directory: Directory,
        plan_of: Callable[[Registration], Admitted],
        taken: Callable[[Registration], bool],
    ) -> None:
        self._directory, self._plan_of, self._taken = directory, plan_of, taken
        self._tables: dict[str, RegisteredTables] = {}

    def add(
        self, r: Registration, admitted: Admitted, plan: QueryPlan, commands: CommandStream | None
    ) -> None:
        """A new query; with commands if the pipeline runs."""
        if admitted.tables:
            self._tables[r.id] = RegisteredTables(admitted, plan, lambda: self._taken(r))
            if commands is not None:
                self._tables[r.id].begin(commands)

    def start(self, queries: Iterable[Registration], commands: CommandStream) -> None:
        """After a start of the pipeline: bring the tables of its queries up to date."""
        plans = {c.sequence: c.payload.get("plan") for c in stored(self._directory)}
        for r in queries:
            try:
                plan = QueryPlan.decoded(plans[r.sequence] or "")
                if plan.inputs and r.id not in self._tables:
                    self.add(r, self._plan_of(r), plan, None)
                if r.id in self._tables and self._taken(r):
                    self._tables[r.id].resume(commands, self._directory, r.sequence)
                elif r.id in self._tables:
                    self._tables[r.id].begin(commands)
            except PenstockError as error:
                _log.warning("the tables of query %s stay as they were: %s", r.name, error)

    def taken_in(self, ids: Iterable[str]) -> None:
        """The engines have these queries now."""
        for id in set(ids) & set(self._tables):
            self._tables[id].catch_up()

    def drop(self, ids: Iterable[str]) -> None:
        """Drop the tables of queries: no command may change those of a later query of the same name."""
        for id in set(ids) & set(self._tables):
            self._tables.pop(id).end()
