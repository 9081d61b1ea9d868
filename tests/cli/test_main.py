import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock import cql
from penstock.catalog import SinkDef
from penstock.cli.main import app
from penstock.cli.run import Program
from penstock.cli.script import bound_queries
from penstock.cli.serve import statements_of as served
from penstock.cli.session import user_error
from penstock.errors import CQLError, PenstockError


def invoke(*args):
    return CliRunner().invoke(app, list(args))


def test_version():
    assert invoke("--version").output == f"penstock {version('penstock')}\n"


def test_a_missing_file_is_one_line():
    result = invoke("explain", "no/such.cql")
    assert result.exit_code == 2
    assert result.stderr == "penstock: cannot read no/such.cql: No such file or directory\n"


def test_run_wants_a_directory_for_parquet(tmp_path):
    path = tmp_path / "q.cql"
    path.write_text("SELECT 1")
    result = invoke("run", str(path), "--sink", "parquet")
    assert result.exit_code == 2 and "--out" in result.stderr


def test_serve_names_queries_that_it_does_not_start(tmp_path, capsys):
    path = tmp_path / "q.cql"
    definition = "CREATE STREAM S (a INT, t BIGINT) TIMESTAMP BY t FROM CSV 'S';\n"
    path.write_text(f"{definition}SELECT a FROM S;\nCREATE VIEW v AS SELECT a FROM S")
    kinds = [type(statement).__name__ for statement in served(path)]
    assert kinds == ["CreateInput", "CreateView"]
    assert f"{path}, line 2: this SELECT is not started; write INSERT INTO" in capsys.readouterr().err
    path.write_text(f"{definition}SELECT b FROM S")
    result = invoke("serve", str(path))  # before Spark starts
    assert result.exit_code == 2 and "line 2, column 8: unknown column 'b'" in result.stderr


def test_mistakes_show_before_spark_starts(tmp_path):
    path = tmp_path / "q.cql"
    path.write_text("SELECT * FROM Nowhere")
    result = invoke("run", str(path))
    assert result.exit_code == 2 and "Nowhere" in result.stderr


STREAM = "CREATE STREAM S TIMESTAMP BY timestamp FROM RATE 5 ROWS PER SECOND;"
INSERT = "INSERT INTO out SELECT value FROM S [NOW];"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT value FROM Nowhere", "Nowhere"),
        (INSERT, "unknown sink 'out'"),
        ("CREATE SINK out TO CONSOLE", "has no query: add a SELECT, INSERT INTO or REGISTER QUERY"),
        (f"CREATE SINK out TO CONSOLE; {2 * INSERT}", "2 queries write to sink 'out'"),
    ],
)
def test_mistakes_of_a_program_show_before_spark_starts(tmp_path, text, message):
    path = tmp_path / "q.cql"
    path.write_text(f"{STREAM}{text}")
    result = invoke("run", str(path))
    assert result.exit_code == 2 and message in result.stderr


def test_a_program_may_only_resume_a_pipeline(tmp_path):
    path = tmp_path / "q.cql"
    path.write_text(f"{STREAM}CREATE PIPELINE p (S) CHECKPOINT '{tmp_path}'")
    Program([path]).check()


@pytest.mark.parametrize("text", ["often", "second", "-1 seconds", ""])
def test_unknown_trigger(tmp_path, text):
    path = tmp_path / "q.cql"
    path.write_text(f"{STREAM}SELECT value FROM S [NOW]")
    result = invoke("run", str(path), f"--trigger={text}")
    assert (
        result.exit_code == 2 and "write available-now, once, or a period such as '1 second'" in result.stderr
    )


def test_a_log_that_cannot_be_written(tmp_path):
    path = tmp_path / "q.cql"
    path.write_text(f"{STREAM}SELECT value FROM S [NOW]")
    result = invoke("run", str(path), "--log", str(path / "log"))
    assert result.exit_code == 2 and f"penstock: cannot write {path / 'log'}: Not a" in result.stderr


