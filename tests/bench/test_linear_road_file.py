"""Linear Road on files in the benchmark's format: answers worked out by hand, and bad files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.linear_road.__main__ import main
from bench.linear_road.validator import HEADERS, differences, read_numbers
from penstock.cli.main import app

Row = tuple[int, ...]


def report(time: int, vid: int, speed: int, segment: int, xway: int = 0, direction: int = 0, lane: int = 1):
    position = 5280 * segment + (77 if speed == 0 else vid)
    return (0, time, vid, speed, xway, lane, direction, segment, position, *[-1] * 6)


def balance(time: int, vid: int, qid: int):
    return (2, time, vid, *[-1] * 6, qid, *[-1] * 5)


def expenditure(time: int, vid: int, qid: int, day: int, xway: int):
    return (3, time, vid, -1, xway, *[-1] * 4, qid, *[-1] * 4, day)


TRAVEL_TIME = (4, 95, 200, -1, 0, *[-1] * 4, 70, 2, 60, 3, 1000, -1)
UNKNOWN = (7, 96, *[-1] * 13)

CROWDS = [
    *(report(vid // 2, vid, 30, 20) for vid in range(1, 52)),  # 51 cars in the first minute
    *(report(vid % 30, vid, 30, 30) for vid in range(101, 151)),  # 50 cars
    *(report(60 + vid % 50, vid, 20, 47, xway=1) for vid in range(401, 452)),  # 51 cars in the second minute
]
STOPPED = [
    # Two cars in each direction of expressway 1: the second ones have four reports at 105 and 106.
    *(report(t + 10, 301, 0, 50, xway=1, lane=2) for t in range(0, 120, 30)),
    *(report(t + 15, 302, 0, 50, xway=1, lane=2) for t in range(0, 120, 30)),
    *(report(t + 12, 303, 0, 10, xway=1, direction=1, lane=2) for t in range(0, 120, 30)),
    *(report(t + 16, 304, 0, 10, xway=1, direction=1, lane=2) for t in range(0, 120, 30)),
]
ROWS: list[Row] = [
    *CROWDS,
    *STOPPED,
    report(60, 200, 50, 20),  # goes on at 90, and is charged
    report(61, 201, 50, 30),
    report(62, 202, 50, 20),  # takes the exit of its segment, and is not charged
    report(63, 203, 50, 20),  # takes the exit of the next segment, and is charged
    balance(89, 200, 1),
    balance(90, 200, 2),  # in the second of the charge, before its report
    report(90, 200, 50, 21),
    report(92, 202, 10, 20, lane=4),
    balance(93, 202, 3),
    balance(93, 203, 4),
    report(93, 203, 10, 21, lane=4),
    balance(93, 999, 5),  # never seen
    expenditure(95, 200, 6, 5, 0),
    expenditure(95, 200, 7, 5, 1),
    expenditure(95, 200, 8, 6, 0),
    expenditure(95, 999, 9, 5, 0),
    TRAVEL_TIME,
    UNKNOWN,
    report(119, 318, 50, 49, xway=1),  # in the minute of the accident: told from the next one on
    report(120, 310, 50, 46, xway=1),
    report(120, 311, 50, 45, xway=1),
    report(121, 312, 50, 50, xway=1),
    report(121, 313, 50, 51, xway=1),
    report(122, 314, 50, 14, xway=1, direction=1),
    report(122, 315, 50, 15, xway=1, direction=1),
    report(122, 316, 50, 9, xway=1, direction=1),
    report(123, 317, 50, 48, xway=1, lane=4),  # exits: is told nothing
    report(124, 319, 50, 48, xway=0),  # the other expressway
    report(125, 320, 50, 47, xway=1),
    report(250, 204, 20, 20),
    report(365, 206, 50, 20),
]
HISTORY = [(200, 5, 0, 34), (200, 5, 1, 35), (201, 5, 0, 36)]

FREE = [
    # Nothing is known of a segment before its first minute is over.
    *((vid // 2, vid) for vid in range(1, 52)),
    *((vid % 30, vid) for vid in range(101, 151)),
    *((60 + vid % 50, vid) for vid in range(401, 452)),
    *((10, 301), (15, 302), (12, 303), (16, 304)),
    *((90, 200), (119, 318), (120, 310), (120, 311), (121, 313), (124, 319)),
    *((122, vid) for vid in (314, 315, 316)),
]
ANSWERS: dict[str, list[Row]] = {
    "tolls": [
        *((time, vid, 0, 0) for time, vid in FREE),
        (60, 200, 30, 2),  # 2 (51 - 50)^2
        (61, 201, 30, 0),  # 50 cars are free
        (62, 202, 30, 2),
        (63, 203, 30, 2),
        (121, 312, 0, 0),  # two cars that stand
        (125, 320, 20, 0),  # 51 cars at 20 mph, and an accident three segments ahead
        # Segment 20: 30 mph in minute 1, (50 + (50 + 10) / 2 + 50) / 3 in minute 2, no cars in 3 and 4.
        (250, 204, 36, 0),
        # Minutes 2 to 6: that and 20 mph in minute 5.
        (365, 206, 31, 0),
    ],
    "accidents": [(120, 310, 50), (121, 312, 50), (122, 314, 10), (125, 320, 50)],
    "balances": [(89, 1, 89, 0), (90, 2, 90, 2), (93, 3, 93, 0), (93, 4, 93, 2), (93, 5, 93, 0)],
    "expenditures": [(95, 6, 34), (95, 7, 35), (95, 8, 0), (95, 9, 0)],
}


def written(path: Path, rows: list[Row], end: str = "\r\n") -> Path:
    path.write_text("".join(",".join(map(str, row)) + end for row in rows), newline="")
    return path


def in_order(rows: list[Row]) -> list[Row]:
    """By time only: within a second as they are above."""
    return sorted(rows, key=lambda row: row[1])


def found(out: Path) -> dict[str, list[Row]]:
    for kind, header in HEADERS.items():
        assert (out / f"{kind}.csv").read_text().split("\n", 1)[0] == ",".join(header)
    return {kind: list(read_numbers(out / f"{kind}.csv", header=True)) for kind in HEADERS}


@pytest.mark.parametrize(
    "on", ["engine", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow, pytest.mark.long])]
)
def test_answers_worked_out_by_hand(on: str, tmp_path: Path, capsys):
    traffic = written(tmp_path / "traffic.csv", in_order(ROWS))
    history = written(tmp_path / "history.csv", HISTORY)
    out = tmp_path / "out"
    main([*f"--input {traffic} --history {history} --out {out} --validate --on {on}".split()])
    assert found(out) == {kind: sorted(rows) for kind, rows in ANSWERS.items()}
    assert differences(ANSWERS, out) == []
    said = capsys.readouterr().out
    assert "every answer is the expected one" in said
    assert "1 rows of type 4 (travel times) have no answer" in said
    assert "1 rows of the unknown type 7 have no answer" in said


def test_without_history_a_day_costs_nothing(tmp_path: Path):
    traffic = written(tmp_path / "traffic.csv", in_order(ROWS), end="\n")
    main([*f"--input {traffic} --out {tmp_path / 'out'} --validate".split()])
    wanted = {**ANSWERS, "expenditures": [(95, qid, 0) for qid in (6, 7, 8, 9)]}
    assert found(tmp_path / "out") == {kind: sorted(rows) for kind, rows in wanted.items()}


GOOD = report(0, 1, 30, 20)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, GOOD[:14]], "traffic.csv, line 2: 14 columns, where there must be 15\n"),
        ([("a;b",)], "line 1: 1 columns, where there must be 15; columns are separated by commas, without"),
        ([("Type", "Time", *GOOD[2:]), GOOD], "column 'type' is 'Type', not a whole number; the file"),
        ([GOOD, (*GOOD[:3], "fast", *GOOD[4:])], "line 2: column 'speed' is 'fast', not a whole number; col"),
        ([GOOD, (*GOOD[:9], "", *GOOD[10:])], "line 2: column 'qid' is '', not a whole number; col"),
        ([GOOD, (*GOOD[:2], 1 << 31, *GOOD[3:])], "line 2: column 'vid' is '2147483648', not a whole number"),
        ([report(5, 1, 30, 20), report(4, 2, 30, 20)], "line 2: time 4 comes after 5; put rows in"),
        ([], "traffic.csv has no rows"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_in_one_sentence_with_the_line(rows, said: str, tmp_path: Path):
    traffic = written(tmp_path / "traffic.csv", rows)
    done = run("--input", traffic, "--out", tmp_path / "out")
    assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_there_or_of_another_kind(tmp_path: Path):
    traffic = written(tmp_path / "traffic.csv", [GOOD])
    bad = written(tmp_path / "history.csv", [(1, 2, 3)])
    for arguments, said in [
        (("--input", tmp_path / "no.csv"), f"there is no file {tmp_path / 'no.csv'}"),
        (("--input", tmp_path), f"{tmp_path} is a directory"),
        (("--input", traffic, "--history", bad), "history.csv, line 1: 3 columns, where there must be 4"),
        (("--input", traffic, "--out", bad), f"--out {bad} is a file; name a directory"),
        (("--input", traffic, "--rating", 2), "--rating measures generated traffic; leave --input and"),
    ]:
        done = run(*arguments)
        assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--partitions", "0", "'0' is not a whole number from 1 on"),
        ("--rating", "2,x", "'x' is not a whole number from 1 on"),
        ("--expressways", "-1", "'-1' is not a whole number from 1 on"),
        ("--speed", "0", "'0' is not above 0"),
    ],
)
def test_numbers_that_cannot_be(option: str, value: str, said: str):
    done = run(f"{option}={value}")
    assert done.exit_code == 2 and f"argument {option}: {said}" in done.stderr


def test_a_mark_of_the_encoding_is_no_part_of_the_first_row(tmp_path: Path):
    traffic = written(tmp_path / "traffic.csv", in_order(ROWS))
    traffic.write_bytes(b"\xef\xbb\xbf" + traffic.read_bytes())
    main([*f"--input {traffic} --out {tmp_path / 'out'} --validate".split()])
    bad = written(tmp_path / "bad.csv", [GOOD, GOOD[:14]])
    bad.write_bytes(b"\xef\xbb\xbf" + bad.read_bytes())
    assert "bad.csv, line 2: 14 columns" in run("--input", bad).stderr


def run(*arguments: object):
    return CliRunner().invoke(app, ["bench", "linear-road", *map(str, arguments)])
