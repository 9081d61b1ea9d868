"""Weights are found back from what they predict; stored and read again; the measurement runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.calibrate import calibrate
from penstock.cost import weights
from penstock.cost.calibrate import Measurement, errors, fit, measure
from penstock.cost.model import METHODS, PAPER, Weight, Weights
from penstock.cost.settings import CALIBRATED_WINDOWS
from penstock.errors import PenstockError

WITH_CACHES: Weights = {
    "hash": Weight(0.0, 4e-9, search_doubling=6e-9),
    "b+tree": Weight(8e-9, 0.0, update_at_least=2e-8, update_doubling=6e-9),
    "t-tree": Weight(6e-9, 4e-9, update_at_least=3e-8),
    "none": Weight(8e-10, 1e-10, search_at_least=2e-8),
}


def predicted(by: Weights) -> list[Measurement]:
    return [
        Measurement(name, w, by[name].probe(method, w), 2 * by[name].change(method, w))
        for name, method in METHODS.items()
        for w in CALIBRATED_WINDOWS
    ]


@pytest.mark.parametrize("by", [PAPER, WITH_CACHES])
def test_weights_are_found_back(by: Weights) -> None:
    found = fit(predicted(by))
    for one, probe, update in errors(predicted(by), found):
        assert probe == pytest.approx(one.probe, rel=0.02)
        assert update == pytest.approx(one.update, rel=0.02)


def test_no_weight_is_negative() -> None:
    falling = [Measurement(name, w, 1e-6 / w, 1e-6 / w) for name in METHODS for w in CALIBRATED_WINDOWS]
    assert all(value >= 0 for weight in fit(falling).values() for value in vars(weight).values())


def test_every_method_is_measured() -> None:
    found = list(measure((100, 200), runs=1))
    assert [(m.method, m.window) for m in found] == [(n, w) for n in METHODS for w in (100, 200)]
    assert all(m.probe > 0 for m in found)


def test_stored_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some" / "weights.json"
    calibrate(path, (100, 1000), runs=1)
    assert "b+tree" in capsys.readouterr().out
    assert weights.load(path).keys() == METHODS.keys()


def test_shipped_where_nothing_is_stored(tmp_path: Path) -> None:
    assert weights.load(tmp_path / "none") is weights.SHIPPED


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"hash": {"search": 1}}'])
def test_a_file_with_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "weights.json"
    path.write_text(text)
    with pytest.raises(PenstockError, match="run 'penstock calibrate'"):
        weights.load(path)


def test_invalidation_is_measured() -> None:
    from penstock.cost.calibrate import invalidation

    call, row = invalidation(runs=2)
    assert 0 < row < call < 1e-3
