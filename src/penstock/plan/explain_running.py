"""explain on a running query: what each engine holds, the orders it uses now, and the plan log behind them.

>>> print(explain_running(session.metrics()))                         # doctest: +SKIP
stage 1, partition 0: 36,210 rows and 4.1 MB of state
  mjoin C.pid = B.pid = O.pid: 52,113 probes, 118 results
    O: C, B
      a-greedy: 1.02 filters a tuple, 2 changes of order (1 recalled), 0.9% of the time on adapting
      tuple 9,216: dropped by B 2%, C 99% -> C, B
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.plan.explain_budget import explain_budget
from penstock.streamon.lateness import late
from penstock.streamon.skew import advice, skew

_COUNTS = ("in", "out", "probes", "results")
_DECISIONS = 3
"""Newest decisions of each order that are shown."""
_ENOUGH = 1.0
"""Seconds from which on the share of time is told: before, it is that of a first look at the filters."""

NOTHING = "no engine of this query has finished a step yet, none runs on this machine, or the query has ended"


def explain_running(metrics: Sequence[Mapping[str, Any]]) -> str:
    """The engines of a query, as they were after their last step."""
    lines = [line for engine in metrics for line in _engine(engine)]
    lines += [f"late: {told}" for told in late(metrics).values()]
    lines += [f"skew: {told}" for found in skew(metrics) if (told := advice(found))]
    return "\n".join(lines) or NOTHING


def _engine(engine: Mapping[str, Any]) -> Iterator[str]:
    where = f"stage {engine.get('stage', 0) + 1}, partition {engine.get('partition', 0)}"
    yield f"{where}: {engine['rows']:,} rows and {engine['bytes'] / 1e6:,.1f} MB of state"
    for operator in engine["operators"]:
        if "orders" not in operator:
            continue
        counts = ", ".join(f"{operator[c]:,} {c}" for c in _COUNTS if c in operator)
        yield f"  {operator['name']} {operator['describe']}: {counts}"
        for label, order in operator["orders"].items():
            yield f"    {label}: {', '.join(order)}"
            yield from _why(operator.get("streamon", {}).get(label))
        yield from explain_budget(operator.get("within"))


def _why(streamon: Mapping[str, Any] | None) -> Iterator[str]:
    if streamon is None or not streamon["tuples"]:
        return
    recalled = f" ({streamon['recalled']} recalled)" if streamon["recalled"] else ""
    changes = "1 change of order" if streamon["switches"] == 1 else f"{streamon['switches']} changes of order"
    yield (
        f"      {streamon['algorithm']}: {streamon['evaluations a tuple']:.2f} filters a tuple, "
        f"{changes}{recalled}, {_adapting(streamon)}"
    )
    for decision in streamon["decisions"][-_DECISIONS:]:
        drops = ", ".join(f"{name} {share:.0%}" for name, share in decision["drops"].items())
        order = ", ".join(decision["order"]) + (" (recalled)" if decision["recalled"] else "")
        yield f"      tuple {decision['tuple']:,}: dropped by {drops} -> {order}"


def _adapting(streamon: Mapping[str, Any]) -> str:
    if streamon["seconds"] < _ENOUGH:
        return f"too early to say what adapting takes ({streamon['seconds']:.2f} s so far)"
    return f"{1 - streamon['share of time']['tuple processing']:.1%} of the time on adapting"
