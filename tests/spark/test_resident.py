"""Resident engines without Spark: they keep their state, are rebuilt, and never outlive anyone."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_engine
import psutil
import pyarrow as pa
import pytest
from fake_store import FakeStore
from waiting import until

from penstock.engine.stage import TS, Stage
from penstock.errors import DataError, EngineError
from penstock.measurement import Property, decode, measured
from penstock.spark.relay import state_log, visit
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.relay.state_log import StateLog
from penstock.spark.relay.visit import Visit
from penstock.spark.resident import connection, last_step
from penstock.spark.resident.directory import EngineId, Process, ResidentDirectory, new_plan
from penstock.spark.resident.last_step import LastStep
from penstock.spark.resident.program import Program
from penstock.spark.wire.protocol import Kind, Message, send
from penstock.spark.wire.record import Envelope, Record

pytestmark = pytest.mark.slow  # each test starts processes

ORDER = EngineId("run", "plan", 0, 0)
QUERY = Fingerprint(0, 1, "q")


def sleeper() -> subprocess.Popen[bytes]:
    """A process that stands for a JVM or a daemon."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


@contextmanager
def own_place(root: Path) -> Iterator[tuple[ResidentDirectory, subprocess.Popen[bytes]]]:
    """A place with a JVM of its own."""
    jvm = sleeper()
    place = ResidentDirectory(Process.of(jvm.pid), root)
    yield place, jvm
    jvm.kill()
    jvm.wait()
    until(lambda: not place.path.exists())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResidentDirectory]:
    """A place whose host is started once, for tests that leave it alone."""
    with own_place(tmp_path_factory.mktemp("shared") / "r") as (place, _):
        yield place


@pytest.fixture
def place(shared: ResidentDirectory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResidentDirectory]:
    use(shared, monkeypatch)
    yield shared
    connection.quit_query(shared.root, ORDER.query_id)
    connection.admit_query(shared.root, ORDER.query_id)  # the next test has a query of the same name


@pytest.fixture
def fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ResidentDirectory, subprocess.Popen[bytes]]]:
    with own_place(tmp_path / "r") as (place, jvm):
        use(place, monkeypatch)
        yield place, jvm


