"""The pipelines of a session, by name, and the statements about them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession

from penstock import cql
from penstock.catalog import Catalog
from penstock.errors import CatalogError
from penstock.settings import Settings
from penstock.spark.driver import insert
from penstock.spark.driver.pipeline import Pipeline
from penstock.spark.driver.registrations import splits

Splits = Mapping[str, str | Sequence[str] | Sequence[Sequence[str]]]
"""By stream a column, a list of columns, or several such lists."""


class Pipelines:
    """Makes and finds pipelines; ``partitions`` and ``settings`` are the session's as they are now."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        partitions: Callable[[], int],
        settings: Callable[[], Settings],
    ) -> None:
        self._spark, self._catalog, self._partitions, self._settings = spark, catalog, partitions, settings
        self._pipelines: dict[str, Pipeline] = {}
        self._triggers: dict[str, str] = {}

    def all(self) -> list[Pipeline]:
        """The pipelines, in the order in which they were made."""
        return list(self._pipelines.values())

    def find(self, name: str) -> Pipeline | None:
        """The pipeline of a name, ignoring case."""
        known = self._known(name)
        return None if known is None else self._pipelines[known]

    def pipeline(
        self,
        name: str,
        checkpoint: str | None = None,
        streams: Sequence[str] = (),
        split: Splits | None = None,
        keep: str | dt.timedelta = "1 HOUR",
        one_clock: bool = False,
        stages: int | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> Pipeline:
        """See :meth:`penstock.spark.driver.session.Session.pipeline`."""
        known = self._known(name)
        if checkpoint is None:
            if known is None:
                raise CatalogError(f"there is no pipeline {name!r}; give checkpoint= and streams= to make it")
            return self._pipelines[known]
        if known is not None and self._pipelines[known].isActive:
            raise CatalogError(f"pipeline {known!r} is already running; stop it, or choose another name")
        if isinstance(streams, str) or not streams:
            raise CatalogError(f"pipeline {name!r} needs the streams that it reads, as streams=['S', 'R']")
        if stages not in (None, 1, 2):
            raise CatalogError(f"a pipeline has stages=1 or stages=2, not {stages!r}")
        catalog = self._catalog
        inputs, kept = [catalog.input(s) for s in streams], cql.seconds(keep, "KEEP")
        by = {catalog.input(n).name: k for n, k in splits(split).items()}
        read = {catalog.input(n).name: tuple(c) for n, c in (columns or {}).items()}
        other = [n for n in read if n not in [i.name for i in inputs]]
        if other:
            raise CatalogError(f"columns names {other[0]}, which is not a stream of the pipeline")
        own = (inputs, self._partitions(), by, kept, one_clock, stages, read)
        found = (lambda text: cql.bind(text, catalog), self._settings, catalog.sink)
        self._pipelines[name] = Pipeline(self._spark, name, checkpoint, *own, *found)
        return self._pipelines[name]

    def run(self, statement: cql.PipelineStatement | cql.Drop) -> None:
        """Run a statement about a pipeline or its queries."""
        match statement:
            case cql.CreatePipeline():
                self._create(statement)
            case cql.RegisterQuery():
                _, sink = cql.bind_registration(statement, self._catalog)
                to = None if sink is None else sink.name
                own = (statement.name, statement.text, to, statement.history)
                self._only(statement.pipeline).register(*own)
            case cql.DropQuery():
                self._drop_query(statement)
            case cql.SwitchPipeline("start", name):
                trigger = self._triggers.get(name.casefold(), self._settings().trigger)
                self.pipeline(name).start(insert.trigger_options(trigger))
            case cql.SwitchPipeline(name=name):
                self.pipeline(name).stop()
            case cql.Drop(name=name, if_exists=if_exists):
                self._drop(name, if_exists)

    def listed(self) -> list[tuple[str, str]]:
        """The pipelines, and whether they run."""
        return [(n, "running" if p.isActive else "stopped") for n, p in self._pipelines.items()]

    def queries(self) -> list[tuple[str, str, str, str]]:
        """Name, pipeline, state and text of all queries."""
        return [(q.name, p.name, q.state, q.text) for p in self._pipelines.values() for q in p.queries()]

    def clear(self) -> None:
        """Forget all pipelines; those that run go on."""
        self._pipelines.clear()

    def _known(self, name: str) -> str | None:
        return next((n for n in self._pipelines if n.casefold() == name.casefold()), None)

    def _create(self, statement: cql.CreatePipeline) -> None:
        cql.check_pipeline(statement, self._catalog)
        location, settings = statement.checkpoint, self._settings()
        if location is None and settings.checkpoint is not None:
            location = f"{settings.checkpoint}/{statement.name}"
        if location is None:
            raise CatalogError(
                f"pipeline {statement.name!r} needs a checkpoint; add CHECKPOINT 'directory', or SET "
                "penstock.checkpoint = 'directory'"
            )
        keep = "1 HOUR" if statement.keep is None else dt.timedelta(seconds=statement.keep)
        own = (statement.name, location, statement.streams, statement.split)
        self.pipeline(*own, keep=keep, stages=statement.stages, columns=statement.columns)
        self._triggers[statement.name.casefold()] = statement.trigger or settings.trigger

    def _only(self, name: str | None) -> Pipeline:
        """A pipeline by name; without a name the only one."""
        if name is None and len(self._pipelines) != 1:
            named = ", ".join(self._pipelines) or "none"
            raise CatalogError(f"which pipeline is meant? add IN and its name; there are: {named}")
        return self.pipeline(name or next(iter(self._pipelines)))

    def _drop_query(self, statement: cql.DropQuery) -> None:
        pipeline = self._only(statement.pipeline)
        stand = [q.name.casefold() for q in pipeline.queries() if q.state in ("registered", "running")]
        if statement.name.casefold() in stand or not statement.if_exists:
            pipeline.drop(statement.name)

    def _drop(self, name: str, if_exists: bool) -> None:
        known = self._known(name)
        if known is None and not if_exists:
            named = ", ".join(self._pipelines) or "none"
            raise CatalogError(f"there is no pipeline {name!r}; there are: {named}")
        if known is not None:
            self._pipelines.pop(known).stop()
