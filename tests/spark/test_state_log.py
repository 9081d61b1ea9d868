"""The log keeps exactly what a rebuild needs."""

from __future__ import annotations

from typing import Any

import pytest
from fake_store import FakeStore

from penstock.errors import CatalogError, EngineError
from penstock.spark.relay import state_log
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.state_log import StateLog

QUERY = Fingerprint(0, 2, "plan")


def take_step(store: FakeStore, data: bytes, needs_from: int) -> StateLog:
    log = StateLog(store, QUERY)
    log.append([data])
    log.commit(f"header {needs_from}".encode(), needs_from)
    store.commit()
    return log


def test_a_new_log_is_at_version_zero() -> None:
    log = StateLog(FakeStore(), QUERY)
    assert log.control.version == 0
    assert log.base() == (0, b"", b"", 0)
    assert list(log.entries()) == []


def test_steps_are_read_back_in_order_whatever_their_size() -> None:
    store = FakeStore()
    steps = [b"a", b"", b"x" * (3 * state_log.LOG_PIECE_BYTES + 1)]
    for step in steps:
        take_step(store, step, 0)
    log = StateLog(store, QUERY)
    assert [(e.step, bytes(e.record)) for e in log.entries()] == list(enumerate(steps))
    assert log.base()[:2] == (0, b"header 0")


def test_old_steps_are_deleted_one_step_later() -> None:
    store = FakeStore()
    for step in range(10):
        take_step(store, b"x" * 10, max(0, step - 1))
    log = StateLog(store, QUERY)
    assert [e.step for e in log.entries()] == [8, 9]
    assert log.base()[:2] == (8, b"header 8")
    assert store.steps() == [(7, 0), (8, 0), (9, 0)]


def test_the_step_being_taken_is_not_replayed() -> None:
    store = FakeStore()
    take_step(store, b"first", 0)
    log = StateLog(store, QUERY)
    log.append([b"second"])
    assert [bytes(e.record) for e in log.entries()] == [b"first"]


def test_a_snapshot_replaces_the_log_and_goes_when_it_is_no_longer_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 100)
    store = FakeStore()
    log = take_step(store, b"x" * 101, 0)
    assert log.wanted_snapshot(0, 1) == (False, 50)
    assert log.wanted_snapshot(0, 0) == (True, 50)
    assert log.wanted_snapshot(1, 1) is None
    log.note_state(60, 1)
    assert log.wanted_snapshot(0, 0) is None
    log.put_snapshot(memoryview(b"state"), 50, 1)
    assert store.steps() == [(-2, 0)]
    after = take_step(store, b"y", 1)
    assert after.base() == (1, b"", b"state", 50)
    assert [e.step for e in after.entries()] == [1]
    take_step(store, b"z", 2)
    assert StateLog(store, QUERY).base()[:2] == (2, b"header 2")
    take_step(store, b"z", 3)
    assert (-2, 0) not in store.entries


def test_a_snapshot_keeps_the_steps_that_operators_beside_it_need() -> None:
    store = FakeStore()
    for _ in range(4):
        log = take_step(store, b"x" * 10, 0)
    log.put_snapshot(memoryview(b"state"), 50, 2)
    assert store.steps() == [(-5, 0), (2, 0), (3, 0)]
    after = take_step(store, b"y", 2)
    assert after.base() == (2, b"", b"state", 50)
    assert [e.step for e in after.entries()] == [2, 3, 4]
    later = take_step(store, b"z" * 10, 2)
    later.put_snapshot(memoryview(b"newer"), 50, 5)
    assert store.steps() == [(-7, 0), (5, 0)]


