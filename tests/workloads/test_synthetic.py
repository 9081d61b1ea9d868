import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.workloads.files import StreamDirectory, write_slices
from penstock.workloads.synthetic import JoinWorkload


def test_same_seed_same_rows():
    workload = JoinWorkload(streams=3, rows=3_000)
    assert workload.slice(4) == workload.slice(4)
    assert workload.slice(4)["A"] != JoinWorkload(streams=3, rows=3_000, seed=2).slice(4)["A"]


def test_slices_follow_each_other_in_time():
    workload = JoinWorkload(rows=2_000, slice_seconds=1.0)
    ts = np.concatenate([s["A"]["ts"].cast("int64").to_numpy() for s in workload.slices(3)])
    assert (np.diff(ts) > 0).all()
    assert ts[-1] - ts[0] < 3_000_000


@pytest.mark.parametrize("matches", [0.2, 2.0])
def test_rows_find_the_stated_number_of_matches(matches):
    workload = JoinWorkload(rows=20_000, slice_seconds=10, window_seconds=5, matches=matches)
    slices = list(workload.slices(3))
    a, b = (
        [np.concatenate([s[n][c].cast("int64").to_numpy() for s in slices]) for c in ("k", "ts")]
        for n in "AB"
    )
    probes = np.flatnonzero(a[1] >= a[1][0] + 5_000_000)[::8]
    in_window = [
        np.sum((b[0] == a[0][i]) & (b[1] <= a[1][i]) & (b[1] >= a[1][i] - 5_000_000)) for i in probes
    ]
    assert np.mean(in_window) == pytest.approx(matches, rel=0.2)


def test_files_hold_the_slices_in_order_of_modification(tmp_path):
    workload = JoinWorkload(rows=1_000)
    write_slices(tmp_path, workload.slices(3), files=2)
    files = sorted((tmp_path / "A").iterdir(), key=lambda f: f.stat().st_mtime_ns)
    assert [f.name for f in files] == [f"part-{i:06d}.parquet" for i in range(6)]
    rows = [v for f in files for v in pq.read_table(f)["v"].to_pylist()]
    assert rows == list(range(1_500))
    assert pq.read_schema(files[0]).equals(JoinWorkload().schema)


def test_live_files_get_the_clock_and_never_the_same_time(tmp_path):
    directory = StreamDirectory(tmp_path)
    table = JoinWorkload(rows=20).slice(0)["A"]
    for _ in range(5):
        directory.append(table)
    times = [f.stat().st_mtime_ns // 1_000_000 for f in sorted(tmp_path.iterdir())]
    assert len(set(times)) == 5 and times == sorted(times)
