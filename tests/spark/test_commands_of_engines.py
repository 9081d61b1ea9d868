"""Commands of steps that relays take, without Spark: killed engines apply them again, in sequence."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import fake_engine
import pyarrow as pa
import pytest
from fake_store import FakeStore
from test_resident import ORDER, QUERY, engine_pid, program, record

from penstock.engine.command import Command
from penstock.errors import DataError
from penstock.spark.relay.state_log import StateLog
from penstock.spark.relay.visit import Visit
from penstock.spark.resident import connection
from penstock.spark.resident.directory import EngineId, ResidentDirectory

pytestmark = pytest.mark.slow  # each test starts processes

from test_resident import place, shared  # noqa: E402, F401  fixtures


def seen(store: FakeStore, key: int, *digits: int, sequence: int = 1, order: EngineId = ORDER) -> int:
    """What a row is shown with after a step with these commands, the first of which has this number."""
    commands = [Command(sequence + n, "memory", {"bytes": d}) for n, d in enumerate(digits)]
    visit = Visit(StateLog(store, QUERY), program(fake_engine.listening), order)
    found = visit.step(replace(record(key), commands=tuple(commands)))
    store.commit()
    with pa.ipc.open_stream(found.body) as reader:
        (total,) = reader.read_next_batch().column("total").to_pylist()
    return int(total)


def kill(place: ResidentDirectory, order: EngineId = ORDER) -> None:  # noqa: F811
    os.kill(engine_pid(place, order), signal.SIGKILL)


def test_a_killed_engine_applies_them_again(place: ResidentDirectory) -> None:  # noqa: F811
    store = FakeStore()
    assert seen(store, 0) == 0
    for digit, expected in [(1, 1), (2, 12), (3, 123)]:
        assert seen(store, digit, digit, sequence=digit) == expected
        kill(place)
    assert seen(store, 4) == 123


def test_a_failed_batch_takes_the_same_again(place: ResidentDirectory) -> None:  # noqa: F811
    """Spark commits nothing of it, and gives the next attempt the same commands and perhaps others."""
    store = FakeStore()
    assert seen(store, 1, 1) == 1
    with pytest.raises(DataError, match="cursed"):
        seen(store, -1, 2, sequence=2)
    store.rollback()
    assert seen(store, 2, 2, 3, sequence=2) == 123


def test_partitions_and_queries_have_their_own(place: ResidentDirectory) -> None:  # noqa: F811
    others: dict[EngineId, Any] = {replace(ORDER, partition=1): 12, replace(ORDER, query_id="other"): 7}
    stores = {order: FakeStore() for order in (ORDER, *others)}
    assert seen(stores[ORDER], 1, 1, 2) == 12
    for order, expected in others.items():
        assert seen(stores[order], 1, *map(int, str(expected)), order=order) == expected
    kill(place)
    kill(place, replace(ORDER, query_id="other"))
    for order, expected in {ORDER: 12, **others}.items():
        assert seen(stores[order], 2, order=order) == expected
    connection.quit_query(place.root, "other")
