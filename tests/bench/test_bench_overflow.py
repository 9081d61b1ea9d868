"""The benchmark of state on disk runs, and results are the same."""

import pytest

from bench.engine.overflow import main


def test_both_limits_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--window", "4000", "--batch", "1000", "--batches", "2"])
    shown = capsys.readouterr().out
    assert [shown.count(word) for word in ("no limit", "kept", "dropped")] == [1, 2, 2]
