"""Linear Road's answers, by the queries and by the definition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.linear_road.__main__ import main
from bench.linear_road.answers import Answers
from bench.linear_road.on_engine import OnEngine
from bench.linear_road.run import generated
from bench.linear_road.validator import HEADERS, differences, expected, read_numbers
from penstock.engine.stage import TS
from penstock.workloads.linear_road import HISTORY_SCHEMA, SCHEMA, LinearRoad

BUSY = {"downtown": 0.9, "spread": 1.0, "accidents": 20.0, "standing": (180, 300)}
"""A few segments with nearly all cars, and an accident every three minutes."""


def report(time: int, vid: int, speed: int, segment: int, lane: int = 1, xway: int = 0, direction: int = 0):
    position = segment * 5280 + (100 if speed == 0 else time)
    return [0, time, vid, speed, xway, lane, direction, segment, position, *[-1] * 6]


def balance(time: int, vid: int, qid: int):
    return [2, time, vid, *[-1] * 6, qid, *[-1] * 5]


def expenditure(time: int, vid: int, qid: int, day: int, xway: int = 0):
    return [3, time, vid, -1, xway, *[-1] * 4, qid, *[-1] * 4, day]


def answers(
    rows: list[list[int]], history: list[list[int]] = (), steps: int = 3, partitions: int = 1
) -> Answers:
    """By the queries, on the engine."""
    rows = sorted(rows, key=lambda row: row[1])
    tolls = pa.Table.from_pylist(
        [dict(zip(HISTORY_SCHEMA.names, row, strict=True)) for row in history], HISTORY_SCHEMA
    )
    engine, found = OnEngine(tolls, partitions), Answers()
    whole = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    for batch in whole.to_batches(max_chunksize=-(-len(rows) // steps)):
        found.add(engine.push(batch), TS)
    found.add(engine.end(), TS)
    return found


def rows_of(found: Answers, kind: str) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for row in found.table(kind).to_pylist()]


def both(rows: list[list[int]], kind: str, history: list[list[int]] = ()) -> list[tuple[int, ...]]:
    """The answers of the queries, which are those of the definition."""
    found = rows_of(answers(rows, history), kind)
    assert found == sorted(expected(sorted(rows, key=lambda row: row[1]), history)[kind])
    return found


JAM = [report(t, vid, 20, 7) for vid in range(60) for t in (vid % 30, vid % 30 + 30)]
"""60 cars at 20 mph in segment 7 in the first minute."""


def test_the_toll_of_a_congested_segment_is_told_on_entering():
    found = both([*JAM, report(60, 100, 50, 7), report(61, 101, 50, 8)], "tolls")
    assert found[:2] == [(0, 0, 0, 0), (0, 30, 0, 0)]
    assert found[-2:] == [(60, 100, 20, 2 * 10 * 10), (61, 101, 0, 0)]


def test_cars_of_the_minute_before_and_velocity_of_five():
    """At 120 seconds the last minute has one car, at 360 the velocity is that of the second minute alone."""
    later = [
        report(70, 100, 50, 7),
        report(130, 101, 50, 7),
        report(359, 102, 50, 7),
        report(360, 103, 50, 7),
    ]
    assert both([*JAM, *later], "tolls")[-4:] == [
        (70, 100, 20, 200),
        (130, 101, 35, 0),
        (359, 102, 40, 0),
        (360, 103, 50, 0),
    ]


def test_the_velocity_is_rounded_down_and_50_cars_are_free():
    cars = [report(t, vid, 39, 7) for vid in range(50) for t in (vid % 30, vid % 30 + 30)]
    odd = [report(5, 50, 40, 7)]
    assert both([*cars, report(60, 100, 50, 7)], "tolls")[-1] == (60, 100, 39, 0)
    assert both([*cars, *odd, report(60, 100, 50, 7)], "tolls")[-1] == (60, 100, 39, 2)


def test_a_velocity_of_40_is_free():
    cars = [report(vid % 60, vid, 40, 7) for vid in range(60)]
    assert both([*cars, report(60, 100, 50, 7)], "tolls")[-1] == (60, 100, 40, 0)


CRASH = [report(t + offset, vid, 0, 9) for vid, offset in ((200, 0), (201, 10)) for t in range(0, 120, 30)]
"""Two cars at one place of segment 9; the fourth report of the second one is at 100."""


def test_an_accident_warns_from_the_next_minute_up_to_four_segments_before_it():
    late = [report(121, vid, 50, segment) for vid, segment in ((300, 9), (301, 5), (302, 4), (303, 10))]
    early = [report(119, 304, 50, 9), report(122, 305, 50, 9, xway=1), report(122, 306, 50, 9, direction=1)]
    exits = [report(123, 307, 50, 9, lane=4)]
    assert both([*CRASH, *late, *early, *exits], "accidents") == [(121, 300, 9), (121, 301, 9)]


def test_downstream_is_down_for_the_other_direction():
    crash = [[*row[:6], 1, *row[7:]] for row in CRASH]
    cars = [
        report(121, vid, 50, segment, direction=1)
        for vid, segment in ((300, 9), (301, 13), (302, 14), (303, 8))
    ]
    assert both([*crash, *cars], "accidents") == [(121, 300, 9), (121, 301, 9)]


def test_an_accident_is_over_with_the_minute_in_which_one_of_the_cars_moved():
    """The car moves at 130, in the third minute, which hears of it to its end; the fourth does not."""
    moved = [report(130, 201, 10, 9)]
    cars = [report(t, 300 + t, 50, 8) for t in (119, 121, 179, 180, 239, 240)]
    told = [time for time, _, _ in both([*CRASH, *moved, *cars], "accidents")]
    assert told == [121, 179]


@pytest.mark.parametrize(("moves", "told"), [(119, []), (120, [120, 121, 179])])
def test_an_accident_that_is_cleared_as_the_minute_begins(moves: int, told: list[int]):
    moved, cars = [report(moves, 201, 10, 9)], [report(t, 300 + t, 50, 8) for t in (119, 120, 121, 179, 180)]
    assert [time for time, _, _ in both([*CRASH, *moved, *cars], "accidents")] == told


@pytest.mark.parametrize(("late", "told"), [(19, [120, 179, 180]), (20, [180])])
def test_an_accident_that_is_detected_as_the_minute_begins(late: int, told: list[int]):
    crash = [[row[0], row[1] + (late if row[2] == 201 else 0), *row[2:]] for row in CRASH]
    cars = [report(t, 300 + t, 50, 8) for t in (119, 120, 179, 180)]
    assert [time for time, _, _ in both([*crash, *cars], "accidents")] == told


def test_the_nearest_of_two_accidents_is_told():
    other = [[*row[:2], row[2] + 10, *row[3:7], 8, 8 * 5280 + 100, *row[9:]] for row in CRASH]
    assert both([*CRASH, *other, report(121, 300, 50, 7), report(121, 301, 50, 9)], "accidents") == [
        (121, 300, 8),
        (121, 301, 9),
    ]


@pytest.mark.parametrize("change", ["lane", "three reports", "one car"])
def test_what_is_no_accident(change: str):
    rows = {
        "lane": [[*row[:5], 2 if row[2] == 201 else 1, *row[6:]] for row in CRASH],
        "three reports": [row for row in CRASH if row[1] != 100],
        "one car": [row for row in CRASH if row[2] == 200],
    }[change]
    assert both([*rows, report(181, 300, 50, 9)], "accidents") == []


def test_an_accident_ahead_makes_the_segment_free():
    jam = [report(60 + t, vid, 20, 7) for vid in range(60) for t in (vid % 30, vid % 30 + 30)]
    assert both([*jam, report(125, 100, 50, 7)], "tolls")[-1] == (125, 100, 20, 200)
    assert both([*jam, *CRASH, report(125, 100, 50, 7)], "tolls")[-1] == (125, 100, 20, 0)


def test_a_toll_is_charged_on_leaving_and_not_to_cars_that_exit():
    """Car 100 goes on, 101 exits by the ramp of its segment, 102 by that of the next one."""
    rows = [report(60, vid, 30, 7) for vid in (100, 101, 102)]
    rows += [report(90, 100, 30, 8), report(90, 101, 30, 7, lane=4), report(90, 102, 30, 8, lane=4)]
    rows += [report(900, vid, 30, 50) for vid in (101, 102)]  # a new trip
    asked = [balance(t, vid, 1000 * vid + t) for vid in (100, 101, 102) for t in (89, 90, 901)]
    amounts = {qid: amount for _, qid, _, amount in both([*JAM, *rows, *asked], "balances")}
    assert amounts == {
        100_089: 0, 100_090: 200, 100_901: 200, 101_089: 0, 101_090: 0, 101_901: 0, 102_089: 0, 102_090: 200,
        102_901: 200,
    }  # fmt: skip


def test_expenditures_are_from_the_history():
    history = [[5, 1, 0, 40], [5, 2, 0, 41], [5, 1, 1, 42]]
    rows = [
        expenditure(3, 5, 1, 1),
        expenditure(3, 5, 2, 2),
        expenditure(4, 5, 3, 1, xway=1),
        expenditure(5, 6, 4, 1),
    ]
    rows = [report(0, 5, 30, 1), *rows, report(30, 5, 30, 1)]
    assert both(rows, "expenditures", history) == [(3, 1, 40), (3, 2, 41), (4, 3, 42), (5, 4, 0)]


def checked(traffic: LinearRoad, folder: Path, *more: str) -> dict[str, int]:
    files, out = generated(traffic, folder), folder / "out"
    main(
        [
            "--input",
            str(files.traffic),
            "--history",
            str(files.history),
            "--out",
            str(out),
            "--validate",
            *more,
        ]
    )
    for kind, header in HEADERS.items():
        assert (out / f"{kind}.csv").read_text().split("\n", 1)[0] == ",".join(header)
    return {
        kind: sum(row[-1] > 0 for row in read_numbers(out / f"{kind}.csv", header=True)) for kind in HEADERS
    }


def test_generated_traffic_has_the_answers_of_the_definition(tmp_path, capsys):
    traffic = LinearRoad(2, 480, 3, 30, 40, **BUSY)
    found = checked(traffic, tmp_path, "--partitions", "2")
    assert "every answer is the expected one" in capsys.readouterr().out
    assert all(found.values()) and found["accidents"] > 20 and found["tolls"] > 500


def test_the_validator_tells_a_wrong_answer(tmp_path):
    files = generated(LinearRoad(1, 60, 1, 20, 20), tmp_path)
    right = expected(read_numbers(files.traffic), read_numbers(files.history))
    for kind, header in HEADERS.items():
        lines = [",".join(header), *(",".join(map(str, row)) for row in right[kind])]
        (tmp_path / f"{kind}.csv").write_text("\n".join(lines) + "\n")
    assert differences(right, tmp_path) == []
    text = (tmp_path / "tolls.csv").read_text().splitlines()
    time, vid, lav, toll = text[5].split(",")
    (tmp_path / "tolls.csv").write_text(
        "\n".join([*text[:5], f"{time},{vid},{lav},{int(toll) + 2}", *text[6:]]) + "\n"
    )
    assert len(differences(right, tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.long
def test_an_hour_of_traffic(tmp_path):
    found = checked(LinearRoad(2, 3600, 5, 60, 200, 3600, **BUSY), tmp_path)
    assert found["balances"] > 100


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.long
def test_on_spark(tmp_path):
    checked(LinearRoad(2, 360, 5, 30, 40, **BUSY), tmp_path, "--on", "spark", "--partitions", "2")
