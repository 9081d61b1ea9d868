"""Generated streams as files: the same for the same seed, in the formats that benchmarks read."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.workloads.linear_road import LinearRoad
from penstock.workloads.linear_road.layout import read_rows


def run(*arguments: object):
    return CliRunner().invoke(app, ["generate", *map(str, arguments)])


def test_linear_road(tmp_path: Path):
    how = ("--expressways", 2, "--seconds", 60, "--rates", 40, 50, "--travel-times", "--seed", 3)
    done = run("linear-road", tmp_path / "one", *how)
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert re.search(r"traffic.csv; generated [\d,]+ per CPU second", told), told
    rows = [row for batch in read_rows(tmp_path / "one" / "traffic.csv") for row in batch.to_pylist()]
    assert rows == LinearRoad(2, 60, 3, 40.0, 50.0, travel_times=True).table().to_pylist()
    cars = {int(line.split(",")[0]) for line in (tmp_path / "one" / "history.csv").read_text().splitlines()}
    assert cars == {row["vid"] for row in rows}
    again = run("linear-road", tmp_path / "one", *how)
    assert again.exit_code == 2 and "already has streams" in again.stderr


def test_nexmark(tmp_path: Path):
    done = run("nexmark", tmp_path / "data", "--events", 1000)
    assert done.exit_code == 0 and "1,000 events in" in done.output
    rows = {n: pq.read_table(tmp_path / "data" / n).num_rows for n in ("person", "auction", "bid")}
    assert rows == {"person": 20, "auction": 60, "bid": 920}


def test_a_directory_that_cannot_be(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for workload in ("nexmark", "linear-road"):
        for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/x")):
            done = run(workload, out)
            assert done.exit_code == 2 and f"penstock: cannot write {out}: " in done.stderr
