"""Commands reach every partition of every stage once and in sequence, whatever is killed or restarted."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_engine
import pytest
from longer import longer
from stage_on_spark import Files
from test_pipeline import Run, pids, plan
from waiting import until

from penstock.engine.operators.source import Source
from penstock.engine.stage import RESULT, Stage, StageInput
from penstock.errors import CatalogError, EngineError
from penstock.plan.physical import ExchangeInput, PlannedStage
from penstock.spark.driver import commands
from penstock.spark.driver.checkpoint import Directory
from penstock.spark.driver.dataframe import dataframe
from penstock.spark.driver.session import Session

pytestmark = pytest.mark.spark


def listening(spark: Any, files: Files, stages: int = 1) -> Any:
    """A query that shows with every row the digits of the commands that were applied before it."""
    found = plan(spark, files)
    if stages == 2:
        stage = Stage({RESULT: Source("E", fake_engine.ROW)}, (StageInput("E", fake_engine.ROW, "exchange"),))
        found = replace(found, stages=(*found.stages, PlannedStage(stage, 2, (ExchangeInput("E", ("k",)),))))
    return dataframe(found, build=fake_engine.listening)


def send(run: Run, *digits: int) -> None:
    for digit in digits:
        commands.append(run.query, "memory", {"bytes": digit})


def seen(run: Run, files: Files) -> set[int]:
    """What the next rows, some for each partition, are shown with."""
    before = len(run.rows)
    files.add([(i, files.count) for i in range(20)])
    rows = run.all()[before:]
    assert len(rows) == 20
    return {r.total for r in rows}


@pytest.mark.parametrize("stages", [2, *longer(1)])
def test_every_partition_applies_them_in_sequence(
    spark: Any,
    session: Session,
    files: Files,
    tmp_path: Path,
    stages: int,
) -> None:
    run = Run(listening(spark, files, stages), tmp_path / "c")
    assert seen(run, files) == {0}
    send(run, 1, 2)
    assert seen(run, files) == {12}
    send(run, 3)
    run.all()  # a batch of commands alone
    assert seen(run, files) == {123}
    assert seen(run, files) == {123}


@pytest.mark.long  # as without Spark (test_commands_of_engines.py)
def test_a_killed_engine_applies_them_again(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    run = Run(listening(spark, files), tmp_path / "c")
    for digit, expected in [(1, 1), (2, 12), (3, 123)]:
        send(run, digit)
        assert seen(run, files) == {expected}
        for pid in pids(session):
            os.kill(pid, signal.SIGKILL)
    assert seen(run, files) == {123}


def test_a_restart_continues_the_sequence(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    run = Run(listening(spark, files), tmp_path / "c")
    send(run, 1, 2)
    assert seen(run, files) == {12}
    send(run, 3)  # may be taken by a batch of this run or of the next
    run.query.stop()
    again = Run(listening(spark, files), tmp_path / "c")
    assert seen(again, files) == {123}
    assert commands.append(again.query, "memory", {"bytes": 4}).sequence == 4
    assert seen(again, files) == {1234}
    kept = commands.stored(Directory(spark, str(tmp_path / "c")))
    assert [(c.sequence, c.payload["bytes"]) for c in kept] == [(1, 1), (2, 2), (3, 3), (4, 4)]


@pytest.mark.long  # as without Spark (test_commands_of_engines.py)
def test_a_failed_batch_takes_the_same_again(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise RuntimeError("the sink is full")

    run = Run(listening(spark, files), tmp_path / "c", fail)
    assert seen(run, files) == {0}
    send(run, 1)
    until(lambda: not run.query.isActive)
    again = Run(listening(spark, files), tmp_path / "c")
    send(again, 2)
    assert seen(again, files) == {12}


def test_each_query_has_its_own(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    df = listening(spark, files)
    one, other = Run(df, tmp_path / "c1"), Run(df, tmp_path / "c2")
    send(one, 1)
    files.add([(i, 0) for i in range(20)])
    assert {r.total for r in one.all()} == {1}
    assert {r.total for r in other.all()} == {0}


def test_what_takes_no_commands(spark: Any, session: Session, files: Files, tmp_path: Path) -> None:
    df = listening(spark, files)
    run = Run(df, tmp_path / "c")
    with pytest.raises(EngineError, match="of the kind 'sing'"):
        commands.append(run.query, "sing", {})
    run.query.stop()
    with pytest.raises(CatalogError, match="takes no commands"):
        send(run, 1)
    derived = Run(df.filter("true"), tmp_path / "d")
    assert seen(derived, files) == {0}
    with pytest.raises(CatalogError, match="takes no commands"):
        send(derived, 1)
