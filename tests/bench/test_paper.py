"""The papers' experiments run, and write what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
from bench.paper.__main__ import figures  # noqa: E402

FIGURES = [f"ch4_{n}" for n in range(11, 25)] + ["ch4_table_2"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["bench", "paper", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.long
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
        (["--chapter", "2"], "there is no experiment of chapter 2 in bench/paper: choose 4 or 5 or 6"),
    ],
)
def test_what_is_not_there(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["bench", "paper", *arguments])
    assert result.exit_code == 2
    assert says in result.output


KANG = [
    *(str(n) for n in range(2, 8)),
    *(f"early_{n}" for n in ("11", "2", "4", "5", "6", "7", "8", "lazy")),
    "grid",
    "probes",
]


@pytest.mark.long
def test_window_joins_by_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.paper import combinations, kang_early_5, kang_grid
    from penstock.cost.model import ByCost
    from penstock.cost.weights import SHIPPED

    for module in (combinations, kang_early_5):
        monkeypatch.setattr(module, "calibrated", lambda: ByCost(SHIPPED))
    monkeypatch.setattr(kang_grid, "WINDOWS", (100, 1_000))
    said = run("--paper", "kang", "--quick", "--out", str(tmp_path))
    assert "claims agree" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"kang_{n}.{kind}" for n in KANG for kind in ("csv", "json", "png")
    ]
    assert "1 of 1 claims agree" in run("--paper", "kang", "--figure", "2", "--out", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "figure"),
    [(("--chapter", "4"), "4.11"), (("--chapter", "5"), "5.11"), (("--paper", "kang"), "2"),
     (("--paper", "hammad"), "8")],
)  # fmt: skip
def test_a_figure_of_each_paper(of: tuple[str, str], figure: str, tmp_path: Path) -> None:
    """All of them run in ``make long``."""
    assert "claims agree" in run(*of, "--figure", figure, "--quick", "--out", str(tmp_path))
    assert [p.suffix for p in sorted(tmp_path.iterdir())] == [".csv", ".json", ".png"]
    part = f"ch{of[1]}" if of[0] == "--chapter" else of[1]
    assert len(figures(part)) > 5 and all(f.number and f.claims for f in figures(part))


def test_what_is_said_of_a_full_join() -> None:
    from bench.paper.combinations import Costs, FullJoin

    into_a = Costs({"hash": 10.0, "none": 30.0}, {"hash": 9.0, "none": 40.0})
    into_b = Costs({"hash": 20.0, "none": 15.0}, {"hash": 14.0, "none": 16.0})
    join = FullJoin(into_a, into_b)
    assert join.measured() == {"HH": 30, "HN": 25, "NH": 50, "NN": 45}
    assert join.chosen == "HH"
    assert join.over_best() == pytest.approx(1.2)
    assert join.asymmetric_gain() == pytest.approx(0.2)
    assert join.ordered_alike() == (4, 6)


def test_what_is_said_of_budgets() -> None:
    from bench.paper.allocated_joins import EQUATION, MEASURED, gain, near_the_equations, order

    found = {"optimal": (10.0, 9.8), "equal": (5.0, 5.1), "max-a": (0.0, 0.0)}
    rows = [
        {"strategy": name, "results_a_second": value, "found": how}
        for name, values in found.items()
        for how, value in zip((EQUATION, MEASURED), values, strict=True)
    ]
    assert near_the_equations(rows).agrees
    assert order(rows, "", {"optimal"}, {"equal"}, {"max-a"}).agrees
    assert not order(rows, "", {"equal"}, {"optimal"}).agrees
    assert gain(rows, "optimal", "", 0.9).agrees and not gain(rows, "optimal", "", 1.0).agrees
    rows[1]["results_a_second"] = 9.4
    assert not near_the_equations(rows).agrees


def test_a_claim_can_be_wrong() -> None:
    from bench.paper import ch4_11

    rows = [
        {"n": n, "algorithm": a, "filters_a_tuple": f, "rows_per_second": 1.0 / f}
        for n in (4, 8)
        for a, f in (("optimal", 1.0), ("a-greedy", 1.2), ("independent", 1.1))
    ]
    assert [bool(c.agrees) for c in ch4_11.claims(rows)] == [False, False, False, False]


@pytest.mark.long
def test_chapter_5_runs_and_writes_its_figures(tmp_path: Path) -> None:
    assert "claims agree" in run("--chapter", "5", "--quick", "--out", str(tmp_path))
    names = [f"ch5_{n}.{kind}" for n in range(11, 24) for kind in ("csv", "json", "png")]
    assert sorted(p.name for p in tmp_path.iterdir()) == names


@pytest.mark.long
def test_chapter_6_runs_and_writes_its_figures(tmp_path: Path) -> None:
    assert "claims agree" in run("--chapter", "6", "--quick", "--out", str(tmp_path))
    figures = [*(str(n) for n in range(10, 19)), "table_1", "table_3"]
    assert sorted(p.name for p in tmp_path.glob("*.csv")) == [f"ch6_{n}.csv" for n in figures]


def test_joins_in_little_memory(tmp_path: Path) -> None:
    said = run("--paper", "srivastava", "--figure", "5", "--quick", "--out", str(tmp_path))
    assert "1 of 1 claims agree; of 2 more this run is no evidence" in said
    kinds = ("csv", "json", "png")
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"srivastava_5.{kind}" for kind in kinds]
    every = [figure.number for figure in figures("srivastava")]
    assert every == [f"srivastava {n}" for n in (*range(5, 12), "bounds")]


@pytest.mark.long
def test_w_joins(tmp_path: Path) -> None:
    said = run("--paper", "hammad", "--quick", "--out", str(tmp_path))
    assert "claims agree" in said
    numbers = ["13", "14", "7", "8", "9a", "9b", "9c"]
    assert sorted(p.stem for p in tmp_path.glob("*.csv")) == [f"hammad_{n}" for n in numbers]
