"""docs/walk.md is true of the code: its files, its names, and what it shows of its query on the way."""

import re
import textwrap
from itertools import pairwise

import pyarrow as pa
from test_references import ROOT, SOURCES, all_names, names_in

from penstock.cli.script import bound_queries
from penstock.engine.stage import SIGN, TS
from penstock.in_process import InProcessRun
from penstock.plan.compile import compile
from penstock.plan.explain import explain
from penstock.plan.logical import numbered, show
from penstock.plan.optimizer import optimize
from penstock.plan.partition import choose
from penstock.routing import partition_numbers
from penstock.spark.driver.exchange import partition_keys
from penstock.spark.wire.record import Envelope

TEXT = (ROOT / "docs" / "walk.md").read_text()
STEP = re.compile(r"^(\d+)\. \*\*`([\w/]+\.py)`, `([\w.]+)`\.\*\*", re.MULTILINE)
STEPS = [(int(number), file, name) for number, file, name in STEP.findall(TEXT)]
BLOCKS = [textwrap.dedent(b).strip() for b in re.findall(r"```(?:sql)?\n(.*?)```", TEXT, re.DOTALL)]
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)


def test_steps_count_up_and_each_file_is_one_step():
    assert [number for number, _, _ in STEPS] == list(range(1, len(STEPS) + 1))
    assert len(STEPS) == len(re.findall(r"^\d+\. ", TEXT, re.MULTILINE)), "a step has another form"
    files = [file for _, file, _ in STEPS]
    assert sorted(set(files)) == sorted(files)


def test_each_step_says_what_goes_in_and_out():
    places = [m.start() for m in STEP.finditer(TEXT)] + [TEXT.index("## After a crash")]
    for start, stop in pairwise(places):
        assert "In: " in TEXT[start:stop] and " Out: " in TEXT[start:stop].replace("\n", " ")


def test_the_files_of_the_steps_define_what_to_read_there():
    for number, file, name in STEPS:
        assert name in names_in(SOURCES / file), f"step {number}: {file} has no {name}"


def test_every_name_in_backticks_is_there():
    for name in re.findall(r"`([A-Za-z_][\w.]*)`", PROSE):
        if not name.endswith(".py") and name != "ps.explain":
            assert name in all_names(), f"walk.md names {name}"


def the_query():
    streams = "".join(
        f"CREATE STREAM {s} (pid BIGINT, size INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET '/tmp/{s}';"
        for s in "CBO"
    )
    assert BLOCKS[0].split() == readme_query().split()
    (bound,) = bound_queries(f"{streams}{BLOCKS[0]};")
    return bound.query, bound.settings


def readme_query() -> str:
    (query,) = re.findall(r'ps\.sql\("""(.*?)"""', (ROOT / "README.md").read_text(), re.DOTALL)
    return query


def test_the_plans_are_those_of_the_code():
    query, settings = the_query()
    first, second = choose(numbered(optimize(query.root)), query.time, 2).stages
    assert show(query.root) in BLOCKS
    assert show(first.relation).splitlines() == [line[2:] for line in show(query.root).splitlines()[1:]]
    assert show(second.relation) in BLOCKS
    assert explain(compile(query, 2, settings), costs=False) in BLOCKS


def test_the_envelope_and_the_partitions_are_those_of_the_code():
    shown = next(Envelope.from_json(b) for b in BLOCKS if b.startswith("["))
    assert shown == Envelope("C", 0, 0, 1, at(1), at(2), total=2)
    assert partition_numbers([pa.array([7, 8])], 2, 2).tolist() == [1, 0]
    assert all(str(key) in PROSE for key in partition_keys(2))


def test_the_results_are_those_of_the_code():
    query, settings = the_query()
    run = InProcessRun(compile(query, 2, settings), {})
    batches = [{"C": [(1, 7, 100), (2, 8, 50)], "B": [(3, 7, 0)], "O": [(5, 7, 0)]}]
    batches.append({stream: [(660, 100 + k, 1)] for k, stream in enumerate("CBO")})
    elements = [e for rows in batches for (b,) in [run.step(_streams(rows))] for e in b.to_pylist()]
    shown = next(b for b in BLOCKS if b.startswith("ts ")).splitlines()[1:]
    assert [line.split() for line in shown] == [
        [_clock(e[TS]), "+" if e[SIGN] > 0 else "-", "NULL" if e["total"] is None else str(e["total"])]
        for e in elements
    ]


def at(seconds: int) -> int:
    """Ticks of a time of the first day of 2026."""
    return 1_767_225_600_000_000 + seconds * 1_000_000


def _streams(rows):
    types = {TS: pa.int64(), "pid": pa.int64(), "size": pa.int32()}
    return {
        stream: pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(zip(*own, strict=True), types.values(), strict=True)],
            names=list(types),
        )
        for stream, own in ({s: [(at(t), *rest) for t, *rest in r] for s, r in rows.items()}).items()
    }


def _clock(ticks: int) -> str:
    seconds, micros = divmod(ticks - at(0), 1_000_000)
    shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}.{micros:06}" if micros else shown
