"""The log keeps exactly what a rebuild needs."""

from __future__ import annotations

import pytest
from fake_store import FakeStore

from penstock.errors import CatalogError, EngineError
from penstock.spark import state_log
from penstock.spark.state_log import StateLog


def take_step(store: FakeStore, data: bytes, needs_from: int) -> StateLog:
    log = StateLog(store, "q")
    log.append([data])
    log.commit(f"header {needs_from}".encode(), needs_from)
    store.commit()
    return log


def test_a_new_log_is_at_version_zero() -> None:
    log = StateLog(FakeStore(), "q")
    assert log.control.version == 0
    assert log.base() == (0, b"", b"")
    assert list(log.entries()) == []


def test_steps_are_read_back_in_order_whatever_their_size() -> None:
    store = FakeStore()
    steps = [b"a", b"", b"x" * (3 * state_log.PIECE + 1)]
    for step in steps:
        take_step(store, step, 0)
    log = StateLog(store, "q")
    assert [(e.step, bytes(e.record)) for e in log.entries()] == list(enumerate(steps))
    assert log.base()[:2] == (0, b"header 0")


def test_old_steps_are_deleted_one_step_later() -> None:
    store = FakeStore()
    for step in range(10):
        take_step(store, b"x" * 10, max(0, step - 1))
    log = StateLog(store, "q")
    assert [e.step for e in log.entries()] == [8, 9]
    assert log.base()[:2] == (8, b"header 8")
    assert store.steps() == [(7, 0), (8, 0), (9, 0)]


def test_the_step_being_taken_is_not_replayed() -> None:
    store = FakeStore()
    take_step(store, b"first", 0)
    log = StateLog(store, "q")
    log.append([b"second"])
    assert [bytes(e.record) for e in log.entries()] == [b"first"]


def test_a_snapshot_replaces_the_log_and_goes_when_it_is_no_longer_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_log, "SNAPSHOT_AFTER", 100)
    store = FakeStore()
    log = take_step(store, b"x" * 101, 0)
    assert log.wants_snapshot(0, 0)
    assert not log.wants_snapshot(0, 60)
    assert not log.wants_snapshot(1, 0)
    log.put_snapshot(memoryview(b"state"), 50)
    assert store.steps() == [(-2, 0)]
    after = take_step(store, b"y", 1)
    assert after.base() == (1, b"", b"state")
    assert [e.step for e in after.entries()] == [1]
    take_step(store, b"z", 2)
    assert StateLog(store, "q").base()[:2] == (2, b"header 2")
    take_step(store, b"z", 3)
    assert (-2, 0) not in store.entries


def test_another_query_is_refused() -> None:
    store = FakeStore()
    take_step(store, b"a", 0)
    with pytest.raises(CatalogError, match="new checkpoint"):
        StateLog(store, "another")


def test_damage_and_foreign_formats_are_refused() -> None:
    store = FakeStore()
    log = take_step(store, b"abc", 0)
    store.entries[(0, 0)] = (b"ab",)
    with pytest.raises(EngineError, match="damaged"):
        list(log.entries())
    data = store.entries[state_log._CONTROL][0]
    store.entries[state_log._CONTROL] = (data.replace(b'"format": 1', b'"format": 99'),)
    with pytest.raises(EngineError, match="not of format 1"):
        StateLog(store, "q")
