"""The papers' experiments run, and write what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

FIGURES = [f"ch4_{n}" for n in range(11, 25)] + ["ch4_table_2"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["bench", "paper", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_chapter_4_runs_and_writes_its_figures(tmp_path: Path) -> None:
    said = run("--chapter", "4", "--quick", "--out", str(tmp_path))
    assert "claims agree" in said
    assert sorted(p.stem for p in tmp_path.glob("*.csv")) == sorted(FIGURES)
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.glob("*.png"))) == len(FIGURES)
    for path in tmp_path.glob("*.csv"):
        heading, *rows = path.read_text().splitlines()
        assert rows and all(len(r.split(",")) >= len(heading.split(",")) for r in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--figure", "4.99"], "chapter 4 has no figure 4.99: choose one of 4.11, "),
        (
            ["--paper", "kang", "--figure", "kang 99"],
            "kang has no figure kang 99: choose one of kang 2",
        ),
        (["--paper", "nobody"], "no experiment of the paper nobody"),
        (["--chapter", "2"], "there is no experiment of chapter 2 in bench/paper"),
    ],
)
def test_what_is_not_there(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["bench", "paper", *arguments])
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.slow
def test_window_joins_by_cost(tmp_path: Path) -> None:
    said = run("--paper", "kang", "--figure", "kang 2", "--out", str(tmp_path))
    assert "1 of 1 claims agree" in said
    said = run("--paper", "kang", "--figure", "kang probes", "--quick", "--out", str(tmp_path))
    assert "of 2 claims agree" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"kang_{n}.{kind}" for n in ("2", "probes") for kind in ("csv", "png")
    ]


def test_one_workload_of_the_grid() -> None:
    from bench.paper import kang_grid
    from bench.paper.figure import Scale
    from penstock.plan.access import ByCost
    from penstock.plan.weights import SHIPPED

    way = kang_grid._one_way(ByCost(SHIPPED), "band", 100, (1, 10), Scale(quick=True))
    row = kang_grid._full("band", 100, (1, 10), way, way)
    assert float(row["over_best"]) >= 1 and float(row["symmetric_over_best"]) >= 1
    assert len(kang_grid.claims([row])) == 3


def test_a_claim_can_be_wrong() -> None:
    from bench.paper import ch4_11

    rows = [
        {"n": n, "algorithm": a, "filters_a_tuple": f, "rows_per_second": 1.0 / f}
        for n in (4, 8)
        for a, f in (("optimal", 1.0), ("a-greedy", 1.2), ("independent", 1.1))
    ]
    assert [bool(c.agrees) for c in ch4_11.claims(rows)] == [False, False, False, False]
