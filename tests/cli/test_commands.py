"""The commands with Spark: those that are about a process in one of their own, the others in this one."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner
from waiting import PATIENCE, until

import penstock as library
from penstock.cli.main import app
from penstock.workloads.files import write_slices
from penstock.workloads.packets import PacketWorkload

pytestmark = pytest.mark.spark

PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]
STREAMS = """\
CREATE STREAM C (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '{root}/C';
CREATE STREAM B (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '{root}/B';
"""
JOIN = """\
SELECT ISTREAM(C.pid, C.size, C.ts AS at_c, B.ts AS at_b)
FROM C [RANGE 1 SECOND], B [RANGE 1 SECOND] WHERE C.pid = B.pid
"""
PROGRAM = f"""{STREAMS}
CREATE SINK joined TO PARQUET '{{root}}/joined' TRIGGER EVERY 100 MILLISECONDS;
CREATE SINK large TO JSON '{{root}}/large';
INSERT INTO joined {JOIN};
INSERT INTO large SELECT ISTREAM(pid, size) FROM C [NOW] WHERE size > 500
"""


def penstock(*args, **options):
    return subprocess.run(
        [*PENSTOCK, *args],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        stdin=subprocess.DEVNULL,
        **options,
    )


def left_of(started):
    """The processes of a list that are still there."""
    return [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def started_by(pid):
    """A process's descendants, and the engines of its JVM, which live apart from it."""
    family = psutil.Process(pid).children(recursive=True)
    jvms = [str(p.pid) for p in family if p.name() == "java"]
    engines = [
        p
        for p in psutil.process_iter()
        if "penstock.spark.resident.host" in (line := _command(p)) and line[-4] in jvms
    ]
    assert jvms and engines
    return family + engines


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def here(spark, monkeypatch):
    """Runs a command in this process and on the tests' Spark, which it may not stop."""
    connect, sessions = library.connect, []

    def connected(*args):
        sessions.append(connect(*args))
        return sessions[-1]

    monkeypatch.setattr(library, "connect", connected)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    yield lambda *args: CliRunner().invoke(app, list(args))
    for session in sessions:
        session.close()


@pytest.fixture
def program(tmp_path):
    """Writes a program over two links, and knows which packets they share."""
    write_slices(tmp_path, PacketWorkload(rate=200).slices(3))

    def write(text):
        path = tmp_path / "program.cql"
        path.write_text(text.format(root=tmp_path))
        return str(path)

    c, b = (pq.read_table(tmp_path / link)["pid"].to_pylist() for link in "CB")
    write.joined = sorted(set(c) & set(b))
    return write


def test_run_writes_parquet(here, program, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    options = ["--once", "--sink", "parquet", "--out", str(out), "--log", str(log)]
    result = here("run", program(STREAMS + JOIN), *options)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert sorted(pq.read_table(out)["pid"].to_pylist()) == program.joined
    assert "query-1: batch 0, " in log.read_text() and "query-1: ended" in log.read_text()


@pytest.mark.apart
@pytest.mark.long
def test_run_ends_when_nobody_reads_what_it_prints(tmp_path):
    """What ``penstock run F.cql | head -1`` does: the console sink writes in the JVM, which would go on."""
    path = tmp_path / "endless.cql"
    path.write_text(
        "CREATE STREAM R (value BIGINT, timestamp TIMESTAMP) TIMESTAMP BY timestamp FROM RATE 100 ROWS PER "
        "SECOND; SELECT value FROM R [NOW]"
    )
    log = tmp_path / "log"
    command = [*PENSTOCK, "run", str(path), "--log", str(log)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline()
    run.stdout.close()
    assert run.wait(2 * PATIENCE) == 141, log.read_text()
    with run.stderr as told:
        assert told.read() == "" and "query-1: ended" in log.read_text()


@pytest.mark.apart
def test_run_is_a_program_that_sigterm_ends_after_its_batches(program, tmp_path):
    log, state = tmp_path / "log", tmp_path / "state"
    run = subprocess.Popen(
        [*PENSTOCK, "run", program(PROGRAM), "--checkpoint", str(state), "--log", str(log)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    commits = [state / sink / "commits" / "0" for sink in ("joined", "large")]
    until(lambda: run.poll() is not None or all(c.exists() for c in commits))
    assert run.poll() is None, run.communicate()
    started = started_by(run.pid)
    os.killpg(run.pid, signal.SIGTERM)  # as `timeout` and service managers do
    assert run.communicate(timeout=PATIENCE) == ("", "") and run.returncode == 0
    until(lambda: not left_of(started))
    told = log.read_text()
    for line in (
        "joined: started, run ",
        "stopping after the batches",
        "large: batch 0, ",
        "joined: ended\n",
    ):
        assert line in told
    assert "ERROR" not in told and "may be interrupted" not in told
    assert sorted(pq.read_table(tmp_path / "joined")["pid"].to_pylist()) == program.joined
    rows = [
        json.loads(row) for f in (tmp_path / "large").glob("*.json") for row in f.read_text().splitlines()
    ]
    assert rows and all(row["size"] > 500 for row in rows)


def test_run_shows_an_error_in_the_data_in_one_line(here, tmp_path):
    path = tmp_path / "wrong.cql"
    path.write_text(
        f"CREATE STREAM S (a INT, t INT) TIMESTAMP BY t FROM JSON '{tmp_path / 'data'}'; "
        "SELECT * FROM S [ROWS 1]"
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.json").write_text('{"a": 1, "t": 1}\n{"a": 1}\n')
    result = here("run", str(path), "--trigger", "available-now")
    assert result.exit_code == 2
    assert "rows.json, line 2: column 't' is NULL" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("penstock: ") and "Traceback" not in result.stderr


def test_demo_ends_by_itself_with_a_summary(here):
    result = here("demo", "--seconds", "3", "--rate", "500")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "SELECT SUM(C.size)" in result.stdout
    assert "rows in" in result.stdout.splitlines()[-1]
    assert "O: " in result.stdout


@pytest.mark.long
def test_demo_ends_at_an_interrupt_and_leaves_nothing_behind():
    demo = subprocess.Popen(
        [*PENSTOCK, "demo", "--seconds", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    for line in demo.stdout:
        if "total" in line:
            break
    started = started_by(demo.pid)
    os.killpg(demo.pid, signal.SIGINT)
    out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (130, "")
    assert "rows in" in out.splitlines()[-1]
    until(lambda: not left_of(started))


@pytest.mark.long
def test_bench_join_compares_systems_with_equal_results():
    options = ["--ways", "3", "--rows", "6000", "--batches", "1", "--warmup", "1"]
    result = penstock("bench", "join", *options, "--systems", "spark-memory,penstock", "--json")
    assert result.returncode == 0, result.stderr
    join = json.loads(result.stdout)["joins"]["3-way"]
    assert join["ratios"].keys() == {"spark-memory / penstock"}
    assert join["systems"]["penstock"]["results"] == join["systems"]["spark-memory"]["results"] > 0


@pytest.mark.long
def test_bench_start_has_the_first_batch_of_each_query():
    result = penstock("bench", "start", "--sessions", "1", "--json")
    assert result.returncode == 0, result.stderr
    (session,) = json.loads(result.stdout)
    assert session.keys() == {"session", "first", "second", "third"}
    assert all(results >= batch > 0 for results, batch, _ in list(session.values())[1:])


@pytest.mark.long
def test_bench_rebuild_is_bounded_by_the_window(here):
    result = here("bench", "rebuild", "--quick", "--rows", "500")
    assert result.exit_code == 0, result.output
    short, long = (line.split("|") for line in result.stdout.splitlines()[-2:])
    batches, replayed = 2, 3
    assert int(long[batches]) > int(short[batches])
    assert int(long[replayed]) <= int(short[replayed]) + 1
