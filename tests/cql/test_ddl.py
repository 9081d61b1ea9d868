"""CREATE, DROP and SET, and what several statements in one text are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock
from penstock import cql
from penstock.catalog import Input, InputOptions, SinkDef, TableDef, ViewDef
from penstock.cql import (
    CreateInput,
    CreatePipeline,
    CreateSink,
    CreateTable,
    CreateView,
    Drop,
    DropQuery,
    Explain,
    Insert,
    RegisterQuery,
    SelectStatement,
    Set,
    Show,
    SourceSpec,
    SwitchPipeline,
)
from penstock.cql.names.context import Catalog
from penstock.errors import CQLError
from penstock.schema import TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_TIME, TimeDomain


def test_stream_over_timestamps() -> None:
    (stream,) = cql.parse(
        """CREATE STREAM B (pid BIGINT, size INT, ts TIMESTAMP)
           TIMESTAMP BY ts SKEW 2 SECONDS IDLE AFTER 10 SECONDS
           FROM PARQUET 'dir' OPTIONS (maxFilesPerTrigger '1', header true)"""
    )
    assert stream == CreateInput(
        kind="stream",
        name="B",
        schema=pa.schema([("pid", pa.int64()), ("size", pa.int32()), ("ts", TIMESTAMP)]),
        options=InputOptions(TIMESTAMP_TIME, "ts", skew=2_000_000, idle_after=10_000_000),
        source=SourceSpec("parquet", "dir", {"maxFilesPerTrigger": "1", "header": "true"}),
    )


@pytest.mark.parametrize(
    ("unit", "time", "skew"),
    [
        ("", TimeDomain("integer", "seconds"), 3),
        ("IN SECONDS", TimeDomain("integer", "seconds"), 3),
        ("in milliseconds", TimeDomain("integer", "milliseconds"), 3_000),
        ("IN MICROSECONDS", TimeDomain("integer", "microseconds"), 3_000_000),
    ],
)
def test_stream_over_integers(unit: str, time: TimeDomain, skew: int) -> None:
    (stream,) = cql.parse(f"CREATE STREAM S (T INT) TIMESTAMP BY t {unit} SKEW 3 SECONDS FROM JSON 'd'")
    assert isinstance(stream, CreateInput)
    options = stream.options
    assert (options.timestamp, options.time, options.skew) == ("T", time, skew)


def test_traffic() -> None:
    (stream,) = cql.parse(
        """CREATE STREAM S (k BIGINT, u STRING, t INT) TIMESTAMP BY t SKEW 5 RATE 200 ROWS PER SECOND
           HEAVY k IN (-5, 7) PARTITIONED BY (U, k) HEAVY u IN ('it''s') HEAVY k IN (9) FROM JSON 'd'"""
    )
    assert isinstance(stream, CreateInput)
    options = stream.options
    assert (options.rate, options.partitioned_by) == (200.0, ("u", "k"))
    assert options.heavy == (("k", (-5, 7, 9)), ("u", ("it's",)))
    assert stream.definition().options == options
    assert (options.skew, stream.source) == (5, SourceSpec("json", "d"))


def test_bare_skew_is_ticks() -> None:
    (stream,) = cql.parse("CREATE STREAM S (t INT) TIMESTAMP BY t IN MILLISECONDS SKEW 7 FROM CSV 'd'")
    assert isinstance(stream, CreateInput)
    assert stream.options.skew == 7


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("RATE", {}),
        ("RATE 100 ROWS PER SECOND", {"rowsPerSecond": "100"}),
        ("RATE 5 ROWS PER SECOND OPTIONS (numPartitions '2')", {"rowsPerSecond": "5", "numPartitions": "2"}),
    ],
)
def test_rate(source: str, options: dict[str, str]) -> None:
    (stream,) = cql.parse(f"CREATE STREAM r TIMESTAMP BY timestamp FROM {source}")
    assert isinstance(stream, CreateInput)
    assert stream.schema.names == ["timestamp", "value"]
    assert stream.source == SourceSpec("rate", None, options)


def test_kafka() -> None:
    (stream,) = cql.parse(
        """CREATE STREAM S (a INT, t BIGINT) TIMESTAMP BY t SKEW 5 ON BAD ROWS COUNT
           FROM KAFKA 'topic' OPTIONS (kafka.bootstrap.servers 'h:9092', maxOffsetsPerTrigger 10)"""
    )
    assert isinstance(stream, CreateInput)
    options = {"kafka.bootstrap.servers": "h:9092", "maxOffsetsPerTrigger": "10"}
    assert stream.source == SourceSpec("kafka", "topic", options)
    assert (stream.options.skew, stream.options.bad_rows) == (5, "count")


def test_table() -> None:
    (table,) = cql.parse("CREATE TABLE T (a INT, name STRING) FROM CSV 'path'")
    assert table == CreateTable(
        "T", pa.schema([("a", pa.int32()), ("name", pa.string())]), SourceSpec("csv", "path")
    )


def test_definitions_for_the_catalog() -> None:
    stream, table = cql.parse(
        "CREATE STREAM S (t INT) TIMESTAMP BY t SKEW 2 FROM JSON 'd'; CREATE TABLE T (a INT) FROM JSON 'd'"
    )
    assert isinstance(stream, CreateInput) and isinstance(table, CreateTable)
    assert stream.definition("df") == Input("S", stream.schema, InputOptions(timestamp="t", skew=2))
    assert stream.definition("df").source == "df"
    assert stream.definition().source == stream.source
    assert table.definition() == TableDef("T", table.schema)


def test_drop() -> None:
    text = "DROP STREAM S; drop table if exists T; DROP VIEW V; DROP RELATION R; DROP FUNCTION f"
    assert cql.parse(text) == [
        Drop("stream", "S"),
        Drop("table", "T", if_exists=True),
        Drop("view", "V"),
        Drop("relation", "R"),
        Drop("function", "f"),
    ]


def test_relation() -> None:
    (relation,) = cql.parse(
        """CREATE RELATION R (k INT, at TIMESTAMP, v STRING, op STRING)
           TIMESTAMP BY AT CHANGE BY Op SKEW 1 SECOND FROM JSON 'd'"""
    )
    assert isinstance(relation, CreateInput)
    assert relation.schema.names == ["k", "at", "v", "op"]
    own = pa.schema([("k", pa.int32()), ("v", pa.string())])
    options = InputOptions(TIMESTAMP_TIME, "at", "op", skew=1_000_000)
    assert relation.definition("df") == Input("R", own, options, "relation")
    assert relation.definition().source == SourceSpec("json", "d")


def test_view(catalog: Catalog) -> None:
    text = "SELECT A, -- the key\n  COUNT(*) AS n FROM S [ROWS 4] GROUP BY A"
    view, stream = cql.parse(f"CREATE VIEW V AS {text};\n CREATE STREAM W AS ISTREAM({text}) ;")
    assert isinstance(view, CreateView) and isinstance(stream, CreateView)
    assert (view.name, view.kind, view.text) == ("V", "view", text)
    assert (stream.name, stream.kind, stream.text) == ("W", "stream", f"ISTREAM({text})")
    assert cql.define_view(view, catalog) == ViewDef("V", text)
    both = {**catalog, "V": cql.define_view(view, catalog), "W": cql.define_view(stream, catalog)}
    assert cql.bind("SELECT V.n, W.n FROM V, W [NOW] WHERE V.A = W.A", both).root.schema.names == ["n", "n_1"]


def test_a_stream_may_be_what_only_grows(catalog: Catalog) -> None:
    (stream,) = cql.parse("CREATE STREAM W AS SELECT A FROM S WHERE A > 1")
    assert isinstance(stream, CreateView)
    assert cql.define_view(stream, catalog) == ViewDef("W", "SELECT A FROM S WHERE A > 1", "stream")


def test_what_is_wrong_in_a_view_is_said_of_the_view(catalog: Catalog) -> None:
    changed = {**catalog, "V": ViewDef("V", "SELECT A,\n Z FROM S")}
    with pytest.raises(CQLError) as caught:
        cql.bind("SELECT *\nFROM S1 [NOW], V", changed)
    assert str(caught.value) == "line 2, column 16: in view 'V': unknown column 'Z'; S has A, B, C, t"


def test_sinks() -> None:
    full, console, named = cql.parse(
        """CREATE SINK Out TO PARQUET 'dir' OPTIONS (compression 'zstd') TRIGGER EVERY 1 MINUTE 30 SECONDS
               PARTITIONED BY (day, link) CHECKPOINT 'state/out';
           CREATE OR REPLACE SINK c TRIGGER AVAILABLE NOW TO Console;
           CREATE SINK IF NOT EXISTS d TO 'com.acme.Sink'"""
    )
    assert full == CreateSink(
        SinkDef(
            "Out",
            "parquet",
            "dir",
            {"compression": "zstd"},
            ("day", "link"),
            "90000 milliseconds",
            "state/out",
        )
    )
    assert console == CreateSink(SinkDef("c", "console", trigger="available-now"), "replace")
    assert named == CreateSink(SinkDef("d", "com.acme.Sink"), "keep")
    assert cql.parse("SHOW SINKS; DROP SINK IF EXISTS c") == [Show("sink"), Drop("sink", "c", if_exists=True)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT A FROM S [ROWS 2]",
        "ISTREAM(SELECT A FROM S [ROWS 2])",
        "(SELECT A FROM S [ROWS 2])",
        "WITH W AS (SELECT A FROM S [ROWS 2]) SELECT A FROM W",
        "SELECT A FROM S [ROWS 2] UNION ALL SELECT A FROM S1 [NOW]",
        "SELECT S.A FROM S [NOW], S1 [NOW] WHERE S.A = S1.A WITHIN MEMORY 100 ROWS MAXIMIZE RESULTS",
    ],
)
def test_insert_takes_any_query(query: str, catalog: Catalog) -> None:
    insert, explained = cql.parse(f"INSERT INTO out {query}; EXPLAIN INSERT INTO out {query}")
    (alone,) = cql.parse(query)
    assert (
        isinstance(insert, Insert) and isinstance(explained, Explain) and isinstance(alone, SelectStatement)
    )
    sink = SinkDef("Out", "console", partitioned_by=("TS", "a"))
    bound, found = cql.bind_insert(insert, {**catalog, "Out": sink})
    assert found is sink
    assert bound.root == cql.bind(alone, catalog).root == cql.bind(explained.query, catalog).root


@pytest.mark.parametrize(
    ("sink", "text"),
    [
        ("nowhere", "unknown sink 'nowhere'; write CREATE SINK nowhere TO ... before it"),
        ("Outt", "unknown sink 'Outt'; did you mean 'Out'?"),
        ("S", "'S' is a stream, not a sink; CREATE SINK names where queries write"),
        (
            "Parts",
            "sink 'Parts' is PARTITIONED BY 'b', which the query does not return; its columns are ts, op, A",
        ),
    ],
)
def test_what_cannot_be_written_to(sink: str, text: str, catalog: Catalog) -> None:
    sinks = {
        "Out": SinkDef("Out", "console"),
        "Parts": SinkDef("Parts", "parquet", "d", partitioned_by=("b",)),
    }
    (insert,) = cql.parse(f"INSERT INTO {sink} SELECT A FROM S [ROWS 2]")
    assert isinstance(insert, Insert)
    with pytest.raises(CQLError) as caught:
        cql.bind_insert(insert, {**catalog, **sinks})
    assert str(caught.value) == f"line 1, column 13: {text}"


def test_pipelines() -> None:
    made, alone, into, *others = cql.parse(
        """CREATE PIPELINE p (C, B) KEEP 2 HOURS SPLIT C BY (pid) CHECKPOINT 'state' SPLIT C BY (a, b)
               TRIGGER EVERY 1 SECOND STAGES 2 COLUMNS C (pid, a) SPLIT B BY (pid);
           REGISTER QUERY q AS SELECT ISTREAM(A) -- all
               FROM S [NOW];
           REGISTER QUERY r INTO out WITH HISTORY IN p AS SELECT A FROM S [ROWS 2];
           START PIPELINE p; STOP PIPELINE p; DROP QUERY q; DROP QUERY IF EXISTS q IN p; DROP PIPELINE p;
           SHOW PIPELINES; SHOW QUERIES"""
    )
    split = {"C": [["pid"], ["a", "b"]], "B": [["pid"]]}
    how = (split, "1000 milliseconds", 2, {"C": ["pid", "a"]})
    assert made == CreatePipeline("p", ("C", "B"), "state", 7200.0, *how)
    assert isinstance(alone, RegisterQuery) and isinstance(into, RegisterQuery)
    assert (alone.name, alone.pipeline, alone.sink) == ("q", None, None)
    assert alone.text.split() == "SELECT ISTREAM(A) -- all FROM S [NOW]".split()
    assert into == RegisterQuery("r", "SELECT A FROM S [ROWS 2]", into.expression, "p", "out", history=True)
    assert others == [
        SwitchPipeline("start", "p"),
        SwitchPipeline("stop", "p"),
        DropQuery("q"),
        DropQuery("q", "p", if_exists=True),
        Drop("pipeline", "p"),
        Show("pipeline"),
        Show("query"),
    ]


def test_a_registration_is_bound(catalog: Catalog) -> None:
    (query,) = cql.parse("REGISTER QUERY r INTO out AS SELECT A FROM S [ROWS 2]")
    assert isinstance(query, RegisterQuery)
    sink = SinkDef("out", "console")
    bound, found = cql.bind_registration(query, {**catalog, "out": sink})
    assert found is sink and bound.root == cql.bind(query.text, catalog).root
    with pytest.raises(CQLError, match="line 1, column 23: unknown sink 'out'"):
        cql.bind_registration(query, catalog)


def test_a_sink_is_not_read(catalog: Catalog) -> None:
    with pytest.raises(CQLError, match="'out' is a sink; queries write to it"):
        cql.bind("SELECT * FROM OUT [NOW]", {**catalog, "out": SinkDef("out", "console")})


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET penstock.memory = 64 MB", "penstock.memory", "64 MB"),
        ("set penstock.scheduler='greedy'", "penstock.scheduler", "greedy"),
        ("SET penstock.adaptive = true", "penstock.adaptive", "true"),
        ("SET penstock.a.b = -1.5", "penstock.a.b", "-1.5"),
    ],
)
def test_settings(text: str, name: str, value: str) -> None:
    assert cql.parse(f"{text}; DROP TABLE T") == [Set(name, value), Drop("table", "T")]


def test_statements_and_comments() -> None:
    text = """
    -- first a stream
    CREATE STREAM S (t INT) TIMESTAMP BY t FROM PARQUET 'd'; -- done
    ;
    SELECT * /* all of it */ FROM S [ROWS 2] -- and a query
    """
    assert [type(s) for s in cql.parse(text)] == [CreateInput, SelectStatement]
    assert cql.parse("  -- nothing\n") == []


def test_schema_of() -> None:
    schema = cql.schema_of("a TINYINT, b SMALLINT, c FLOAT, d DOUBLE, e DECIMAL(7, 2), f DECIMAL, g BOOLEAN,"
                           "h VARCHAR(5), i DATE, j TIMESTAMP_NTZ, k BINARY, l LONG")  # fmt: skip
    assert schema.types == [
        pa.int8(), pa.int16(), pa.float32(), pa.float64(), pa.decimal128(7, 2), pa.decimal128(10, 0),
        pa.bool_(), pa.string(), pa.date32(), TIMESTAMP_NTZ, pa.binary(), pa.int64(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "unit", "ticks"),
    [
        ("2 seconds", "seconds", 2),
        ("2 Minutes", "milliseconds", 120_000),
        ("1 HOUR 30 MINUTES", "seconds", 5_400),
        ("1.5 seconds", "milliseconds", 1_500),
        ("1 day", "microseconds", 86_400_000_000),
        ("250 milliseconds", "microseconds", 250_000),
        ("10 us", "microseconds", 10),
        ("5", "milliseconds", 5),
    ],
)
def test_durations(text: str, unit: str, ticks: int) -> None:
    schema = pa.schema([("t", pa.int64())])
    assert cql.input_options("stream", "S", schema, timestamp="t", unit=unit, skew=text).skew == ticks


def test_a_table_is_refreshed() -> None:
    every, once = cql.parse("CREATE TABLE t (a INT) FROM CSV 'd' REFRESH EVERY 5 MINUTES; REFRESH TABLE t")
    assert isinstance(every, CreateTable) and every.refresh_every == 300
    assert once == cql.Refresh("t")
    with pytest.raises(CQLError, match="REFRESH EVERY needs a unit"):
        cql.parse("CREATE TABLE t (a INT) FROM CSV 'd' REFRESH EVERY 5")
    with pytest.raises(CQLError, match="it must be at least one tick"):
        cql.refresh_period("0 SECONDS")


def test_replace_keep_and_disorder() -> None:
    text = "CREATE {} STREAM {} s (a INT, t INT) TIMESTAMP BY t DISORDER 3 SECONDS FROM JSON 'd'"
    for *forms, if_taken in (("", "", "error"), ("OR REPLACE", "", "replace"), ("", "IF NOT EXISTS", "keep")):
        (statement,) = cql.parse(text.format(*forms))
        assert isinstance(statement, cql.CreateInput)
        assert (statement.if_taken, statement.options.skew) == (if_taken, 3)


def test_inspections() -> None:
    show, describe, explain = cql.parse("SHOW VIEWS; DESC s; EXPLAIN SELECT a FROM S [ROWS 1]")
    (inserted,) = cql.parse("EXPLAIN INSERT INTO t SELECT a FROM S [ROWS 1];")
    assert (show, describe) == (cql.Show("view"), cql.Describe("s"))
    assert isinstance(explain, cql.Explain) and isinstance(inserted, cql.Explain)
    assert explain.query.text == inserted.query.text == "SELECT a FROM S [ROWS 1]"


@pytest.mark.parametrize(
    "length", ["INTERVAL 90 SECONDS", "INTERVAL '90' SECONDS", "INTERVAL '1 minute 30 seconds'"]
)
def test_interval_in_a_window(length: str) -> None:
    rows = {"S": [(0, {"a": 1})]}
    found = penstock.evaluate(f"SELECT a FROM S [RANGE {length}]", rows, until=100)
    assert [ts for ts, _, _ in found] == [0, 91]


def test_a_replaced_view() -> None:
    rows = {"S": [(0, {"a": 1})]}
    views = "CREATE VIEW v AS SELECT a FROM S; CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM S;"
    assert penstock.evaluate(f"{views} SELECT a FROM v", rows) == [(0, "+", {"a": 2})]
    kept = "CREATE VIEW v AS SELECT a FROM S; CREATE VIEW IF NOT EXISTS v AS SELECT a + 1 AS a FROM S;"
    assert penstock.evaluate(f"{kept} SELECT a FROM v", rows) == [(0, "+", {"a": 1})]
    with pytest.raises(CQLError, match="unknown stream or table 'v'"):
        penstock.evaluate("CREATE VIEW v AS SELECT a FROM S; CREATE OR REPLACE VIEW v AS SELECT a FROM v; "
                          "SELECT a FROM v", rows)  # fmt: skip


def test_the_columns_of_a_view_are_those_of_its_query_also_if_that_reads_only_tables():
    table = TableDef("T", pa.schema([("a", pa.int64())]))
    view = ViewDef("V`s", "SELECT a, a + 1 AS b FROM T")
    catalog = {"T": table, "V`s": view}
    assert cql.columns_of(view, catalog) == [("a", "BIGINT", ""), ("b", "BIGINT", "")]
    assert cql.columns_of(table, catalog) == [("a", "BIGINT", "")]
