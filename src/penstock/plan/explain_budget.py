"""explain of a join inside a budget: the model in use, what it promises, what was measured, what was lost.

>>> within = {
...     "budget": "memory 500 rows maximize results", "model": "age", "policy": "AGE",
...     "expected recall": 0.13, "measured recall": 0.12, "rows kept": {"O": 480, "B": 1},
...     "age curve": {"O": [0.0, 0.1, 0.4, 0.2], "B": [0.0]}, "shed": {"given up": {"O": 70, "B": 0}},
... }
>>> for line in explain_budget(within):
...     print(line)
    within memory 500 rows maximize results: age model, AGE
      expected recall 13.0%, measured recall 12.0%; rows kept: O 480, B 1
      results by age: O ▁▃█▅, B ▁
      given up: O 70, B 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32
"""Bars of a curve: both streams' fit into a line."""
_SHARES = (
    "expected recall", "measured recall", "expected share", "measured share", "sampling fraction",
    "measured fraction",
)  # fmt: skip


def explain_budget(within: Mapping[str, Any] | None) -> Iterator[str]:
    """What there is to say of a budget, if there is one."""
    if not within:
        return
    how = [f"{within['model']} model"] if "model" in within else []
    how += [str(within[k]) for k in ("policy", "scheme", "strategy") if k in within]
    yield f"    within {within['budget']}: {', '.join(how)}"
    shares = [f"{name} {within[name]:.1%}" for name in _SHARES if within.get(name) is not None]
    yield f"      {', '.join(shares)}; rows kept: {_by_label(within['rows kept'])}"
    if "age curve" in within:
        drawn = {label: _drawn(curve) for label, curve in within["age curve"].items()}
        yield f"      results by age: {_by_label(drawn)}"
    for cause, lost in within["shed"].items():
        if any(lost.values()):
            yield f"      {cause}: {_by_label(lost)}"


def _by_label(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{label} {v:,}" if isinstance(v, int) else f"{label} {v}" for label, v in values.items()
    )


def _drawn(curve: Sequence[float]) -> str:
    """A curve as a line of bars, each the mean of as many values."""
    each = -(-len(curve) // _WIDTH) or 1
    means = [fmean(curve[i : i + each]) for i in range(0, len(curve), each)]
    top = max(means, default=0.0) or 1.0
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in means)
