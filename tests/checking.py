"""What every random case is held to: the oracle's result, however the case is run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import local_host
import oracle
from local_host import Manner
from own_aggregates import OWN
from strategies import Case

import penstock
from penstock.engine.element import Pattern
from penstock.engine.operators.mjoin import MJoin


class Skip(Exception):
    """A case that says nothing: it has no single answer, or once more none at all."""


def check(case: Case, expected: list[oracle.Change] | None = None, **how: Any) -> None:
    """``penstock.evaluate`` gives the oracle's changes, in the order of time and net per instant."""
    expected = expect(case) if expected is None else expected
    how = {**how, "constraints": case.constraints, **({"functions": OWN} if "own_" in case.cql else {})}
    actual = penstock.evaluate(case.cql, case.inputs, schemas=case.schemas, until=case.until, **how)
    actual = without_bounds(actual, case)
    compare(actual, expected, case, f"{case}\n{how or ''}")
    assert in_order(actual), f"{case}\nnot in order of time, or - after + in an instant"
    assert not cancelling(actual), f"{case}\nenters and leaves in one instant: {cancelling(actual)}"


def check_manner(case: Case, manner: Manner, expected: list[oracle.Change] | None = None) -> None:
    """So does a host that cuts, spreads and rebuilds as it likes."""
    counted = in_time(case, manner) if manner.adaptive else case
    if expected is None or counted is not case:
        expected = expect(counted)
    actual = local_host.run(case, manner)
    if manner.constraints == "monitored":
        assert within(actual, expected), f"not only missing:\n{case}\n{manner}"
        return
    compare(without_bounds(actual, case), expected, counted, f"{case}\n{manner}")


def in_time(case: Case, manner: Manner) -> Case:
    """The case without the rows that are late by the bounds that its streams' disorder leads to."""
    read = {i.stream.name for i in local_host.plan_of(case, manner).stages[0].inputs if hasattr(i, "stream")}
    batches = {name: manner.batches(case.inputs[name]) for name in sorted(read)}
    kept: dict[str, list[Any]] = {name: [] for name in read}
    highest, bounds, now = dict[str, int](), dict.fromkeys(read, 0.0), -math.inf
    lost: list[Any] = []
    for number in range(len(manner.cuts) + 1):
        for name in read:
            rows, before = batches[name][number], highest.get(name)
            stamps = [e[0] for e in rows]
            kept[name] += [e for e in rows if e[0] >= now]
            lost += [e for e in rows if e[0] < now]
            if stamps:
                earlier = [max([*stamps[:n], *([] if before is None else [before])], default=t) - t
                           for n, t in enumerate(stamps)]  # fmt: skip
                highest[name] = max([*stamps, *([] if before is None else [before])])
                passed = 0 if before is None else highest[name] - before
                bounds[name] = min(max(1.25 * max(0, *earlier), bounds[name] - passed / 100), manner.skew)
        if len(highest) == len(read):
            now = max(now, min(highest[name] - math.ceil(bounds[name]) for name in read))
    stamps = [e[0] for rows in kept.values() for e in rows]
    if any(len(e) == 3 or e[0] < min(stamps) for e in lost):
        raise Skip("the first row is late, or a change of a relation")
    return replace(case, inputs={**case.inputs, **kept})


def without_bounds(changes: list[Any], case: Case) -> list[Any]:
    """The columns that a query would have without SAMPLE; a sample of all rows has no others to say."""
    if " SAMPLE" not in case.cql:
        return changes
    for _, _, row in changes:
        assert row.get("weight", 1.0) == 1.0, case
        for name in [n.removesuffix("_low") for n in row if n.endswith("_low")]:
            assert len(set(oracle.normalise([row[f"{name}_low"], row[f"{name}_high"], row[name]]))) == 1, case
    more = ("weight", "_low", "_high")
    return [(t, sign, {n: v for n, v in r.items() if not n.endswith(more)}) for t, sign, r in changes]


