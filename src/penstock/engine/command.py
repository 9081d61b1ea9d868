"""Commands: a host's decisions about a running engine, applied between two steps and logged with the rows.

A command changes nothing but the engine's :class:`CommandState`, a small value that is part of the header and
of every snapshot; operators see it through the clock. So an engine that is rebuilt from any point of its log
makes the same decisions again. A kind of command is a function from state and payload to state.

>>> CommandState().apply([Command(1, "memory", {"bytes": 4096})])
CommandState(applied=1, memory=4096, tables=0, ended=None, settings={})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from penstock.engine.knobs import Knobs
from penstock.errors import EngineError


@dataclass(frozen=True)
class Command:
    """One entry of a query's command stream. ``payload`` is JSON-serializable.

    ``sequence`` counts from 1 and orders the stream; 0 marks a command for one step only.
    """

    sequence: int
    kind: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class CommandState:
    """The effect of all commands so far.

    ``applied`` is the last sequence number that was applied; ``memory`` is the number of bytes that the query
    may use of a memory shared by several queries, None if it shares none. ``tables`` counts the changes of
    static tables and of registered queries; the rows and plans themselves are large, and kept beside this
    (:mod:`penstock.engine.tables`, :mod:`penstock.engine.registry`).
    ``ended``: the input has ended, and time runs on for so many ticks after its last row. ``settings``: what
    was changed while the query runs, by name (:mod:`penstock.engine.knobs`).
    """

    applied: int = 0
    memory: int | None = None
    tables: int = 0
    ended: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def knobs(self) -> Knobs:
        """The settings as the engine reads them."""
        return Knobs.of(self.settings)

    def new(self, commands: Iterable[Command]) -> list[Command]:
        """The commands that are not applied yet, in sequence."""
        found = [c for c in commands if not c.sequence or c.sequence > self.applied]
        return sorted(found, key=lambda c: c.sequence)

    def apply(self, commands: Iterable[Command]) -> CommandState:
        """The state after the commands, in sequence; those already applied are skipped."""
        state = self
        for command in self.new(commands):
            state = _handler(command)(state, command.payload)
            state = replace(state, applied=max(state.applied, command.sequence))
        return state

    def state(self) -> dict[str, Any]:
        """The form stored in headers and snapshots."""
        return asdict(self)


Handler = Callable[[CommandState, dict[str, Any]], CommandState]


def _set_memory(state: CommandState, payload: dict[str, Any]) -> CommandState:
    return replace(state, memory=int(payload["bytes"]))


def _change_tables(state: CommandState, payload: dict[str, Any]) -> CommandState:
    return replace(state, tables=state.tables + 1)


def _set(state: CommandState, payload: dict[str, Any]) -> CommandState:
    settings = {**state.settings, str(payload["name"]): payload["value"]}
    Knobs.of(settings)
    return replace(state, settings=settings)


def _end(state: CommandState, payload: dict[str, Any]) -> CommandState:
    return replace(state, ended=int(payload["ticks"]))


TABLES, END, REGISTER, DROP, SETTING = "tables", "end", "register", "drop", "setting"
HANDLERS: dict[str, Handler] = {
    "memory": _set_memory, TABLES: _change_tables, END: _end, REGISTER: _change_tables, DROP: _change_tables,
    SETTING: _set,
}  # fmt: skip
"""The effect of each kind of command."""


def _handler(command: Command) -> Handler:
    if command.kind not in HANDLERS:
        known = ", ".join(sorted(HANDLERS))
        raise EngineError(
            f"command {command.sequence} is of the kind {command.kind!r}, unknown to this version of "
            f"Penstock; it knows: {known}"
        )
    return HANDLERS[command.kind]
