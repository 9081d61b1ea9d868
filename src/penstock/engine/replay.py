"""The steps that a rebuild of an engine replays: those that its state depends on.

Windows forget, so the steps before the first one with a row at or after the state's horizon are not needed.
What cannot be replayed from a bounded part of the input is in a snapshot, the *base* of a rebuild: it stands
for the steps before it as long as the state depends on one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.command import CommandState
from penstock.engine.input_manager import Progress
from penstock.engine.registry import Registry
from penstock.engine.stage import TS, Arrival
from penstock.engine.tables import Tables

Tops = dict[str, int]
"""The largest timestamp of rows per input, and of the changes of tables per clock group."""


@dataclass(frozen=True)
class StepBefore:
    """What an engine was before a step: the progress of its clock groups, commands, tables and queries.

    ``tops``: those of the step.
    """

    progress: dict[str, Progress]
    commands: CommandState
    tables: Tables
    registry: Registry
    stamped: int
    tops: Tops


@dataclass(frozen=True)
class _Base:
    """The snapshot that a rebuild starts from; ``tops``: those of the steps before ``start``."""

    version: int
    start: int
    tops: Tops


class Steps:
    """The steps taken, of which those are remembered that the state may depend on. ``taken``: how many."""

    def __init__(self) -> None:
        self.taken = 0
        self._kept: dict[int, StepBefore] = {}
        self._base: _Base | None = None

    @property
    def first(self) -> int:
        """The first remembered step, or the next one."""
        return min(self._kept, default=self.taken)

    def add(self, before: StepBefore, tops: Tops) -> None:
        """A step was taken."""
        self._kept[self.taken] = replace(before, tops=tops)
        self.taken += 1

    def before(self, step: int, now: StepBefore) -> StepBefore:
        """What was before a step; ``now`` is before the next one."""
        return self._kept.get(step, now)

    def forget(self, horizons: Mapping[str, int]) -> int:
        """Drop the steps that are not needed; returns the first needed one, or the next step."""
        needed, base = self._first_needed(horizons), self._base
        if base is not None:
            if needed <= base.version or _reach(base.tops, horizons):
                needed = base.start
            else:
                self._base = None
        self._kept = {n: s for n, s in self._kept.items() if n >= needed}
        return needed

    def replay_from(self, horizons: Mapping[str, int]) -> int:
        """The first step that is needed after a snapshot of what the ``horizons`` leave out."""
        if self._base is not None and _reach(self._base.tops, horizons):
            return self.taken
        return self._first_needed(horizons)

    def _first_needed(self, horizons: Mapping[str, int]) -> int:
        return next((n for n, s in self._kept.items() if _reach(s.tops, horizons)), self.taken)

    def same_queries(self, start: int, registry: Registry) -> bool:
        """Whether all steps from ``start`` on had these queries."""
        return all(s.registry.queries == registry.queries for n, s in self._kept.items() if n >= start)

    def tops_before(self, start: int) -> Tops:
        """Those of the steps that no rebuild replays after a snapshot that needs those from ``start`` on."""
        gone = [s.tops for n, s in self._kept.items() if n < start]
        return _latest([*([self._base.tops] if self._base else []), *gone])

    def rest_on_snapshot(self, start: int, tops: Tops) -> None:
        """Such a snapshot is taken; ``tops``: those of the other steps."""
        self.restore(self.taken, start, tops)
        self._kept = {n: s for n, s in self._kept.items() if n >= start}

    def restore(self, version: int, start: int, tops: Tops) -> None:
        """A snapshot of ``version`` is what a rebuild starts from, with the steps from ``start`` on."""
        self._base = _Base(version, start, tops)


def tops_of(arrivals: Sequence[Arrival]) -> Tops:
    """The largest timestamp among a step's rows of each input (producers of an exchange do not report it)."""
    found: Tops = {}
    for a in arrivals:
        if a.batch is not None and a.batch.num_rows:
            top = int(np.asarray(a.batch.column(TS)).max()) if a.max_ts is None else a.max_ts
            found[a.input] = max(top, found.get(a.input, top))
    return found


def _reach(tops: Tops, horizons: Mapping[str, int]) -> bool:
    """Whether a step with these largest timestamps has a row that the state depends on."""
    return any(key in horizons and top >= horizons[key] for key, top in tops.items())


def _latest(tops: Sequence[Tops]) -> Tops:
    """The largest timestamps of several steps."""
    found: Tops = {}
    for its in tops:
        found |= {key: max(top, found.get(key, top)) for key, top in its.items()}
    return found
