"""The benchmark of schedulers runs and shows every scheduler."""

from pathlib import Path

import pytest

from bench.engine.schedulers import QUERIES, main
from penstock.settings import CHOICES


def test_queues_of_every_scheduler_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["--rows", "1000", "--slice-rows", "250", "--plot", str(tmp_path / "queues.png")])
    shown = capsys.readouterr().out
    for name in CHOICES["scheduler"]:
        assert shown.count(f" {name} ") == len(QUERIES)
    assert (tmp_path / "queues.png").stat().st_size
