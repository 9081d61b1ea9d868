"""The playground: a query over a few rows, what its windows hold, and the examples of the reference."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import penstock
from penstock.errors import CQLError, DataError
from penstock.server.examples import examples, read_inputs
from penstock.server.picture.lanes import lanes
from penstock.server.playground import Life, play
from penstock.server.settings import PLAY_MOST_ROWS

INPUTS = read_inputs("S (k STRING, v INT): (a, 1)@1 (b, 5)@2 (a, 2)@2 (a, 4)@5\nuntil: 9")


def test_rows_windows_and_result_over_time() -> None:
    played = play("SELECT k, SUM(v) AS total FROM S [RANGE 2] GROUP BY k", INPUTS)
    stream, window, result = played.lanes
    assert (stream.title, stream.kind) == ("S", "input") and stream.lives[0] == Life("a, 1", 1, 1, True)
    assert window.title == "S [RANGE 2]"
    assert window.lives == (Life("a, 1", 1, 4), Life("a, 2", 2, 5), Life("b, 5", 2, 5), Life("a, 4", 5, 8))
    assert result.lives[0] == Life("a, 1", 1, 2)
    expected = penstock.evaluate(
        "SELECT k, SUM(v) AS total FROM S [RANGE 2] GROUP BY k", INPUTS.rows, INPUTS.schemas, until=9
    )
    assert [
        (ts, sign, dict(zip(played.columns, row, strict=True))) for ts, sign, row in played.changes
    ] == expected


def test_a_row_that_stays_has_no_end() -> None:
    (_, window, _) = play("SELECT v FROM S [ROWS 2]", INPUTS).lanes
    assert sorted(life.end or 99 for life in window.lives) == [2, 5, 99, 99]


def test_mistakes_have_their_place() -> None:
    with pytest.raises(CQLError) as caught:
        play("SELECT k,\n  nothing FROM S [RANGE 2]", INPUTS)
    assert (caught.value.line, caught.value.column) == (2, 3)
    with pytest.raises(DataError, match="rows are more than"):
        play("SELECT v FROM S [NOW]", read_inputs("S (v INT): " + "1@1 " * (PLAY_MOST_ROWS + 1)))
    with pytest.raises(DataError, match="has 1 values for 2 columns"):
        read_inputs("S (k STRING, v INT): (a)@1")
    with pytest.raises(DataError, match="'x' is not a value of type int32"):
        read_inputs("S (v INT): x@1")


def test_examples_of_the_reference_run() -> None:
    found = examples()
    assert len(found) > 50 and {e.heading for e in found} >= {"Results"}
    for example in found[::12]:
        played = play(example.text, example.inputs)
        assert played.columns and ElementTree.fromstring(lanes(played)) is not None


def test_rows_do_not_become_markup() -> None:
    inputs = read_inputs("S (k STRING): '<script>alert(1)</script>&'@1\nuntil: 3")
    root = ElementTree.fromstring(lanes(play("SELECT k FROM S [RANGE 1]", inputs)))
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    assert any("<script>" in (e.text or "") for e in root.iter())
