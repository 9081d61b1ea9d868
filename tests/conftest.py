"""Fixtures shared by all tests."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from longer import LONG

settings.register_profile(
    "penstock",
    max_examples=int(os.environ.get("PENSTOCK_EXAMPLES", "30")),
    deadline=None,
    derandomize=True,  # the same examples in every run: new ones are for make fuzz
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
status = 0
"""The exit code of this run of pytest."""
settings.register_profile("fast", settings.get_profile("penstock"), max_examples=15)


def pytest_configure(config: pytest.Config) -> None:
    """How many random cases run: some, or few in a run that leaves out what is slow.

    ``PENSTOCK_EXAMPLES`` and ``PENSTOCK_CASES`` say more.
    """
    fast = _is_fast(config)
    settings.load_profile("fast" if fast else "penstock")
    os.environ.setdefault("PENSTOCK_CASES", "30" if fast else "600" if LONG else "120")
    # No JVM of a test lives long enough to gain by the better of its compilers.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ["PENSTOCK_WEIGHTS"] = os.devnull + "/none"  # what this machine was calibrated to is not tested


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only ``make long`` or ``make test`` runs, unless a test is named."""
    if LONG or any("::" in argument for argument in config.args):
        return
    values: dict[Any, dict[str, int]] = {}
    marks = ("share", "some") if _is_fast(config) else ("share",)
    runs = [_runs(item, values, marks) for item in items]
    config.hook.pytest_deselected(items=[item for item, kept in zip(items, runs, strict=True) if not kept])
    items[:] = [item for item, kept in zip(items, runs, strict=True) if kept]


def _is_fast(config: pytest.Config) -> bool:
    return "not slow" in config.option.markexpr


def _runs(item: pytest.Item, values: dict[Any, dict[str, int]], marks: Sequence[str]) -> bool:
    """Of a test marked ``share(n)`` one case in n runs; which values of one parameter depends on the others.

    ``values``: the numbers of the values of each parameter of such tests; ``marks``: which marks count.
    """
    shares = [share.args[0] for share in map(item.get_closest_marker, marks) if share is not None]
    if not shares or not isinstance(item, pytest.Function):
        return item.get_closest_marker("long") is None
    total = 0
    for name, value in item.callspec.params.items():
        known = values.setdefault((item.function, name), {})
        total += known.setdefault(repr(value), len(known))
    return total % max(shares) == 0


def pytest_itemcollected(item: pytest.Item) -> None:
    """What uses the tests' Spark needs a JVM: in the other half each process would start one."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


def pytest_collection_finish() -> None:
    """Collect garbage less often, and never what is there before the first test."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what ``tests/suite.py`` says."""
    names = filter(None, os.environ.get("PENSTOCK_LEFT_OUT", "").split(os.pathsep))
    return True if any(collection_path == Path(__file__).parent.parent / name for name in names) else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell ``tests/suite.py`` how many tests passed, failed ..."""
    if path := os.environ.get("PENSTOCK_COUNTS"):
        kinds = ("passed", "skipped", "failed", "error", "xfailed", "xpassed")
        counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in kinds}
        Path(path).write_text(json.dumps(counts))


def pytest_sessionfinish(exitstatus: int) -> None:
    global status
    status = int(exitstatus)


@atexit.register
def end() -> None:
    """End without taking the interpreter down if DuckDB is loaded.

    Its bindings (nanobind) print what a thread or a cache still holds as leaked, in 60 lines a process.
    What is registered first runs last: threads have ended and all that tests registered has run.
    """
    if "_duckdb" in sys.modules:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--complete", action="store_true", help="write the goldens of tests/fixtures anew")


@pytest.fixture
def complete(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are written anew."""
    return bool(request.config.getoption("--complete"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of a test run: local, two threads, as ``penstock.connect()`` makes it.

    Its workers, and so the resident engines, can import the fakes of ``tests/spark``.
    """
    from penstock.spark.driver.local_spark import new_local_spark

    fakes = str(Path(__file__).parent / "spark")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), fakes]))
    session = new_local_spark(2)
    # By default Spark deletes old files of checkpoints once a minute.
    session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "5s")
    yield session
    session.stop()


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """A session with two partitions, whose queries and engines end with the test."""
    from waiting import until

    from penstock.spark.driver.session import Session

    session = Session(spark, 2)
    yield session
    for query in spark.streams.active:
        query.stop()
    session.close()
    until(lambda: not session.metrics())


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """A stream of files."""
    from stage_on_spark import Files

    return Files(tmp_path / "S")
