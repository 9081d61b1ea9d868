"""Every file that the driver keeps in a checkpoint, damaged in every way: as before, or one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.command import Command
from penstock.errors import CatalogError, PenstockError
from penstock.spark.driver import checkpoint, commands
from penstock.spark.driver.checkpoint import check_or_create
from penstock.spark.driver.registrations import Layout
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.wire.results import Results

QUERY, OTHER = (Fingerprint(0, 2, "plan"),), (Fingerprint(0, 2, "another"),)


class Local:
    """As ``checkpoint.Directory``, without Hadoop and its checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, name: str) -> list[str]:
        below = self.path / name
        return [p.name for p in below.iterdir()] if below.exists() else []

    def delete(self, name: str) -> None:
        (self.path / name).unlink()

    def read(self, name: str) -> str | None:
        path = self.path / name
        return path.read_bytes().decode(errors="replace") if path.exists() else None

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(text)


@pytest.fixture
def place(tmp_path: Path) -> Any:
    """The checkpoint of a query that has had three commands in two batches."""
    place = Local(tmp_path)
    assert check_or_create(place, QUERY)  # type: ignore[arg-type]
    for number in range(1, 4):
        setting = {"name": "slice_rows", "value": number}
        place.write(
            f"commands/{number:08}.json", commands.command_to_json(Command(number, "setting", setting))
        )
    committed(place, 1)
    place.write("offsets/1", 'v1\n{"batchWatermarkMs":0}\n{"logOffset":1}\n2')
    Layout(2, {}).write(place)  # type: ignore[arg-type]
    return place


def committed(place: Local, batch: int) -> None:
    place.write(f"commits/{batch}", "v1\n{}")


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "flipped": flipped,
    "another's": lambda data: b'{"sequence": 9, "kind": "setting", "payload": {}}',
    "no object": lambda data: b"7",
}


def damage(place: Local, name: str, how: str) -> None:
    path = place.path / name
    data = DAMAGES[how](path.read_bytes())
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("number", (1, 2, 3))
def test_commands_are_all_there_or_the_start_is_refused(place: Local, number: int, how: str) -> None:
    before = commands.stored(place)  # type: ignore[arg-type]
    damage(place, f"commands/{number:08}.json", how)
    try:
        found = commands.stored(place)  # type: ignore[arg-type]
    except PenstockError as error:
        one_sentence(error)
    else:
        # A flipped bit within the JSON is for the file system's checksums.
        assert how == "flipped" and len(found) == len(before)


@pytest.mark.parametrize("how", DAMAGES)
def test_folded_commands_too(place: Local, how: str) -> None:
    commands.fold(place, 3)  # type: ignore[arg-type]
    assert [c.sequence for c in commands.stored(place)] == [3]  # type: ignore[arg-type]
    damage(place, "commands/folded-00000003.json", how)
    try:
        found = commands.stored(place)  # type: ignore[arg-type]
    except PenstockError as error:
        one_sentence(error)
    else:
        assert how == "flipped" and len(found) == 1


@pytest.mark.parametrize("how", DAMAGES)
def test_the_query_of_a_checkpoint_is_known_again(place: Local, how: str) -> None:
    damage(place, checkpoint.FILE, how)
    try:
        assert not check_or_create(place, QUERY)  # type: ignore[arg-type]
    except CatalogError as error:
        return one_sentence(error)
    committed(place, 2)  # its tasks have compared it with their state
    assert not check_or_create(place, QUERY)  # type: ignore[arg-type]
    with pytest.raises(CatalogError, match="written by another query"):
        check_or_create(place, OTHER)  # type: ignore[arg-type]
    assert json.loads(place.read(checkpoint.FILE) or "")["stages"][0]["plan"] == "plan"


def test_another_query_that_its_tasks_have_refused_is_not_taken_for_the_right_one(place: Local) -> None:
    damage(place, checkpoint.FILE, "missing")
    check_or_create(place, OTHER)  # type: ignore[arg-type]
    check_or_create(place, QUERY)  # type: ignore[arg-type]
    committed(place, 2)
    assert not check_or_create(place, QUERY)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [how for how in DAMAGES if how != "missing"])
def test_the_layout_of_a_pipeline(place: Local, how: str) -> None:
    before = Layout.read(place)  # type: ignore[arg-type]
    damage(place, "pipeline.json", how)
    try:
        found = Layout.read(place)  # type: ignore[arg-type]
    except PenstockError as error:
        one_sentence(error)
    else:
        assert found == before


@pytest.mark.parametrize("how", [how for how in DAMAGES if how not in ("missing", "flipped")])
@pytest.mark.parametrize("name", ("published.json", "00000000.json"))
def test_published_results(tmp_path: Path, name: str, how: str) -> None:
    results = Results(str(tmp_path))
    results.publish(0, {"q": []}, 1)
    damage(Local(tmp_path), name, how)
    with pytest.raises(PenstockError) as error:
        results.published()
        results.pieces(0, "q")
    one_sentence(error.value)


def one_sentence(error: Exception) -> None:
    assert re.fullmatch(r"[^\n]+", str(error)), error
    assert "restore the checkpoint" in str(error) or "another query" in str(error), error