def test_the_pipeline_of_the_docs_is_a_program(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "pipelines.md"
    (text,) = re.findall(r"```cql\n(.*?)```", page.read_text(), re.DOTALL)
    queries = bound_queries(text)
    assert [q.sink and q.sink.name for q in queries] == [None, "alerts"]
    path = tmp_path / "q.cql"
    path.write_text(text)
    made = [s for s in Program([path], once=True).statements() if isinstance(s, cql.CreatePipeline)]
    assert [(p.name, p.streams, p.trigger) for p in made] == [("traffic", ("C",), None)]
    with pytest.raises(PenstockError, match="pipeline 'p' reads 'X', which is not a stream or relation"):
        bound_queries("CREATE PIPELINE p (X)")


@pytest.mark.parametrize(
    ("clause", "told"),
    [
        ("SPLIT C BY (link)", "column 35: 'C' has no column 'link'; it has pid, ts"),
        ("SPLIT c BY (pid) SPLIT C BY (pidd)", "column 52: 'C' has no column 'pidd'; did you mean 'pid'?"),
        ("SPLIT B BY (pid)", "column 29: 'B' is not a stream of the pipeline; it reads C"),
        ("COLUMNS C (link)", "column 34: 'C' has no column 'link'; it has pid, ts"),
    ],
)
def test_the_columns_of_a_pipeline_are_checked_without_spark(clause, told):
    stream = "CREATE STREAM C (pid INT, ts INT) TIMESTAMP BY ts FROM CSV 'c';\n"
    with pytest.raises(CQLError) as caught:
        bound_queries(f"{stream}CREATE PIPELINE p (C) {clause}")
    assert str(caught.value) == f"line 2, {told}"
    with pytest.raises(CQLError, match="write CREATE STREAM before the query, or give the file"):
        bound_queries("SELECT pid FROM C")


def test_the_statements_of_a_program(tmp_path):
    path = tmp_path / "q.cql"
    path.write_text(
        f"{STREAM} SET penstock.trigger = 1 minute; CREATE SINK out TO CONSOLE TRIGGER EVERY 1 SECOND;"
        f"{INSERT} SELECT value FROM S [NOW]; SELECT value FROM S [NOW]"
    )
    program = Program([path], out=tmp_path, sink="parquet")
    own = [s.sink for s in program.statements() if isinstance(s, cql.CreateSink)]
    assert own == [
        SinkDef("out", "console", trigger="1000 milliseconds"),
        SinkDef("query-1", "parquet", str(tmp_path / "query-1")),
        SinkDef("query-2", "parquet", str(tmp_path / "query-2")),
    ]
    assert sum(isinstance(s, cql.Insert) for s in program.statements()) == 3
    once = list(Program([path], once=True).statements())
    assert Program([path], once=True).settings().trigger == "available-now"
    assert Program([path], once=True).settings().at_end is None
    assert Program([path], once=True, complete=True).settings().at_end == "0"
    assert not any(isinstance(s, cql.Set) or (isinstance(s, cql.CreateSink) and s.sink.trigger) for s in once)


def test_statements_keep_their_places():
    first, second = cql.split("DROP TABLE a; -- one; two\n\n  DROP TABLE b;\n")
    assert first == "DROP TABLE a"
    assert second.index("DROP") - second.rindex("\n") == 3 and second.count("\n") == 2


@pytest.mark.slow
def test_spark_that_does_not_start_says_why(tmp_path, monkeypatch):
    path = tmp_path / "q.cql"
    path.write_text(
        "CREATE STREAM S TIMESTAMP BY timestamp FROM RATE 5 ROWS PER SECOND; SELECT * FROM S [NOW]"
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "run", path], capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stderr.startswith("penstock: Spark did not start: ") and result.stderr.count("\n") == 1
    assert f"{tmp_path}/bin/java" in result.stderr


def test_an_error_of_a_worker_is_its_sentence():
    text = "[STREAM_FAILED] ...\n  File x\npenstock.errors.DataError: stream C: ts is null\n\tat java"
    assert str(user_error(RuntimeError(text))) == "stream C: ts is null"
    other = user_error(RuntimeError("no space\nmore"))
    assert str(other) == "the query failed: no space"