def use(place: ResidentDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relays in this process find their way to the place."""
    monkeypatch.setattr(ResidentDirectory, "of_worker", staticmethod(lambda: place))
    monkeypatch.setattr(visit, "spark_ancestors", lambda pid: (place.jvm,))


def program(build: Any = fake_engine.forgetful) -> bytes:
    return pickle.dumps(Program(Stage({}, ()), build=build))


def record(*keys: int) -> Record:
    batch = pa.record_batch({TS: pa.array(keys, pa.int64()), "k": pa.array(keys, pa.int64())})
    from penstock.spark.wire import blob

    return Record.of([(Envelope("S", 0, 0, len(keys), min(keys), max(keys)), memoryview(blob.encode(batch)))])


def step(
    store: FakeStore, *keys: int, build: Any = fake_engine.forgetful, order: EngineId = ORDER
) -> list[int]:
    """One relayed step; the running totals that came back."""
    with pa.ipc.open_stream(relayed(store, *keys, build=build, order=order).body) as reader:
        return reader.read_next_batch().column("total").to_pylist()


def relayed(
    store: FakeStore, *keys: int, build: Any = fake_engine.forgetful, order: EngineId = ORDER
) -> Message:
    """What comes back from one step."""
    result = Visit(StateLog(store, QUERY), program(build), order).step(record(*keys))
    store.commit()
    return result


def engine_pid(place: ResidentDirectory, order: EngineId = ORDER) -> int:
    with connection.connect(place, order) as sock:
        hello = connection.ask(sock, Kind.HELLO, {"version": 0, "base": "", "record": "", "watch": ()})
    return int(hello.head["pid"])


def test_an_engine_keeps_its_state_between_relays(place: ResidentDirectory) -> None:
    store = FakeStore()
    assert step(store, 1, 2) == [1, 2]
    first = engine_pid(place)
    assert step(store, 3) == [3]
    assert engine_pid(place) == first


def test_engines_of_different_queries_plans_stages_and_partitions_are_apart(
    place: ResidentDirectory,
) -> None:
    others = [replace(ORDER, query_id="other"), replace(ORDER, plan="inner"), replace(ORDER, query_id="")]
    others += [replace(ORDER, stage=1), replace(ORDER, partition=1)]
    stores = {o: FakeStore() for o in (ORDER, *others)}
    for order, store in stores.items():
        assert step(store, 1, order=order) == [1]
    assert len({engine_pid(place, o) for o in stores}) == 6
    connection.quit_query(place.root, "other")
    assert not place.query("other").exists()
    assert step(stores[ORDER], 2) == [2]
    assert step(stores[others[2]], 2, order=others[2]) == [2]
    connection.quit_query(place.root, "another", ["plan"])
    assert not place.query("").exists()
    assert step(stores[ORDER], 3) == [3]


def test_a_stopped_query_that_is_started_again_has_engines(place: ResidentDirectory) -> None:
    store = FakeStore()
    assert step(store, 1) == [1]
    connection.quit_query(place.root, ORDER.query_id)
    with pytest.raises(EngineError, match="the query was stopped"):
        step(store, 2)
    store.rollback()
    connection.admit_query(place.root, ORDER.query_id)
    assert step(store, 2) == [2]


@pytest.mark.parametrize("build", [fake_engine.forgetful, fake_engine.hoarding])
def test_a_killed_engine_is_rebuilt(place: ResidentDirectory, build: Any) -> None:
    store = FakeStore()
    for n in range(5):
        assert step(store, n, build=build) == [n + 1]
        os.kill(engine_pid(place), signal.SIGKILL)


def test_a_step_on_which_nothing_depends_is_not_logged(place: ResidentDirectory) -> None:
    store = FakeStore()
    for n in range(5):
        assert step(store, n, build=fake_engine.stateless) == [n + 1]
        assert store.steps() == []
        os.kill(engine_pid(place), signal.SIGKILL)
    # What an earlier version has logged goes.
    for n in range(5, 8):
        step(store, n, build=fake_engine.forgetful)
    assert store.steps() == [(5, 0), (6, 0), (7, 0)]
    os.kill(engine_pid(place), signal.SIGKILL)
    for n in range(8, 10):
        assert step(store, n, build=fake_engine.stateless) == [n + 1]
    assert store.steps() == []


def test_a_rebuild_is_as_long_as_the_reach(place: ResidentDirectory) -> None:
    """The counting engine reaches two steps back, however many there were."""
    store = FakeStore()
    for n in range(8):
        step(store, n)
    os.kill(engine_pid(place), signal.SIGKILL)
    found = measured(decode(relayed(store, 8).head["measured"]))
    assert found.value(Property.REPLAYED_STEPS) == 2
    assert found.value(Property.REBUILD_SECONDS) > 0


def test_a_damaged_log_is_told_and_left_alone(place: ResidentDirectory) -> None:
    store = FakeStore()
    for n in range(3):
        step(store, n)
    os.kill(engine_pid(place), signal.SIGKILL)
    (good,) = store.entries[(1, 0)]
    store.entries[(1, 0)] = (good[:-1] + b"?",)
    before = dict(store.entries)
    with pytest.raises(
        EngineError, match="the checkpoint is damaged: entry 1 of the log has a wrong checksum"
    ):
        step(store, 3)
    store.rollback()
    assert store.entries.keys() == before.keys()
    store.entries[(1, 0)] = (good,)
    assert step(store, 3) == [4]


def test_a_killed_host_is_replaced_and_its_engines_go(fresh: Any) -> None:
    place, _ = fresh
    store = FakeStore()
    step(store, 1)
    engine = Process.of(engine_pid(place))
    os.kill(int(Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    until(lambda: not engine.alive)
    assert step(store, 2) == [2]


def test_an_engine_killed_within_a_step(place: ResidentDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()
    step(store, 1)
    victim = engine_pid(place)
    append = StateLog.append

    def kill_then_append(self: StateLog, parts: Any) -> None:
        os.kill(victim, signal.SIGKILL)
        append(self, parts)

    monkeypatch.setattr(StateLog, "append", kill_then_append)
    engine_keys = step(store, 2)
    assert engine_keys == [2]


def test_an_attempt_that_failed_after_its_step_leaves_no_trace(place: ResidentDirectory) -> None:
    store = FakeStore()
    step(store, 1)
    Visit(StateLog(store, QUERY), program(), ORDER).step(record(2))
    store.rollback()
    assert step(store, 3, 4) == [2, 3]


def test_the_same_step_again_is_answered_and_not_replayed(
    place: ResidentDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``batch.isEmpty()`` and then the write do: two tasks take the step, and the second one counts."""
    monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 1000)
    store = FakeStore()
    for n in range(8):
        first = relayed_only(store, n)
        written = dict(store.entries)
        store.rollback()
        again = relayed_only(store, n)
        assert bytes(again.body) == bytes(first.body) and store.entries == written
        store.commit()
    assert any(step < 0 for step, _ in store.steps())
    found = measured(decode(relayed_only(store, 8).head["measured"]))
    assert (found.value(Property.STEPS_AGAIN), found.value(Property.REPLAYED_STEPS)) == (8, 0)
    assert found.value(Property.LAST_STEP_BYTES) > 0


