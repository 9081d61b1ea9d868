"""Commands are applied in sequence, once each, before the rows of their step, and survive a rebuild."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.command import HANDLERS, Command, CommandState
from penstock.engine.element import BEFORE_TIME
from penstock.engine.engine import Engine
from penstock.engine.graph import Graph
from penstock.engine.operator import Clock
from penstock.engine.operators.changelog import Changelog
from penstock.engine.operators.source import Source
from penstock.engine.operators.union import Union
from penstock.engine.stage import RESULT, TS, Arrival, Stage, StageInput, StepOutput
from penstock.errors import DataError, EngineError


def memory(sequence: int, size: int) -> Command:
    return Command(sequence, "memory", {"bytes": size})


def test_commands_are_applied_in_sequence_and_once() -> None:
    state = CommandState().apply([memory(2, 20), memory(1, 10)])
    assert (state.applied, state.memory) == (2, 20)
    assert state.apply([memory(1, 10), memory(2, 30)]) == state
    assert state.apply([memory(0, 5)]) == CommandState(2, 5)  # the host's own for this step


def test_an_unknown_kind_is_rejected_by_name() -> None:
    known = "it knows: drop, end, memory, register, setting, tables"
    with pytest.raises(EngineError, match=f"command 7 is of the kind 'dance'.*{known}"):
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
    header = engine.header().replace(b'"format": 3', b'"format": 7')
    with pytest.raises(EngineError, match="has format 7; this version reads 3"):
        engine.restore_header(header)


def test_every_kind_has_a_handler_that_changes_state_alone() -> None:
    payloads = {
        "memory": {"bytes": 1}, "tables": {"changes": {}}, "end": {"ticks": 0}, "register": {}, "drop": {},
        "setting": {"name": "scheduler", "value": "chain"},
    }  # fmt: skip
    assert set(payloads) == set(HANDLERS)
    for kind, payload in payloads.items():
        before = CommandState()
        assert CommandState(**before.apply([Command(1, kind, payload)]).state()).applied == 1
        assert before == CommandState()


def end(sequence: int, ticks: int) -> Command:
    return Command(sequence, "end", {"ticks": ticks})


def finite_engine() -> Engine:
    """The rows of two streams, one of them up to 5 ticks out of order."""
    schemas = {name: pa.schema([("a", pa.int64())]) for name in "RS"}
    union = Union(tuple(Source(name, schema) for name, schema in schemas.items()))
    inputs = tuple(StageInput(n, s, skew=5 * (n == "R")) for n, s in schemas.items())
    return Engine(Stage({RESULT: Changelog(union)}, inputs))


def rows(name: str, *stamps: int) -> Arrival:
    batch = pa.record_batch({TS: pa.array(stamps, pa.int64()), "a": pa.array(stamps, pa.int64())})
    return Arrival(name, 0, batch, min(stamps), max(stamps))


def test_the_end_of_the_input_completes_its_last_instant_and_the_ticks_after() -> None:
    for ticks in (0, 7):
        engine = finite_engine()
        first = engine.step([rows("R", 3, 9), rows("S", 8)]).only
        assert (first.batch.column("a").to_pylist(), first.progress) == ([3], 4)
        last = engine.step([rows("S", 12)], [end(1, ticks)]).only
        assert (last.batch.column("a").to_pylist(), last.progress) == ([8, 9, 12], 13 + ticks)
        assert engine.step([]).only.progress == 13 + ticks


def test_an_end_without_rows_completes_nothing() -> None:
    assert finite_engine().step([], [end(1, 0)]).only.progress == BEFORE_TIME


def test_rows_after_the_end_are_refused_also_by_a_rebuilt_engine() -> None:
    engine = finite_engine()
    engine.step([rows("R", 3), rows("S", 8)], [end(1, 0)])
    restored = finite_engine()
    restored.restore(engine.snapshot().data)
    for closed in (engine, restored):
        with pytest.raises(DataError, match="a row of S came after the run was ended .* is closed"):
            closed.step([rows("S", 20)])
