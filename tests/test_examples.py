"""The examples run, and the README shows one of them."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app

ROOT = Path(__file__).parent.parent
SHOWN = {
    "network_traffic.py": r"\| *total\|",
    "own_dataframes.py": r"\| *shop\| *143\|",
    "auctions.py": r"SAMPLE CLUSTER: \d",
    "join_selectivity.py": r"\|crossed *\|0\.\d+",
}

PRINTED = {"auctions.py": "approximation.md"}
"""Examples whose output is in a page."""

DRAWING = "shared_plan.py"


def run(example):
    return subprocess.run(
        [sys.executable, ROOT / "examples" / example],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.slow
def test_evaluate():
    result = run("evaluate.py")
    assert result.returncode == 0, result.stderr
    assert "   4 - {'sensor': 'b', 'value': 20}" in result.stdout


PROGRAMS = ("network_traffic.py", "join_selectivity.py")
"""They write to Spark's console, which is not the tests'; the first is the README's."""


@pytest.mark.spark
@pytest.mark.apart
@pytest.mark.share(2)
@pytest.mark.parametrize("example", PROGRAMS)
def test_as_a_program(example):
    """With a Spark of its own."""
    result = run(example)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert re.search(SHOWN[example], result.stdout)


@pytest.mark.spark
@pytest.mark.parametrize("example", [name for name in SHOWN if name not in PROGRAMS])
def test_on_the_tests_spark(spark, example, capsys):
    done = runpy.run_path(str(ROOT / "examples" / example))
    for query in spark.streams.active:
        query.stop()
    done["ps"].close()
    printed = capsys.readouterr().out
    assert re.search(SHOWN[example], printed)
    if example in PRINTED:
        page, command = ROOT / "docs" / PRINTED[example], f"python examples/{example}"
        text = page.read_text()
        (shown,) = re.findall(rf"{re.escape(command)}\n```\n\nprints\n\n```\n(.*?)```", text, re.DOTALL)
        if "PENSTOCK_REWRITE" in os.environ:
            page.write_text(text.replace(shown, printed))
        else:
            assert printed == shown, "run PENSTOCK_REWRITE=1 pytest tests/test_examples.py and read the diff"


def test_all_examples_are_run():
    assert {p.name for p in (ROOT / "examples").glob("*.py")} == {"evaluate.py", DRAWING, *SHOWN}


def test_a_file_is_explained():
    result = CliRunner().invoke(app, ["explain", str(ROOT / "examples" / "beats.cql")])
    assert result.exit_code == 0, result.output
    assert "seq-window [RANGE 3 SECONDS]" in result.output


def test_readme_shows_an_example_that_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    body = ast.parse((ROOT / "examples" / "network_traffic.py").read_text()).body[1:]
    assert ast.dump(ast.parse(block)) == ast.dump(ast.Module(body, type_ignores=[]))


@pytest.mark.spark
def test_the_picture_in_the_docs_is_drawn_by_its_example(spark, capsys):
    runpy.run_path(str(ROOT / "examples" / DRAWING))["ps"].close()
    assert capsys.readouterr().out == (ROOT / "docs" / "shared_plan.svg").read_text()