def check_versions(case: Case, manner: Manner) -> None:
    """A table that changes is a relation that changes at those instants."""
    actual, instants = run_versions(case, manner)
    changing = with_versions(case, manner, instants)
    shown = without_bounds(actual, case)
    compare(shown, expect(changing), changing, f"{case}\n{manner}\nthe table changes at {instants}")


def run_versions(case: Case, manner: Manner) -> tuple[list[oracle.Change], list[int]]:
    """The changes of a case with a table that changes, and the instants at which it does."""
    nodes = local_host.nodes(local_host.plan_of(case, manner))
    looks_up = any(isinstance(n, MJoin) and n.tables and n.pattern is Pattern.APPEND for n in nodes)
    if looks_up and not case.meaning:
        raise Skip("each row of a stream without window meets the table as of its own instant")
    return local_host.run_versions(case, manner)


def with_versions(case: Case, manner: Manner, instants: Sequence[int]) -> Case:
    """The case with a relation in place of the table that changes at these instants."""
    stamps = [e[0] for n, rows in case.inputs.items() if n != "D" for e in rows]
    if not stamps:
        raise Skip("nothing happens")
    end = max([*stamps, *([] if case.until is None else [case.until])])
    elements = [(min(stamps), "+", row) for row in case.inputs["D"]]
    old = case.inputs["D"]
    for instant, (_, rows) in zip(instants, manner.versions, strict=True):
        at = max(instant, min(stamps))
        if at <= end:
            elements += [(at, "-", row) for row in old] + [(at, "+", row) for row in rows]
        old = list(rows)
    inputs = {**case.inputs, "D": sorted(elements, key=lambda e: e[0])}
    return replace(case, cql=case.meaning or case.cql, inputs=inputs)


def expect(case: Case) -> list[oracle.Change]:
    """The oracle's changes."""
    try:
        return oracle.evaluate(case.cql, case.inputs, case.schemas, case.unit, case.until)
    except oracle.Undetermined as reason:
        raise Skip(str(reason)) from None


def expect_something(case: Case) -> list[oracle.Change]:
    """The oracle's changes; of the cases that have none only every fourth is worth a run."""
    expected = expect(case)
    if not expected and sum(map(ord, case.cql)) % 4:
        raise Skip("no changes")
    return expected


def compare(actual: list[Any], expected: list[oracle.Change], case: Case, about: str) -> None:
    """Equal; before it is said that they are not, the oracle takes each instant alone."""
    if oracle.differences(actual, expected):
        alone = oracle.evaluate(case.cql, case.inputs, case.schemas, case.unit, case.until, at_once=False)
        oracle.assert_same(actual, alone, about)


def in_order(changes: list[Any]) -> bool:
    """Whether changes are in the order of time, and what leaves at an instant before what enters."""
    keys = [(ts, sign == "+") for ts, sign, _ in changes]
    return keys == sorted(keys)


def cancelling(changes: list[oracle.Change]) -> list[tuple]:
    """Rows that enter and leave in the same instant."""
    signs: dict[tuple, set[str]] = {}
    for ts, sign, row in changes:
        signs.setdefault((ts, *oracle.normalise(row.values())), set()).add(sign)
    return [row for row, found in signs.items() if len(found) > 1]


def contents(changes: list[Any]) -> dict[int, Counter]:
    """The relation at every instant at which it changes."""
    now: Counter = Counter()
    found = {}
    for ts, sign, row in sorted(changes, key=lambda c: c[0]):
        now[tuple(oracle.normalise(row.values()))] += 1 if sign == "+" else -1
        found[ts] = now.copy()
    return found


def within(some: list[Any], exact: list[Any]) -> bool:
    """Whether a relation is contained in another at every instant."""
    few, many = contents(some), contents(exact)
    a, b = Counter(), Counter()
    for ts in sorted({*few, *many}):
        a, b = few.get(ts, a), many.get(ts, b)
        if any(n < 0 for n in a.values()) or +a - +b:
            return False
    return True
