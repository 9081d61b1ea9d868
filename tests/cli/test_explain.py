import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

SCRIPT = """\
CREATE STREAM C (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'c';
CREATE STREAM B (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'b';
-- a comment; with a semicolon
SELECT SUM(C.size) FROM C [RANGE 10 MINUTES], B [RANGE 10 MINUTES] WHERE C.pid = B.pid;
"""


@pytest.fixture
def explain(tmp_path):
    def call(text, *options):
        path = tmp_path / "query.cql"
        path.write_text(text)
        return CliRunner().invoke(app, ["explain", str(path), *options])

    return call


def test_draws_the_plan_of_each_query(explain, tmp_path):
    result = explain(SCRIPT + "SELECT pid FROM C [NOW]", "--svg", str(tmp_path / "plan.svg"))
    assert result.output.split() == [str(tmp_path / f"plan-{n}.svg") for n in (1, 2)]
    assert "C.pid = B.pid" in (tmp_path / "plan-1.svg").read_text()
    assert "cannot write" in explain(SCRIPT, "--svg", "/nowhere/plan.svg").output


def test_shows_the_plan_without_spark(explain):
    result = explain(SCRIPT)
    assert result.exit_code == 0, result.output
    assert "join C.pid = B.pid" in result.output
    assert "2 partitions" in result.output


def test_shows_every_query(explain):
    result = explain(SCRIPT + "SELECT ISTREAM(pid) FROM B [NOW]")
    assert result.output.count("result ") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SCRIPT.replace("C.pid", "C.pd"), "line 4, column 76: 'C' has no column 'pd'; did you mean 'pid'?"),
        (SCRIPT + SCRIPT, "'C' already exists"),
        ("DROP STREAM X", "no stream 'X'"),
        ("DROP STREAM IF EXISTS X", "has no query"),
        ("", "has no query"),
        ("SELECT 'abc", "line 1"),
    ],
)
def test_a_mistake_is_one_line_on_standard_error(explain, text, message):
    result = explain(text)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_names_are_dropped_whatever_their_case(explain):
    assert explain(f"{SCRIPT} DROP STREAM c; {SCRIPT.splitlines()[0]}").exit_code == 0


def test_shows_the_cost_of_each_direction_and_of_the_runner_up(explain):
    text = SCRIPT.replace("B [RANGE 10 MINUTES]", "B [ROWS 20]").replace(
        "C.pid = B.pid", "C.size < B.size + 5"
    )
    for script, methods in ((SCRIPT, ("hash", "hash")), (text, ("b+tree", "none"))):
        costs = explain(script).output.split("costs ")[1].splitlines()[1:]
        assert costs[0].startswith(f"  into C: {methods[0]}, ")
        assert " ns with 1,000 rows (assumed); next " in costs[0]
        assert costs[1].startswith(f"  into B: {methods[1]}, ")
    assert " with 20 rows; next " in costs[1]


@pytest.mark.parametrize("time", ["ts TIMESTAMP", "ts BIGINT"])
def test_lengths_of_time_are_in_units_whatever_a_tick_is(explain, time):
    """Operators count ticks, which are microseconds of TIMESTAMP time."""
    text = SCRIPT.replace("ts TIMESTAMP", time).partition("-- a comment")[0]
    kept = "CLUSTERED BY (pid) WITHIN 3 SECONDS FOREIGN KEY (pid) REFERENCES C (pid) WITHIN 5 MINUTES"
    text = text.replace("FROM PARQUET 'b'", f"{kept} FROM PARQUET 'b'")
    output = explain(
        f"{text} SELECT C.pid FROM C, B WINDOW (C, B) 90 SECONDS WHERE C.pid = B.pid;"
        "SELECT RSTREAM(pid) EVERY 2 MINUTES FROM C [RANGE 10 SECONDS];"
        "SELECT C.pid FROM C [RANGE 1 HOUR], B [RANGE 1 DAY] WHERE C.pid = B.pid;"
    ).output
    assert "w-join WINDOW 90 SECONDS, C.pid = B.pid" in output
    assert "[rows are kept for C 90 SECONDS, B 90 SECONDS]" in output
    assert "r-stream every 2 MINUTES" in output
    assert "rows of C come at most 5 MINUTES after those of B that they join" in output
    assert "B is clustered by pid within 3 SECONDS" in output
    assert "000000" not in output and " ticks" not in output


def test_of_several_queries_each_plan_has_its_name(explain):
    several = SCRIPT + (
        "CREATE SINK out TO CONSOLE; INSERT INTO out SELECT pid FROM C [NOW];"
        "CREATE PIPELINE p (C); REGISTER QUERY counts AS SELECT COUNT(*) AS n FROM C [RANGE 1 MINUTE]"
    )
    shown = explain(several).stdout
    assert [line for line in shown.splitlines() if line.startswith("query ")] == [
        "query    1", "query    into out", "query    counts",
    ]  # fmt: skip
    assert explain(SCRIPT).stdout.startswith("result ")
