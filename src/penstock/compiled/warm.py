"""Compile all kernels before a query needs them, in several processes; nothing is left to do the next time.

``python -m penstock.compiled`` does it from a shell.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.compiled import signatures
from penstock.compiled.settings import POLL_S

Progress = Callable[[int, int], None]
"""Takes how many kernels are compiled, of how many."""


def missing() -> list[str]:
    """The lines of ``signatures.txt`` whose kernels are not in the cache."""
    return _missing(signatures.lines())


def warm(processes: int | None = None, progress: Progress = lambda done, total: None) -> list[str]:
    """Compile all kernels that are not in the cache; returns the lines that did not compile.

    Each process begins at another place of the list and goes round it, so that they rarely compile the same.
    """
    total, left, old = len(signatures.lines()), missing(), set(failed())
    count = min(processes or os.cpu_count() or 1, len(left))
    starts = [len(left) * n // count for n in range(count)]
    workers = [_start(left[start:] + left[:start]) for start in starts]
    while any(worker.poll() is None for worker in workers):
        progress(total - len(left), total)
        _wait(workers)
        left = _missing(left)
    progress(total - len(left), total)
    return [line for line in failed() if line not in old]


def _start(lines: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from penstock.compiled.warm import work; work()"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    worker.stdin.write("\n".join(lines))
    worker.stdin.close()
    return worker


def _wait(workers: Sequence[subprocess.Popen[str]]) -> None:
    for worker in workers:
        if worker.poll() is None:
            try:
                worker.wait(POLL_S)
            except subprocess.TimeoutExpired:
                return


def _missing(lines: Sequence[str]) -> list[str]:
    """The lines whose kernel was not compiled yet; a line of a kernel that is gone is passed over."""
    found = []
    for line in lines:
        path = _path(line)
        if path is not None and not path.exists() and not _failure(path).exists():
            found.append(line)
    return found


def failed() -> list[str]:
    """The lines whose kernel does not compile with their types, or is gone: the list is out of date."""
    paths = [(line, _path(line)) for line in signatures.lines()]
    return [line for line, path in paths if path is None or _failure(path).exists()]


def _path(line: str) -> Path | None:
    """The file of a line's kernel; None if there is none, or no directory for it."""
    try:
        kernel, types = signatures.kernel(line)
    except AttributeError:
        return None
    path: Path | None = kernel._cache.path(types, kernel.targetctx.codegen())
    return path


def _failure(path: Path) -> Path:
    """The file that says that a kernel does not compile."""
    return path.with_suffix(".failed")


def work() -> None:
    """Compile the kernels of the lines of the standard input, but those that another process has."""
    for line in sys.stdin.read().splitlines():
        if _missing([line]):
            try:
                kernel, types = signatures.kernel(line)
                kernel.compile(types)
            except Exception:  # whatever types of another version lead to: it is compiled when it is called
                path = _path(line)
                if path is not None:
                    _failure(path).touch()