def relayed_only(store: FakeStore, *keys: int) -> Message:
    """What comes back from one step that is not committed."""
    return Visit(StateLog(store, QUERY), program(fake_engine.hoarding), ORDER).step(record(*keys))


def test_another_step_at_the_same_version_is_taken(place: ResidentDirectory) -> None:
    store = FakeStore()
    step(store, 1)
    for keys in [(2,), (3, 4), (3, 4), (5,)]:
        assert Visit(StateLog(store, QUERY), program(), ORDER).step(record(*keys)).body
        store.rollback()
    other = FakeStore()
    step(other, 7)  # of the same version, with other rows before
    assert step(other, 5) == [2]


def test_large_answers_of_the_last_step_are_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_step, "LAST_STEP_BYTES", 100)
    last = LastStep(3, "base", "record")
    assert [bytes(part) for part in last.keep([b"x" * 60, b"y" * 40])] == [b"x" * 60, b"y" * 40]
    assert [bytes(part) for part in last.keep([b"z" * 60, b"u" * 40])] == [b"z" * 60 + b"u" * 40]
    assert last.in_memory == 100

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    head = {"version": 3, "base": "base", "record": "record"}
    last.note((Kind.RESULT, {}, ()))
    assert last.is_of(head)
    monkeypatch.setattr(last_step.tempfile, "TemporaryFile", full)
    assert last.keep([b"v"]) == [b"v"] and not last.is_of(head)


