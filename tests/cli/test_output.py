"""What a command does when nobody reads its output any more, or a disk is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import main, output, run
from penstock.cli.run import Running
from penstock.cli.session import Stop
from penstock.errors import PenstockError

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
PROGRAM = "CREATE STREAM S (v INT, t INT) TIMESTAMP BY t FROM CSV 's'; SELECT v FROM S [NOW];\n"


class Jvm:
    """A JVM whose standard output fails when told to."""

    def __init__(self) -> None:
        self.failed = False
        out = SimpleNamespace(checkError=lambda: self.failed)
        self.java = SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(out=out)))


class Query:
    """A query that runs until it is stopped."""

    name = "q"
    runId = "1"

    def __init__(self) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": True, "isDataAvailable": True}
        self.recentProgress: list[dict[str, Any]] = []

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive = False


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(queries: list[Query], *_: object) -> bool:
        for query in queries:
            query.stop()
        return True

    monkeypatch.setattr("penstock.spark.driver.query.stop_after_batch", stop)


def waited(jvm: Jvm, query: Query) -> None:
    """What ``penstock run`` does with a query, with the error that ends it."""
    with main._one_line_errors():
        printed = output.Printed(jvm)
        try:
            Running([query], [], printed).wait(Stop())  # type: ignore[list-item]
        finally:
            printed.end()


@pytest.mark.usefixtures("stops")
def test_what_the_jvm_cannot_print_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for gone, code, said in ((True, 141, ""), (False, 2, "penstock: standard output cannot be written: ")):
        jvm, query = Jvm(), Query()
        jvm.failed = True
        monkeypatch.setattr(output, "_reader_is_gone", lambda gone=gone: gone)
        monkeypatch.setattr(output, "_write_nowhere", lambda: None)
        with pytest.raises(typer.Exit) as raised:
            waited(jvm, query)
        assert raised.value.exit_code == code and not query.isActive
        told = capsys.readouterr().err
        assert told.startswith(said) and told.count("\n") == bool(said)


@pytest.mark.usefixtures("stops")
def test_what_is_lost_in_the_last_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm, query = Jvm(), Query()
    query.isActive = False
    monkeypatch.setattr(output, "POLL_S", 60)
    monkeypatch.setattr(output, "_reader_is_gone", lambda: False)
    printed = output.Printed(jvm)
    Running([query], [], printed).wait(Stop())  # type: ignore[list-item]
    jvm.failed = True
    with pytest.raises(PenstockError, match="standard output cannot be written: .*; make room"):
        printed.end()


def test_whether_a_reader_is_gone() -> None:
    code = (
        "import sys; from penstock.cli.output import _reader_is_gone; "
        "sys.stdin.read(); sys.exit(_reader_is_gone())"
    )
    for reads in (True, False):
        asked = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert asked.stdin and asked.stdout
        if not reads:
            asked.stdout.close()
        asked.stdin.close()
        assert asked.wait(60) == (not reads)
        asked.stdout.close()


@pytest.mark.slow
def test_commands_end_when_their_output_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "f.cql"
    file.write_text(PROGRAM)
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full, os.fdopen(writer, "w") as gone:
        for out, code, said in ((full, 2, "penstock: standard output cannot be written: "), (gone, 141, "")):
            ended = subprocess.run(
                [*PENSTOCK, "explain", str(file)], stdout=out, stderr=subprocess.PIPE, text=True
            )
            assert ended.returncode == code, ended.stderr
            assert ended.stderr.startswith(said) and ended.stderr.count("\n") == bool(said)


def test_the_shell_leaves_a_reader_that_has_gone_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would end the process at once, and leave the query of a SELECT behind."""

    class Gone:
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    console = output.Terminal(file=Gone())  # type: ignore[arg-type]
    with pytest.raises(BrokenPipeError):
        console.print("x")

    @main.app.command("printing", hidden=True)
    def printing() -> None:
        with main._one_line_errors():
            console.print("x")

    monkeypatch.setattr(output, "_write_nowhere", lambda: None)
    try:
        assert CliRunner().invoke(main.app, ["printing"]).exit_code == 141
    finally:
        main.app.registered_commands.pop()


@pytest.mark.usefixtures("stops")
def test_the_log_has_a_line_for_a_batch_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    monkeypatch.setattr(run, "PROGRESS_S", 0.0)
    monkeypatch.setattr(run, "POLL_S", 0.01)
    query, sink = Query(), Query()
    pipeline = SimpleNamespace(
        name="p", query=query, sink_queries=lambda: [("counts", sink)], awaitTermination=lambda: None
    )
    running = Running([], [pipeline], output.Printed(Jvm()))  # type: ignore[list-item]
    running._log_progress()
    assert "q: a batch is under way for 0 s" in caplog.text
    assert "p.counts, its sink: a batch is under way for 0 s" in caplog.text
    batch = {"batchId": 0, "numInputRows": 5, "durationMs": {"triggerExecution": 1000}}
    caplog.clear()
    query.recentProgress, sink.status = [batch], {"isTriggerActive": False, "isDataAvailable": False}
    running._log_progress()
    assert [r.getMessage() for r in caplog.records] == [f"q: {run.progress([batch])}"]
