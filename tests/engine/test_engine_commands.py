"""Commands are applied in sequence, once each, before the rows of their step, and survive a rebuild."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.command import HANDLERS, Command, CommandState
from penstock.engine.engine import Engine
from penstock.engine.graph import Graph
from penstock.engine.operator import Clock
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.source import Source
from penstock.engine.stage import RESULT, TS, Arrival, Stage, StageInput, StepOutput
from penstock.errors import EngineError


def memory(sequence: int, size: int) -> Command:
    return Command(sequence, "memory", {"bytes": size})


def test_commands_are_applied_in_sequence_and_once() -> None:
    state = CommandState().apply([memory(2, 20), memory(1, 10)])
    assert (state.applied, state.memory) == (2, 20)
    assert state.apply([memory(1, 10), memory(2, 30)]) == state
    assert state.apply([memory(0, 5)]) == CommandState(2, 5)  # the host's own for this step


def test_an_unknown_kind_is_rejected_by_name() -> None:
    with pytest.raises(EngineError, match="command 7 is of the kind 'dance'.*it knows: memory, tables"):
        CommandState().apply([Command(7, "dance", {})])


def engine_seeing(monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, list[int | None]]:
    seen: list[int | None] = []
    opened = Graph.open

    def watched(self: Graph, clock: Clock) -> None:
        seen.append(clock.memory)
        opened(self, clock)

    monkeypatch.setattr(Graph, "open", watched)
    schema = pa.schema([("S.a", pa.int64())])
    return new_engine(schema), seen


def new_engine(schema: pa.Schema) -> Engine:
    return Engine(Stage({RESULT: Changelog(Source("S", schema))}, (StageInput("S", schema),)))


def step(engine: Engine, ts: int, *commands: Command) -> StepOutput:
    batch = pa.record_batch({TS: [ts], "S.a": [ts]})
    return engine.step([Arrival("S", 0, batch, ts, ts)], commands)


def test_a_step_runs_under_its_commands_and_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, seen = engine_seeing(monkeypatch)
    step(engine, 1)
    step(engine, 2, memory(1, 64))
    step(engine, 3)
    step(engine, 4, memory(1, 99), memory(2, 32))
    assert seen == [None, 64, 64, 32]


def test_a_rebuilt_engine_knows_the_commands_of_steps_it_does_not_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, seen = engine_seeing(monkeypatch)
    step(engine, 1, memory(3, 64))
    assert step(engine, 9).needs_from == 1
    replayed, restored = Engine(engine.stage), Engine(engine.stage)
    replayed.restore_header(engine.header())
    step(replayed, 9)
    restored.restore(engine.snapshot().data)
    for again in (replayed, restored):
        step(again, 10, memory(3, 1))
        assert seen[-1] == 64


def test_a_header_of_another_format_is_refused() -> None:
    engine = new_engine(pa.schema([("S.a", pa.int64())]))
    header = engine.header().replace(b'"format": 1', b'"format": 7')
    with pytest.raises(EngineError, match="has format 7; this version reads 1"):
        engine.restore_header(header)


def test_every_kind_has_a_handler_that_changes_state_alone() -> None:
    payloads = {"memory": {"bytes": 1}, "tables": {"changes": {}}}
    assert set(payloads) == set(HANDLERS)
    for kind, payload in payloads.items():
        before = CommandState()
        assert CommandState(**before.apply([Command(1, kind, payload)]).state()).applied == 1
        assert before == CommandState()
