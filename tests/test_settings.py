"""SET: what may be set, and what is said of the rest; no setting changes an answer."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from penstock import CatalogError
from penstock.catalog import Input
from penstock.cql import bind
from penstock.engine.engine import Engine
from penstock.engine.stage import TS, Arrival
from penstock.plan import compile
from penstock.settings import Settings
from penstock.streamon.orderings import ALGORITHMS


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "penstock.filter",
            "sweep",
            "unknown setting 'penstock.filter'; did you mean 'penstock.filters'?",
        ),
        ("penstock.colour", "red", "unknown setting 'penstock.colour'; use one of penstock.filters"),
        ("penstock.filters", "magic", "penstock.filters cannot be 'magic'; use one of a-greedy, sweep"),
        (
            "penstock.engine_memory",
            "lots",
            "penstock.engine_memory cannot be 'lots'; write a size such as 512 MB",
        ),
        ("penstock.late_rows", "", "penstock.late_rows cannot be ''; write a directory, or none"),
        ("penstock.checkpoint", " ", "penstock.checkpoint cannot be ' '; write a directory, or none"),
        ("penstock.at_end", "soon", "penstock.at_end cannot be 'soon'; write complete, a length of time"),
    ],
)
def test_wrong_settings(name: str, value: str, said: str) -> None:
    with pytest.raises(CatalogError) as caught:
        Settings().changed(name, value)
    assert str(caught.value).startswith(said)


def test_sizes_and_directories() -> None:
    given = Settings().changed("penstock.engine_memory", "512 mb").changed("penstock.late_rows", "a/b/")
    assert (given.engine_memory, given.late_rows) == (512 << 20, os.path.abspath("a/b"))
    assert given.changed("penstock.late_rows", "file:///a/b/").late_rows == "file:///a/b"
    none = given.changed("penstock.engine_memory", "none").changed("penstock.late_rows", "none")
    assert (none.engine_memory, none.late_rows) == (None, None)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_lets_the_same_rows_through(algorithm: str) -> None:
    settings = Settings().changed("penstock.filters", algorithm.upper())
    columns = [("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())]
    stream = Input("S", pa.schema(columns))
    query = "SELECT ISTREAM(a, b, c) FROM S [ROWS UNBOUNDED] WHERE a + 0 > 50 OR b < 5 AND a > 2"
    joined = (
        "SELECT COUNT(*) AS n FROM S [ROWS 500] AS x, S [ROWS 400] AS y, S [ROWS 300] AS z "
        "WHERE x.a = y.a AND y.a = z.a"
    )
    counts = []
    for text in (query, joined):
        engine = Engine(compile(bind(text, {"S": stream}), 1, settings).stages[0].stage)
        total = 0
        for step in range(5):
            n = 2000
            rows = {
                c: pa.array([(i * k + step * 7) % 101 for i in range(n)])
                for c, k in (("a", 3), ("b", 5), ("c", 7))
            }
            arrivals = []
            for i in engine.stage.inputs:
                batch = {
                    TS: pa.array(range(step * n, step * n + n)),
                    **{f.name: rows[f.name[-1]] for f in i.schema},
                }
                arrivals.append(Arrival(i.name, 0, pa.RecordBatch.from_pydict(batch), step * n, step * n + n))
            out = engine.step(arrivals).only.batch
            total += out.num_rows if text is query else sum(x or 0 for x in out.column("n").to_pylist())
        counts.append(total)
    assert counts == EXPECTED or not EXPECTED
    EXPECTED[:] = counts


EXPECTED: list[int] = []
"""The first algorithm's counts, which the others must give too."""