def test_a_damaged_log_is_repaired_from_what_is_left(
    place: ResidentDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control is of an attempt that took no snapshot, or took one that the other attempt did not."""
    monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 2000)
    lasting, other = FakeStore(), FakeStore()
    for n in range(12):
        step(lasting, n, build=fake_engine.hoarding)
        monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 1 << 30)
        step(other, n, build=fake_engine.hoarding)
        monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 2000)
    control = state_log._CONTROL
    assert any(step < 0 for step, _ in lasting.steps()) and len(other.steps()) == 12
    lasting.entries[control], other.entries[control] = other.entries[control], lasting.entries[control]
    for store in (lasting, other):
        store.commit()
        os.kill(engine_pid(place), signal.SIGKILL)
        for n in range(12, 15):
            assert step(store, n, build=fake_engine.hoarding) == [n + 1]
        os.kill(engine_pid(place), signal.SIGKILL)
        assert step(store, 15, build=fake_engine.hoarding) == [16]


def test_a_snapshot_bounds_the_log(place: ResidentDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 2000)
    store = FakeStore()
    for n in range(10):
        assert step(store, n, build=fake_engine.hoarding) == [n + 1]
    assert any(s < 0 for s, _ in store.steps())
    assert len(store.steps()) < 8
    os.kill(engine_pid(place), signal.SIGKILL)
    assert step(store, 10, build=fake_engine.hoarding) == [11]


def test_errors_come_back_as_they_are(place: ResidentDirectory) -> None:
    store = FakeStore()
    step(store, 1)
    with pytest.raises(DataError, match="cursed"):
        step(store, -1)
    store.rollback()
    assert step(store, 2) == [2]
    with pytest.raises(EngineError, match="KeyError"):
        Visit(StateLog(store, QUERY), program(), ORDER).step(bad_record())


def bad_record() -> Record:
    from penstock.spark.wire import blob

    batch = pa.record_batch({"nothing": [1]})
    return Record.of([(Envelope("S", 0, 0, 1), memoryview(blob.encode(batch)))])


def test_two_relays_start_one_host(fresh: Any) -> None:
    place, _ = fresh
    pids: list[int] = []
    threads = [threading.Thread(target=lambda: pids.append(engine_pid(place))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(pids) == 4
    assert len(set(pids)) == 1


def test_a_host_whose_socket_was_swept_makes_room(fresh: Any) -> None:
    place, _ = fresh
    store = FakeStore()
    step(store, 1)
    host = Process.of(psutil.Process(engine_pid(place)).ppid())
    place.host_socket.unlink()
    assert step(store, 2) == [2]
    until(lambda: not host.alive)
    assert step(store, 3) == [3]


def test_everything_ends_with_the_jvm(fresh: Any) -> None:
    place, jvm = fresh
    step(FakeStore(), 1)
    engine = Process.of(engine_pid(place))
    jvm.kill()
    jvm.wait()
    until(lambda: not engine.alive)
    until(lambda: not place.path.exists())


def test_an_engine_ends_with_the_daemon_of_its_relay(place: ResidentDirectory) -> None:
    daemon = sleeper()
    with connection.connect(place, ORDER) as sock:
        hello = connection.ask(sock, Kind.HELLO, {"version": 0, "watch": (Process.of(daemon.pid),)})
    engine = Process.of(hello.head["pid"])
    daemon.kill()
    daemon.wait()
    until(lambda: not engine.alive)


def test_an_idle_engine_and_its_host_go(fresh: Any) -> None:
    place, _ = fresh
    with connection.connect(place, ORDER, idle_seconds=0.2) as sock:
        hello = connection.ask(sock, Kind.HELLO, {"version": 0, "base": "", "record": "", "watch": ()})
    engine = Process.of(hello.head["pid"])
    until(lambda: not engine.alive)
    until(lambda: not place.path.exists())


def busy_engine(started: Path) -> psutil.Process:
    """The engine that has begun the step from which it does not come back."""
    until(lambda: started.exists() and bool(started.read_text().strip()))
    return psutil.Process(int(started.read_text().split()[0]))


def test_a_run_that_is_over_starts_nothing(place: ResidentDirectory, tmp_path: Path) -> None:
    """A task that loses its engine asks for another one, but its query was stopped."""
    order, started, errors = EngineId("stopped", "plan", 0, 0), tmp_path / "started", list[Exception]()

    def task() -> None:
        try:
            step(FakeStore(), 7, build=fake_engine.Busy(7, str(started)), order=order)
        except EngineError as error:
            errors.append(error)

    working = threading.Thread(target=task)
    working.start()
    engine = busy_engine(started)
    host = engine.parent()
    connection.quit_query(place.root, "stopped")
    working.join()
    assert "the query was stopped" in str(errors[0])
    assert not place.query("stopped").exists()
    assert host is not None and engine not in host.children()
    assert len(started.read_text().split()) == 1


def test_an_engine_ends_when_nobody_waits_for_its_result(place: ResidentDirectory, tmp_path: Path) -> None:
    """The task was killed in the middle of a step, on a machine that learns nothing of a query's end."""
    started = tmp_path / "started"
    build = program(fake_engine.Busy(7, str(started)))
    with connection.connect(place, ORDER) as sock:
        head = {"program": build, "version": 0, "header": b"", "snapshot_size": 0}
        send(sock, Kind.BUILD, head)
        send(sock, Kind.STEP, {"version": 0, "query": "q"}, record(7).parts())
        engine = Process.of(busy_engine(started).pid)
        assert engine.alive
    until(lambda: not engine.alive)


def test_sockets_lie_in_a_private_directory(place: ResidentDirectory) -> None:
    step(FakeStore(), 1)
    for directory in (place.root, place.path, place.query("run")):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert len(str(place.socket(EngineId("run", new_plan(), 10, 1000)))) - len(str(place.root)) < 60
    place.root.chmod(0o755)
    with pytest.raises(EngineError, match="only you"):
        place.make()
    place.root.chmod(0o700)


def test_what_dead_jvms_left_is_swept(tmp_path: Path) -> None:
    place = ResidentDirectory(Process.of(os.getpid()), tmp_path / "r")
    place.root.mkdir(mode=0o700)
    stale, kept = place.root / "999999-1", place.root / "other"
    stale.mkdir()
    kept.mkdir()
    place.make()
    assert not stale.exists()
    assert kept.exists()
    assert place.path.exists()


def test_no_room_for_an_engine_is_told(place: ResidentDirectory) -> None:
    """Something is in the way of its socket; a full disk is told in the same way."""
    store, order = FakeStore(), EngineId("crowded", "plan", 0, 0)
    place.make()
    in_the_way = place.socket(order)
    in_the_way.mkdir(parents=True)
    with pytest.raises(DataError, match="no engine can be started in"):
        step(store, 1, order=order)
    store.rollback()
    in_the_way.rmdir()
    assert step(store, 1, order=order) == [1]
    connection.quit_query(place.root, "crowded")


def test_no_room_for_a_host_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ResidentDirectory(Process.of(os.getpid()), tmp_path / "r")
    use(place, monkeypatch)

    def full(self: Path, *args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DataError, match="No space left on device.*; make room there, or point TMPDIR"):
        step(FakeStore(), 1)


def test_an_engine_that_needs_too_much_memory_is_told(place: ResidentDirectory) -> None:
    store, greedy, limit = FakeStore(), program(fake_engine.Greedy(7)), 100 << 20
    Visit(StateLog(store, QUERY), greedy, ORDER, limit).step(record(1))
    store.commit()
    with pytest.raises(
        DataError, match="stage 1, partition 0 needs more memory than penstock.engine_memory = 100 MB"
    ):
        Visit(StateLog(store, QUERY), greedy, ORDER, limit).step(record(7))
    store.rollback()
    assert step(store, 2, 3) == [2, 3]