def test_the_log_follows_the_size_of_the_state() -> None:
    store, state, needs_from = FakeStore(), 3 << 20, 0
    for _ in range(60):
        log = take_step(store, b"x" * (1 << 20), needs_from)
        wanted = log.wanted_snapshot(log.control.needs_from, log.control.version)
        if wanted is not None:
            log.note_state(state, log.control.version)
        if wanted is not None and wanted.most >= state:
            log.put_snapshot(memoryview(bytes(state)), state, log.control.version)
            needs_from = log.control.needs_from
        kept = sum(len(row[0]) for row in store.entries.values())
        assert kept <= 3 * state + state_log.SNAPSHOT_LOG_BYTES


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Fingerprint(0, 4, "plan"), "written with 2 partitions and this query has 4; .*partitions=2"),
        (
            Fingerprint(0, 2, "another"),
            "by another query .* start the query that wrote it, or use a new",
        ),
        (Fingerprint(1, 2, "plan"), "written by another query"),
    ],
)
def test_another_query_is_refused(other: Fingerprint, message: str) -> None:
    store = FakeStore()
    take_step(store, b"a", 0)
    before = dict(store.entries)
    with pytest.raises(CatalogError, match=message):
        StateLog(store, other)
    assert store.entries == before


def flipped(data: bytes) -> bytes:
    """One bit is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "entry 0 of the log has 300000 of 300001 bytes"),
        (flipped, "entry 0 of the log has a wrong checksum"),
        (lambda data: None, "entry 0 of the log has 262112 of 300001 bytes"),
    ],
)
def test_a_damaged_entry_is_told(damage: Any, message: str) -> None:
    store = FakeStore()
    log = take_step(store, b"x" * 300_001, 0)
    changed = damage(store.entries[(0, 1)][0])
    store.entries[(0, 1)] = None if changed is None else (changed,)
    with pytest.raises(EngineError, match=f"the checkpoint is damaged: {message}; restore"):
        list(log.entries())


def test_a_damaged_snapshot_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    take_step(store, b"x", 0).put_snapshot(memoryview(b"state"), 50, 1)
    store.entries[(-2, 0)] = (flipped(store.entries[(-2, 0)][0]),)
    with pytest.raises(EngineError, match="entry -2 of the log has a wrong checksum"):
        StateLog(store, QUERY).base()


@pytest.mark.parametrize("damage", [flipped, lambda data: data[:20], lambda data: data[:-1]])
def test_a_damaged_control_is_told(damage: Any) -> None:
    store = FakeStore()
    log = StateLog(store, QUERY)
    log.append([b"a"])
    log.commit(b"header" * 1000, 0)
    store.entries[state_log._CONTROL] = (damage(store.entries[state_log._CONTROL][0]),)
    with pytest.raises(EngineError, match="the checkpoint is damaged: (its control|the header)"):
        StateLog(store, QUERY)


def rewritten(store: FakeStore, old: bytes, new: bytes) -> FakeStore:
    data = store.entries[state_log._CONTROL][0]
    assert old in data
    store.entries[state_log._CONTROL] = (data.replace(old, new),)
    return store


def test_logs_of_other_versions_are_refused_by_name() -> None:
    store = FakeStore()
    take_step(store, b"abc", 0)
    ours = f'"format": {state_log.FORMAT}, "penstock": "0.1.0"'.encode()
    later = rewritten(store, ours, b'"format": 9, "penstock": "7.0.0"')
    with pytest.raises(CatalogError, match="by Penstock 7.0.0 .log format 9., and this is Penstock 0.1.0"):
        StateLog(later, QUERY)
    store.entries[state_log._CONTROL] = (b'{"format": 1, "version": 3, "fingerprint": "q"}\n',)
    with pytest.raises(CatalogError, match="by Penstock before 0.1.0 .log format 1."):
        StateLog(store, QUERY)


def test_a_snapshot_of_another_version_with_the_same_log_is_read() -> None:
    store = FakeStore()
    take_step(store, b"x", 0).put_snapshot(memoryview(b"state"), 50, 1)
    rewritten(store, b'"penstock": "0.1.0"', b'"penstock": "0.1.1"')
    assert StateLog(store, QUERY).base() == (1, b"", memoryview(b"state"), 50)
