"""One run of all papers' figures: it resumes, it is judged again, and the documents are written from it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
from bench.paper import __main__ as command  # noqa: E402
from bench.paper import document, results  # noqa: E402
from bench.paper.__main__ import Run, _left, measured  # noqa: E402
from bench.paper.figure import Claim, Figure, Row, Scale  # noqa: E402
from bench.paper.parts import PARTS, Part  # noqa: E402
from bench.paper.report import page, tally  # noqa: E402
from penstock.errors import PenstockError  # noqa: E402

PART = Part("kang", "Some paper", "About it.", ("Read it so.",))


def figure(number: int, runs: list[int], bar: float = 1.0) -> Figure:
    def measure(scale: Scale) -> list[Row]:
        runs.append(number)
        return [{"x": x, "y": x * number, "algorithm": "a"} for x in (1, 2)]

    def claims(rows: list[Row]) -> list[Claim]:
        found = np.float64(rows[-1]["y"])
        return [Claim("y grows", f"{found}", found > bar), Claim("x is 2", "2", None, "it is set | so")]

    return Figure(f"kang {number}", "Title <b>", "x", ("y",), measure, claims, notes=("A setting.",))


def run(out: Path, figures: list[Figure], **how: bool) -> list[results.Result]:
    found, failed = measured(Run(out, **how), [(PART, f) for f in figures])
    assert not failed
    return found


def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    runs: list[int] = []
    figures = [figure(7, runs), figure(8, runs)]
    run(tmp_path, figures[:1])
    found = run(tmp_path, figures, resume=True)
    assert runs == [7, 8]
    assert [r.figure for r in found] == ["kang 7", "kang 8"]
    assert found[0].rows == [{"x": 1, "y": 7, "algorithm": "a"}, {"x": 2, "y": 14, "algorithm": "a"}]
    run(tmp_path, figures)
    assert runs == [7, 8, 7, 8]
    run(tmp_path, figures, resume=True, quick=True)
    assert runs == [7, 8, 7, 8, 7, 8], "what was measured quickly is not what is measured whole"


def test_what_measures_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    run(tmp_path, [figure(7, runs)])
    monkeypatch.setattr(command, "fingerprint", lambda _: "another")
    run(tmp_path, [figure(7, runs)], resume=True)
    assert runs == [7, 7]
    run(tmp_path, [figure(7, runs)], judge=True)
    assert runs == [7, 7]


def test_a_fingerprint_covers_what_a_figure_imports() -> None:
    from bench.paper import hammad_7, hammad_8

    assert set(results._imported((results.HERE / "hammad_8.py").read_text())) == {
        "figure", "hammad_7", "w_joins",
    }  # fmt: skip
    assert results.fingerprint(hammad_7.FIGURE) != results.fingerprint(hammad_8.FIGURE)


def test_rows_are_judged_again_without_measuring(tmp_path: Path) -> None:
    runs: list[int] = []
    assert run(tmp_path, [figure(7, runs)])[0].claims[0].agrees
    found = run(tmp_path, [figure(7, runs, bar=100.0)], judge=True)
    assert runs == [7]
    assert [c.verdict for c in found[0].claims] == ["no", "no evidence"]
    assert run(tmp_path, [figure(9, runs)], judge=True) == []


def test_one_figure_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    runs: list[int] = []

    def broken(scale: Scale) -> list[Row]:
        raise PenstockError("no such thing")

    wanted = [(PART, replace(figure(7, runs), measure=broken)), (PART, figure(8, runs))]
    found, failed = measured(Run(tmp_path), wanted)
    assert [r.figure for r in found] == ["kang 8"]
    assert failed == ["kang 7: PenstockError: no such thing"]


def test_the_report_has_everything_in_it(tmp_path: Path) -> None:
    found = run(tmp_path, [figure(7, []), figure(8, [])])
    html = page(found, tmp_path)
    assert html.count("data:image/png;base64,iVBOR") == 2
    assert "Title &lt;b&gt;" in html and "A setting." in html and "it is set | so" in html
    assert "http" not in html and "<script" not in html and "<link" not in html
    assert "<code>cost/invalidation.py</code>" in page(
        [replace(found[0], notes=("`cost/invalidation.py`",))], tmp_path
    )
    assert tally(found) == "2 of 2 claims agree; of 2 more this run is no evidence"


def test_the_document_has_a_line_for_each_claim(tmp_path: Path) -> None:
    text = document.written(run(tmp_path, [figure(7, [])]))
    assert "| 7 | y grows | 14.0 | yes |  |" in text
    assert "| 7 | x is 2 | 2 | no evidence | it is set \\| so |" in text
    assert "- kang 7: A setting." in text
    assert "Not measured" not in text and "Not measured in this run: 5.11." in document.written([], ["5.11"])


@pytest.mark.skipif(not document.KEPT.exists(), reason="the document was not written by the command yet")
def test_the_document_is_what_its_json_says() -> None:
    assert document.DOCUMENT.read_text() == document.written(*document.kept()), (
        "docs/paper_results.md was edited by hand, or the code that writes it changed: "
        "run penstock bench paper --all --judge --write-docs"
    )
    known = {f.number for part in PARTS for f in part.figures}
    assert {r.figure for r in document.kept()[0]} <= known


def test_the_time_left_follows_the_speed_so_far() -> None:
    assert _left(600, 0, 0) == "about 10 min left"
    assert _left(600, 100, 50) == "about 20 min left"
    assert _left(40, 10, 20) == "about 20 s left"


def test_documents_need_all_figures() -> None:
    with pytest.raises(PenstockError, match="--write-docs needs --all"):
        command.main(["--paper", "kang", "--write-docs"])
