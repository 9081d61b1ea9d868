"""Waiting for what other threads and processes do, as long as that takes on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 180
"""Seconds after which what is waited for is taken never to happen: load may make anything slow."""


def until(condition: Callable[[], object], what: str = "it never happened") -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
