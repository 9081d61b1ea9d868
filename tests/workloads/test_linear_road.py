import numpy as np
import pytest

from penstock.workloads.linear_road import COLUMNS, HISTORY_SCHEMA, SCHEMA, LinearRoad
from penstock.workloads.linear_road.layout import read_rows, write_rows

SMALL = LinearRoad(
    expressways=2,
    seconds=900,
    first_rate=30,
    last_rate=40,
    downtown=0.9,
    spread=1,
    accidents=20,
    standing=(180, 300),
)


@pytest.fixture(scope="module")
def rows():
    table = SMALL.table()
    return {name: table.column(name).to_numpy() for name in COLUMNS}


@pytest.fixture(scope="module")
def reports(rows):
    """Position reports, by car and in order of time."""
    found = {name: column[rows["type"] == 0] for name, column in rows.items()}
    order = np.lexsort((found["time"], found["vid"]))
    return {name: column[order] for name, column in found.items()}


def test_same_seed_same_rows():
    few = LinearRoad(seconds=60)
    assert few.table() == few.table()
    assert few.table() != LinearRoad(seconds=60, seed=2).table()
    assert few.table().schema.equals(SCHEMA)


def test_batches_are_cuts_of_the_same_rows():
    few = LinearRoad(seconds=100)
    whole = [b for seconds in (7, 100) for b in [list(few.batches(seconds))]]
    assert [sum(b.num_rows for b in batches) for batches in whole] == [few.table().num_rows] * 2
    assert len(whole[0]) == 15


def test_a_car_reports_every_30_seconds_from_ramp_to_ramp(reports):
    same = np.diff(reports["vid"]) == 0
    begins = np.r_[True, ~same | (reports["lane"][:-1] == 4)]
    assert set(reports["lane"][begins]) == {0}
    assert set(reports["lane"][~begins]) == {1, 2, 3, 4}
    gaps, moved = np.diff(reports["time"]), np.diff(reports["position"])
    assert set(gaps[~begins[1:]]) == {30}
    # A car that comes back was away for five minutes.
    back = same & begins[1:]
    assert back.any() and gaps[back].min() >= 300
    ahead = np.where(reports["direction"][1:] == 0, moved, -moved)[~begins[1:]]
    # Two cars that collide meet at one place, at most half a segment further on.
    assert ahead.min() >= 0 and ahead.max() <= 99 * 44
    assert (reports["segment"] == reports["position"] // 5280).all()
    assert set(reports["xway"]) == {0, 1} and set(reports["direction"]) == {0, 1}


def test_the_rate_grows():
    few = LinearRoad(seconds=120, first_rate=10, last_rate=100, rate_seconds=100, accidents=0)
    times = few.table().filter(few.table().column("type").to_numpy() == 0).column("time").to_numpy()
    per_second = np.bincount(times)
    assert per_second[0] == 10 and per_second[50] == 55 and (per_second[100:] == 100).all()


def test_segments_are_congested(reports):
    """More than 50 cars in a segment and minute, and their mean speed below 40."""
    minute = reports["time"] // 60
    place = ((minute * 2 + reports["xway"]) * 2 + reports["direction"]) * 100 + reports["segment"]
    cars, places = (
        np.unique(place.astype(np.int64) * 1_000_000 + reports["vid"]) // 1_000_000,
        np.unique(place),
    )
    many = [p for p in places[-400:] if (cars == p).sum() > 50 and reports["speed"][place == p].mean() < 40]
    assert many


def test_accidents_are_two_cars_at_one_place_and_are_cleared(reports):
    still = reports["speed"] == 0
    late = still & (reports["time"] >= SMALL.seconds - 30)  # the other car may not have reported yet
    places_late = {
        tuple(p) for p in np.stack([reports[c] for c in ("xway", "direction", "lane", "position")])[:, late].T
    }
    where = np.stack([reports[c] for c in ("xway", "direction", "lane", "position", "vid")])[:, still]
    places = {tuple(p[:4]): {int(v) for *q, v in where.T if tuple(q) == tuple(p[:4])} for p in where.T}
    places = {place: cars for place, cars in places.items() if place not in places_late}
    assert len(places) >= 4 and all(len(cars) == 2 for cars in places.values())
    for vid in set().union(*places.values()):
        his = still[reports["vid"] == vid]
        assert his.sum() >= 4 and not his[-1]


def test_requests(rows):
    balance, expenditure = rows["type"] == 2, rows["type"] == 3
    assert set(rows["type"]) == {0, 2, 3}
    assert balance.sum() > 3 * expenditure.sum() > 0
    qids = rows["qid"][balance | expenditure]
    assert len(set(qids)) == len(qids)
    assert set(rows["xway"][balance]) == {-1} and set(rows["day"][balance]) == {-1}
    assert rows["day"][expenditure].min() >= 1 and rows["day"][expenditure].max() <= 69
    assert (np.diff(rows["time"]) >= 0).all()
    every = LinearRoad(seconds=600, first_rate=100, travel_times=True).table().column("type").to_numpy()
    assert (every == 4).sum() > 100


def test_history_has_a_toll_per_car_and_day():
    tolls = SMALL.history_of(1000)
    assert tolls.schema.equals(HISTORY_SCHEMA) and tolls.num_rows == 5000
    pairs = set(zip(tolls["vid"].to_pylist(), tolls["day"].to_pylist(), strict=True))
    assert len(pairs) == 5000 and {day for _, day in pairs} == set(range(1, 70))


def test_files_in_the_benchmarks_format(tmp_path):
    few = LinearRoad(seconds=30)
    assert write_rows(tmp_path / "in.csv", few.batches(10)) == few.table().num_rows
    first = (tmp_path / "in.csv").read_text().splitlines()[0]
    assert len(first.split(",")) == 15 and first.startswith("0,0,0,")
    assert [
        b for batch in read_rows(tmp_path / "in.csv") for b in batch.to_pylist()
    ] == few.table().to_pylist()
