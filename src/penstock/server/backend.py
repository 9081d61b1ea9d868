"""What a server needs of the system that runs the queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.measurement import Measurements
from penstock.plan.physical import PlannedStage

if TYPE_CHECKING:
    from penstock.server.results import Feed
    from penstock.server.views import InputView, SettingView


@dataclass(frozen=True)
class Batch:
    """The last batch of a query: its number, when it ended (seconds since 1970), how long it took."""

    number: int
    ended: float
    seconds: float
    rows: int = 0


@dataclass(frozen=True)
class Run:
    """A query as the backend knows it; the fields are those of ``views.QueryView``.

    ``run`` names its measurements. ``roots``: of a query of a pipeline, its root there. ``stages``: its plan,
    if known; ``notes``: remarks of the plan.
    """

    key: str
    name: str
    kind: str = "query"
    state: str = "running"
    text: str = ""
    pipeline: str = ""
    run: str = ""
    root: str = ""
    error: str = ""
    started: float | None = None
    batch: Batch | None = None
    stages: tuple[PlannedStage, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    can: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """The plan of a text that does not run."""

    stages: tuple[PlannedStage, ...]
    notes: tuple[str, ...] = ()
    explained: str = ""


class Backend(Protocol):
    """A session, or something like it. Calls come from several threads."""

    def runs(self) -> Sequence[Run]:
        """The queries, also those that have ended, newest last."""

    def measurements(self) -> Measurements:
        """The latest of all engines."""

    def length(self, run: str, ticks: int) -> str:
        """A length of a run's time, as CQL writes it."""

    def inputs(self) -> Sequence[InputView]:
        """What is registered."""

    def plan(self, text: str) -> Planned:
        """The plan of a query's text; a mistake in it is a CQLError with its place."""

    def register(self, name: str, text: str, pipeline: str | None = None, once: bool = False) -> str:
        """Start a query, or register it in a pipeline; returns its key.

        ``once``: over the input that is there, and then end.
        """

    def start(self, key: str) -> None:
        """Start a stopped query or pipeline."""

    def stop(self, key: str) -> None:
        """Stop a query or pipeline; it can be started again."""

    def drop(self, key: str) -> None:
        """End a query, or drop it from its pipeline; it is no longer listed as running."""

    def set(self, key: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running query."""

    def settings(self, key: str, operator: str = "") -> Sequence[SettingView]:
        """The settings that a running query can change, with their values: as its operator has them."""

    def execute(self, text: str) -> str:
        """Run statements that define something (only if the server allows it); returns what was done."""

    def feed(self, key: str) -> Feed:
        """The results of a query as they come."""
