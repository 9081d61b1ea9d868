"""What ``make test`` leaves out and says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import suite


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, capture_output=True)


def test_changed_files(tmp_path: Path) -> None:
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    upstream.mkdir()
    assert suite.changed_files(upstream) is None, "this is no clone"
    git(upstream, "init")
    for name in ("a", "b", "c"):
        (upstream / name).touch()
    git(upstream, "add", ".")
    git(upstream, "commit", "-m", "first")
    git(tmp_path, "clone", str(upstream), str(clone))
    assert suite.changed_files(clone) == []
    (clone / "a").write_text("committed")
    git(clone, "commit", "-am", "second")
    (clone / "b").write_text("not committed")
    (clone / "d").write_text("new")
    assert sorted(suite.changed_files(clone) or []) == ["a", "b", "d"]
    (upstream / "c").write_text("theirs, which is tested there")
    git(upstream, "commit", "-am", "third")
    git(clone, "fetch")
    assert sorted(suite.changed_files(clone) or []) == ["a", "b", "d"]


def test_parts_are_left_out_whose_packages_have_not_changed() -> None:
    benches, budgets, pages = suite.PARTS
    assert suite.left_out(None) == {}
    assert list(suite.left_out([])) == [benches, budgets, pages]
    assert list(suite.left_out(["docs/cql.md", "src/penstock/serverless.py"])) == [benches, budgets, pages]
    assert list(suite.left_out(["bench/paper/figure.py"])) == [budgets, pages]
    assert list(suite.left_out(["src/penstock/server/model.py"])) == [benches, budgets]
    assert list(suite.left_out(["src/penstock/streamon/k_mon.py"])) == [pages]
    assert list(suite.left_out(["bench/x.py", "src/penstock/plan/x.py", "tests/server/x.py"])) == []


def test_parts_name_what_there_is() -> None:
    for part in suite.PARTS.values():
        for path in (*part.tests, *part.packages):
            assert (suite.ROOT / path).exists(), path


def test_the_line_at_the_end() -> None:
    counts = Counter(passed=8012, skipped=21)
    assert suite.result("make test", counts, 340) == "make test: 8,012 passed, 21 skipped in 5 min 40 s"
    counts = Counter(passed=1, failed=2, error=3)
    assert suite.result("make test", counts, 9.6) == "make test: 1 passed, 3 error, 2 failed in 10 s"
    assert suite.result("make test", Counter(), 0) == "make test: no tests ran in 0 s"


def run_pytest(tmp_path: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run with a test file of its own."""
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(text)
    tests = str(Path(__file__).parent)
    given = os.environ | {"PYTHONPATH": tests, "PENSTOCK_COUNTS": str(tmp_path / "counts")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    return subprocess.run(command, cwd=tmp_path, env=given | environment, capture_output=True, text=True)


HELD = """
import duckdb, threading
def hold(it=duckdb.sqltypes.BIGINT): threading.Event().wait()
def test_one(): threading.Thread(target=hold, daemon=True).start()
def test_other(): assert {}
"""


@pytest.mark.slow
def test_the_exit_code_and_counts_are_told_and_no_leaks(tmp_path: Path) -> None:
    for outcome, passed, failed in (("1", 2, 0), ("0", 1, 1)):
        found = run_pytest(tmp_path, HELD.format(outcome))
        assert found.returncode == failed and "leaked" not in found.stdout + found.stderr, found.stderr
        counts = suite.json.loads((tmp_path / "counts").read_text())
        assert (counts["passed"], counts["failed"]) == (passed, failed)
