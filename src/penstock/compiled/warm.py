"""Compile all kernels before a query needs them, in several processes; nothing is left to do the next time.

``python -m penstock.compiled`` does it from a shell.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from numba.core.errors import NumbaError

from penstock.compiled import signatures
from penstock.compiled.settings import POLL_S

Progress = Callable[[int, int], None]
"""Takes how many kernels are compiled, of how many."""


def missing() -> list[str]:
    """The lines of ``signatures.txt`` whose kernels are not in the cache."""
    return _missing(signatures.lines())


def warm(processes: int | None = None, progress: Progress = lambda done, total: None) -> list[str]:
    """Compile all kernels that are not in the cache; returns the lines that do not compile.

    Each process begins at another place of the list and goes round it, so that they rarely compile the same.
    """
    total, left = len(signatures.lines()), missing()
    count = min(processes or os.cpu_count() or 1, len(left))
    starts = [len(left) * n // count for n in range(count)]
    workers = [_start(left[start:] + left[:start]) for start in starts]
    while any(worker.poll() is None for worker in workers):
        progress(total - len(left), total)
        _wait(workers)
        left = _missing(left)
    progress(total - len(left), total)
    return left


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
    """The lines whose kernel is not in the cache, also if the line is out of date."""
    found = []
    for line in lines:
        try:
            kernel, types = signatures.kernel(line)
        except AttributeError:  # there is no such kernel any more
            found.append(line)
            continue
        path = kernel._cache.path(types, kernel.targetctx.codegen())
        if path is not None and not path.exists():
            found.append(line)
    return found


def work() -> None:
    """Compile the kernels of the lines of the standard input, but those that another process has."""
    for line in sys.stdin.read().splitlines():
        if _missing([line]):
            try:
                kernel, types = signatures.kernel(line)
                kernel.compile(types)
            except (AttributeError, NumbaError):  # the line is out of date: it stays missing
                continue
