"""Adaptive operators read clocks; in these tests a clock that other load on the machine cannot slow down."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # the benchmarks

from penstock.streamon import framework, pipelined_filters, profiler  # noqa: E402

TICK = 1e-6


@pytest.fixture(autouse=True)
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading is a tick after the one before: all filters take as long as each other."""
    ticks = count()

    def reading() -> float:
        return next(ticks) * TICK

    clock = SimpleNamespace(thread_time=reading, perf_counter=reading)
    for module in (framework, pipelined_filters, profiler):
        monkeypatch.setattr(module, "time", clock)
