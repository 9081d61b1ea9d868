"""The rating's measurements, told and drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.linear_road import __main__ as command
from bench.linear_road.rating import Load, plot


def measured(load: Load) -> dict[str, Any]:
    """One that keeps up with two expressways on the engine, and with five at another speed."""
    most = 2 if load.speed == 1 else 5
    within = load.expressways <= most
    times = {"p50": 1.0, "p99": 2.0, "max": 3.0 if within else 9.0}
    load_of = {"expressways": load.expressways, "on": load.on, "partitions": load.partitions}
    return {
        **load_of,
        "speed": load.speed,
        **times,
        "within": within,
        "rows_per_second": 1.0,
        "operators": {},
    }


def test_runs_of_other_kinds_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "in_own_process", measured)
    known, image = tmp_path / "r.json", tmp_path / "r.png"
    for speed in ("30", "1"):
        command.main(f"--rating 1,2,4 --speed {speed} --json {known} --plot {image}".split())
    assert capsys.readouterr().out.splitlines()[-1] == "every answer within 5 s: L = 2"
    assert len(json.loads(known.read_text())) == 6 and image.read_bytes().startswith(b"\x89PNG")


def test_a_run_without_answers_is_drawn(tmp_path: Path) -> None:
    plot([{"expressways": 1, "on": "spark", "partitions": 1, "speed": 1.0}], tmp_path / "r.png")
    assert (tmp_path / "r.png").exists()
