"""The growth benchmark: what it runs, and the figures that it tells from what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from bench.peers.compare import Runs, _same_results
from bench.peers.goals import goals
from bench.peers.growth import _markdown, _quick, scenarios
from bench.peers.harness import Measured
from bench.peers.systems import System
from penstock.workloads.synthetic import HEAVY_KEY, JoinWorkload


def ran(system: str, ms: int, rows: int = 400_000, results: tuple[int, ...] = (5, 7)) -> Measured:
    return Measured(system, [ms, ms, ms], rows, list(results))


def test_everything_that_grows_is_there() -> None:
    found = list(scenarios())
    assert {s.workload.streams for s in found} == {2, 3, 5}
    assert {s.cores for s in found} == {1, 2}
    assert {10_000, 4_000_000} <= {s.workload.rows for s in found}
    assert {0, 20} <= {s.workload.strings for s in found}
    windows = [s for s in found if s.grows == "windows"]
    assert [2 * s.workload.window_rows for s in windows] == [100_000, 1_000_000, 10_000_000]
    assert len({s.runs.warmup for s in windows}) == 1, "the same batches, so that only the windows differ"
    assert all(2 * s.workload.window_rows <= s.runs.warmup * s.workload.rows for s in windows), (
        "they are full"
    )
    assert len({s.title for s in found}) == len(found)


def test_quick_is_smaller() -> None:
    for scenario in scenarios():
        quick = _quick(scenario)
        assert quick.title == scenario.title and quick.workload.rows < scenario.workload.rows


def test_figures() -> None:
    found = {
        "streams: 2 streams": [ran("spark-rocksdb", 9000), ran("spark-memory", 3000), ran("penstock", 500)],
        "streams: 5 streams": [ran("spark-rocksdb", 9000), ran("penstock", 600)],
        "streams: 5 streams, 2,000,000 rows a batch": [ran("spark-rocksdb", 30_000), ran("penstock", 600)],
        "batches: 2,000,000 rows a batch": [ran("discard", 1000), ran("penstock", 1600)],
        "cores: 1 core, 2,000,000 rows a batch": [ran("penstock", 2880)],
    }
    told = {g.what: (g.shown, g.wanted) for g in goals(found)}
    assert told == {
        "2 streams, rows/s against spark-rocksdb": ("18.00x", "at least 15x"),
        "2 streams, rows/s against spark-memory": ("6.00x", "at least 5x"),
        "5 streams, rows/s against spark-rocksdb": ("15.00x", ""),
        "5 streams, 2,000,000 rows a batch, rows/s against spark-rocksdb": ("50.00x", "at least 40x"),
        "batch of 2,000,000 rows, time against discard": ("1.60x", "at most 1.8x"),
        "penstock: rows/s a core with 2 cores against 1": ("0.90x", "at least 0.8x"),
    }
    scenario = next(iter(scenarios()))
    lines = list(_markdown([(scenario, found[scenario.title])], goals(found)))
    assert "| streams: 2 streams | penstock | 800,000 | 400,000 | 500 | 0.0 | 0.0 |  |" in lines
    assert "| 2 streams, rows/s against spark-rocksdb | 18.00x | at least 15x |" in lines


def test_systems_that_disagree_end_the_run() -> None:
    _same_results([ran("spark-rocksdb", 1, results=(5,)), ran("penstock", 1, results=(5, 7))])
    with pytest.raises(SystemExit, match="result counts of batch 1 differ"):
        _same_results([ran("spark-rocksdb", 1, results=(5, 8)), ran("penstock", 1, results=(5, 7))])


def test_sparks_own_joins_run_fewer_batches() -> None:
    runs = Runs(3, 5, slow_batches=1)
    assert runs.of(System("spark-rocksdb")) == (2, 1) and runs.of(System("penstock")) == (3, 5)


def test_one_key_has_most_rows() -> None:
    tables = JoinWorkload(rows=20_000, heavy=0.8).slice(0)
    found = {name: np.sum(np.asarray(table["k"]) == HEAVY_KEY) for name, table in tables.items()}
    assert 7_800 < found["A"] < 8_200 and found["B"] == 1
