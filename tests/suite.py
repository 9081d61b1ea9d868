"""Runs the tests for make, all of them in two halves at once or the fast ones; says in one line what passed.

The half with Spark mostly waits for it, so the other half takes what it leaves, in two processes. In that one
run tests that start a Spark of their own. Of this half one sees the end, and all of it if a test failed.

``python tests/suite.py all|fast`` and arguments for pytest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTEST = [sys.executable, "-m", "pytest"]
TWO = ["-n", "2", "--dist", "worksteal"]
NOTHING_SELECTED = 5
"""Pytest's exit code, as when arguments name tests of one half only."""
UPSTREAM = "origin/main"


@dataclass(frozen=True)
class Part:
    """Tests that depend on little but some packages: they run if those are not as they are upstream."""

    tests: tuple[str, ...]
    packages: tuple[str, ...]


PARTS = {
    "benches and the papers' figures": Part(
        ("tests/bench", "tests/streamon/test_bench_network.py"),
        ("bench", "tests/bench", "tests/streamon", "src/penstock/workloads", "src/penstock/streamon"),
    ),
    "budgets beside what the papers' would keep": Part(
        ("tests/approx/test_max_subset.py", "tests/approx/test_alloc.py"),
        ("tests/approx", *(f"src/penstock/{p}" for p in ("approx", "cost", "engine", "plan", "streamon"))),
    ),
    "pages in a browser": Part(
        ("tests/server/test_browser.py", "tests/server/test_contrast.py"),
        ("tests/server", "tests/server_backends.py", "src/penstock/server", "src/penstock/measurement.py"),
    ),
}
"""What is left out where it cannot have changed; CI and ``make long`` leave out nothing."""


def changed_files(root: Path) -> list[str] | None:
    """Files that are not as they are upstream; None if that is not known."""
    base = _git(root, "merge-base", "HEAD", UPSTREAM)
    if base is None:
        return None
    ways = (["diff", "--name-only", base.strip()], ["ls-files", "--others", "--exclude-standard"])
    found = [_git(root, *way) for way in ways]
    return None if None in found else [line for text in found if text for line in text.splitlines()]


def _git(root: Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def left_out(changed: Sequence[str] | None) -> dict[str, Part]:
    """The parts none of whose packages have changed."""
    if changed is None:
        return {}
    return {
        name: part
        for name, part in PARTS.items()
        if not any(f == p or f.startswith(f"{p}/") for f in changed for p in part.packages)
    }


class Half:
    """A run of pytest, whose counts come in a file."""

    def __init__(self, marks: str, arguments: Sequence[str], own: Path, log: Path | None = None) -> None:
        self.counts_file, self.log = own / f"{len(marks)}.json", log
        command = [*PYTEST, "-m", marks, *arguments]
        environment = os.environ | {"PENSTOCK_COUNTS": str(self.counts_file)}
        if log is None:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment)
        else:
            with log.open("wb") as output:
                self.process = subprocess.Popen(
                    ["nice", "-n", "5", *command], cwd=ROOT, env=environment,
                    stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip

    def wait(self) -> int:
        """Its exit code."""
        code = self.process.wait()
        if self.log is not None:
            lines = self.log.read_text(errors="replace").splitlines()
            ends = [line for line in lines if re.search(r"\d+ \w+ in [\d.]+s", line)]
            print(*(lines if code else ends[-1:]), sep="\n", flush=True)
        return 0 if code == NOTHING_SELECTED else code

    def counts(self) -> Counter[str]:
        """How many tests passed, failed ...; empty if it ended before it could say."""
        return Counter(json.loads(self.counts_file.read_text()) if self.counts_file.exists() else {})


def run(target: str, arguments: Sequence[str], own: Path) -> list[Half]:
    """The halves of a target, running."""
    if target == "fast":
        return [Half("not spark and not slow", [*TWO, *arguments], own)]
    base = own.with_name(own.name[-8:])  # short: a Unix socket's path has about 100 bytes
    beside = [*TWO, "--basetemp", str(base), "-p", "no:cacheprovider", *arguments]
    return [
        Half("not spark or apart", beside, own, log=own / "log"),
        Half("spark and not apart", arguments, own),
    ]


def result(target: str, counts: Counter[str], seconds: float) -> str:
    """The line that says what passed."""
    order = ["passed", *sorted(set(counts) - {"passed", "skipped"}), "skipped"]
    said = ", ".join(f"{counts[kind]:,} {kind}" for kind in order if counts[kind]) or "no tests ran"
    minutes, rest = divmod(round(seconds), 60)
    return f"{target}: {said} in {f'{minutes} min ' * (minutes > 0)}{rest} s"


def main(target: str, arguments: Sequence[str]) -> int:
    """The exit code of the first half that has one."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "penstock.compiled"], cwd=ROOT, check=True)
    everything = "CI" in os.environ or "PENSTOCK_LONG" in os.environ or arguments
    parts = {} if everything else left_out(changed_files(ROOT))
    os.environ["PENSTOCK_LEFT_OUT"] = os.pathsep.join(test for part in parts.values() for test in part.tests)
    own = Path(tempfile.mkdtemp(prefix="penstock-tests-", dir="/tmp"))
    halves = run(target, arguments, own)
    try:
        codes = [half.wait() for half in reversed(halves)]
    finally:
        for half in halves:
            if half.process.poll() is None:
                half.process.terminate()
                half.process.wait()
        counts = sum((half.counts() for half in halves), Counter())
        for path in (own, own.with_name(own.name[-8:])):
            shutil.rmtree(path, ignore_errors=True)
    for name, part in parts.items():
        print(f"left out: {name} ({', '.join(part.tests)}), since nothing differs from {UPSTREAM} in")
        print(f"          {', '.join(part.packages)}; CI=1 runs them")
    print(result({"all": "make test", "fast": "make test-fast"}[target], counts, time.monotonic() - started))
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        sys.exit(130)
