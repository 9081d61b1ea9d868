"""A trial: a random case and a way to run it. One that fails is made small and said as a program."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from checking import Skip, check, check_manner, check_versions, expect_something
from local_host import Manner
from restless import JOINS, PLANNERS, planned_by
from strategies import (
    Case,
    Choices,
    draw_all_that_enter,
    draw_case,
    draw_long_case,
    draw_table_case,
    draw_w_join,
    minimal,
)
from strategies.constraints import draw_tree_join, obeying
from strategies.data import VALUES
from strategies.windows import BOUNDED

from penstock.engine.knobs import OF_OPERATORS
from penstock.settings import CHOICES

SNIPPET = """\
import datetime, sys; sys.path.insert(0, "tests")
from decimal import Decimal
from math import inf, nan
from checking import check, check_manner, check_versions
from local_host import Manner
from restless import planned_by
from strategies import Case

case = Case(
    {cql!r},
    {inputs},
    {schemas!r},
    {until!r},
    {unit!r},
    {constraints!r},
    {meaning!r},
)
with planned_by({planner!r}, {joins!r}):
    {check}
"""


@dataclass(frozen=True)
class Trial:
    """A case, and how the host runs it; without a manner, ``penstock.evaluate`` on some partitions.

    ``planner``: who orders filters and probes (``restless.PLANNERS``); ``joins``: how joins of three or more
    inputs are planned (``restless.JOINS``).
    """

    case: Case
    manner: Manner | None = None
    partitions: int = 1
    batches: int = 3
    planner: str = "as set"
    joins: str = "as set"

    def run(self) -> None:
        """Raises if the result is not the oracle's."""
        if self.manner is not None and self.manner.versions:
            with planned_by(self.planner, self.joins):
                return check_versions(self.case, self.manner)
        expected = expect_something(self.case)
        with planned_by(self.planner, self.joins):
            if self.manner is None:
                check(self.case, expected, partitions=self.partitions, batches=self.batches)
            else:
                check_manner(self.case, self.manner, expected)

    def snippet(self) -> str:
        """A program that runs this trial."""
        case = self.case
        call = f"check(case, partitions={self.partitions}, batches={self.batches})"
        if self.manner is not None:
            how = "check_versions" if self.manner.versions else "check_manner"
            call = f"{how}(case, {self.manner!r})"
        rows = "".join(f"        {name!r}: {elements!r},\n" for name, elements in case.inputs.items())
        return SNIPPET.format(
            cql=case.cql,
            inputs=f"{{\n{rows}    }}",
            schemas=case.schemas,
            until=case.until,
            unit=case.unit,
            constraints=case.constraints,
            meaning=case.meaning,
            planner=self.planner,
            joins=self.joins,
            check=call,
        )


Draw = Callable[[Choices], Trial]


def evaluated(choices: Choices, depth: int | None = None) -> Trial:
    """A case for ``penstock.evaluate``."""
    case = draw_case(choices, depth)
    partitions, batches = choices.pick(1, 2, 3, 4, 5, 6), choices.pick(3, 1, 2)
    return Trial(case, None, partitions, batches, *_planned(choices))


def hosted(choices: Choices, depth: int | None = None) -> Trial:
    """A case cut into steps, spread over partitions, rebuilt in between; its state may be on disk."""
    return _hosted(choices, draw_case(choices, depth))


def _hosted(choices: Choices, case: Case) -> Trial:
    trial = _ordered(choices, case)
    assert trial.manner is not None
    limit = choices.pick(None, None, None, None, 1, 50_000)
    return _tied(choices, replace(trial, manner=replace(trial.manner, memory_limit=limit)))


def _tied(choices: Choices, trial: Trial) -> Trial:
    """Its rows of one instant in any order, if that is said to be another than that of their arrival."""
    manner, case = trial.manner, trial.case
    assert manner is not None
    ties = choices.pick("", "rows", "parts", "values")
    if not ties or manner.adaptive or manner.times or case.constraints:
        return trial
    if ties == "values":
        case = replace(case, inputs={name: _by_value(rows) for name, rows in case.inputs.items()})
    return replace(trial, case=case, manner=replace(manner, ties=ties))


def _by_value(rows: list[Any]) -> list[Any]:
    """A stream's rows of one instant in the order of their values, each in a place of one of them."""
    if not rows or not isinstance(rows[0], tuple) or len(rows[0]) == 3:
        return rows
    ordered = sorted(rows, key=lambda e: (e[0], [_comparable(v) for v in e[1].values()]))
    places = sorted(range(len(rows)), key=lambda n: rows[n][0])
    found = dict(zip(places, ordered, strict=True))
    return [found[n] for n in range(len(rows))]


def _comparable(value: Any) -> tuple[int, Any]:
    """NULL first, NaN last."""
    if value is None:
        return 0, 0
    return (2, 0) if value != value else (1, value)


def _ordered(choices: Choices, case: Case) -> Trial:
    """Its rows late within a skew, or beyond, or stamped on arrival."""
    manner, planner = manner_of(choices), choices.pick(*PLANNERS)
    joins = choices.pick(*JOINS)
    if choices.chance(4) and not any(bounded in case.cql for bounded in BOUNDED):
        case = replace(case, unit="timestamps")
    if choices.chance(4):
        skew = choices.pick(1, 2, 4)
        return Trial(_late(choices, case, skew), replace(manner, skew=skew), planner=planner, joins=joins)
    order = choices.pick("", "", "", "", "auto", "arrival")
    if order == "auto":
        late, most = _late(choices, case, choices.pick(1, 3, 6)), choices.pick(2, 1, 4, 9)
        return Trial(late, replace(manner, skew=most, adaptive=True), planner=planner, joins=joins)
    if order == "arrival":
        manner = replace(manner, times=_times(choices, len(manner.cuts) + 1))
        return Trial(_stamped(case, manner), manner, planner=planner, joins=joins)
    return Trial(case, manner, planner=planner, joins=joins)


def refreshed(choices: Choices, depth: int | None = None) -> Trial:
    """A case with a table that changes once or more, between steps and rebuilds; streams obey constraints."""
    case = draw_table_case(choices, depth)
    if choices.chance(3):
        case = obeying(choices, case)
    trial = _hosted(choices, case)
    assert trial.manner is not None
    if trial.manner.adaptive:
        raise Skip("which rows are late depends on the batches")
    if case.constraints and trial.case.inputs != case.inputs:
        raise Skip("rows that come in another order may not obey the constraints")
    versions = versions_of(choices, trial.case, len(trial.manner.cuts) + 2)
    return replace(trial, manner=replace(trial.manner, versions=versions))


def versions_of(choices: Choices, case: Case, steps: int) -> tuple[tuple[int, tuple[Any, ...]], ...]:
    """By step, the rows that the table D of a case has from then on."""
    rows = case.inputs.get("D")
    if rows is None:
        raise Skip("no table")
    versions, columns = [], new_rows(choices, case.schemas["D"])
    for number in range(steps):
        if choices.chance(2):
            rows = [r for r in rows if not choices.chance(3)] + [
                next(columns) for _ in range(choices.pick(1, 0, 2))
            ]
            versions.append((number, tuple(rows or [next(columns)])))
    if not versions:
        raise Skip("the table stays")
    return tuple(versions)


def new_rows(choices: Choices, schema: str) -> Iterator[dict[str, Any]]:
    """Rows for a table."""
    types = dict(column.split() for column in schema.split(", "))
    while True:
        yield {name: choices.pick(*VALUES[type_]) for name, type_ in types.items()}


def constrained(choices: Choices, depth: int | None = None) -> Trial:
    """A join of streams that obey what is declared of them, in steps, rebuilt in between, its rows late."""
    kind = choices.pick("tree", "tree", "any", "entering")
    if kind == "tree":
        case = draw_tree_join(choices)
    else:
        case = draw_case(choices, depth) if kind == "any" else draw_all_that_enter(choices)
        case = obeying(choices, case)
    manner, planner = manner_of(choices), choices.pick("as set", "restless")
    if choices.chance(4) and kind == "tree" and case.cql.startswith("SELECT"):
        return Trial(case, replace(manner, constraints="monitored"), planner=planner)
    if choices.chance(4):
        return Trial(case, None, choices.pick(1, 2, 3, 4), choices.pick(3, 1, 5), planner)
    if choices.chance(3) and not any("ROWS" in text for text in case.constraints.values()):
        skew = choices.pick(1, 2, 4)
        return Trial(_late(choices, case, skew), replace(manner, skew=skew), planner=planner)
    return Trial(case, manner, planner=planner)


def long(choices: Choices) -> Trial:
    """A case over long streams."""
    return Trial(draw_long_case(choices), manner_of(choices), 1, 3, *_planned(choices))


def w_joined(choices: Choices, depth: int | None = None) -> Trial:
    """A join with windows between streams, in steps, rebuilt in between, its streams late or silent."""
    case, manner, planner = draw_w_join(choices), manner_of(choices), choices.pick("as set", "restless")
    if choices.chance(2):
        skew = choices.pick(1, 2, 4)
        return Trial(_late(choices, case, skew), replace(manner, skew=skew), planner=planner)
    return Trial(case, manner, planner=planner)


def entering(choices: Choices, depth: int | None = None) -> Trial:
    """ISTREAM ALL and ISTREAM of joins of time windows, as ``hosted``."""
    return _hosted(choices, draw_all_that_enter(choices))


def any_trial(choices: Choices, depth: int | None = None) -> Trial:
    """One of them all."""
    draw = choices.pick(evaluated, hosted, hosted, refreshed, w_joined, constrained, entering)
    return draw(choices, depth)


def _planned(choices: Choices) -> tuple[str, str]:
    return choices.pick(*PLANNERS), choices.pick(*JOINS)


def manner_of(choices: Choices) -> Manner:
    cuts = tuple(choices.index(101) / 100 for _ in range(choices.pick(3, 2, 1, 0, 4, 5)))
    kinds = ("", "rebuild", "rebuild", "snapshot", "snapshot, rebuild", "whole snapshot, rebuild")
    before = tuple(choices.pick(*kinds) for _ in range(len(cuts) + 2))
    heavy = tuple(choices.pick("", "R", "RS", "ST", "U", "QS"))
    partitions = choices.pick(1, 2, 3, 4, 5, 6)
    scheduler = choices.pick("fifo", "round-robin", "greedy", "chain", "any order", "any order")
    slice_rows, access = choices.pick(None, 1, 3, 7), choices.pick(*CHOICES["access_method"])
    spans = choices.pick(None, None, 20.0, 100.0)
    turned = settings_of(choices, len(before)) if choices.chance(3) else ()
    own = (partitions, cuts, before, 0, heavy, scheduler, slice_rows, access)
    freed = choices.pick(*CHOICES["invalidation"])
    exploited = choices.pick("declared", "declared", "off", "monitored safe", "monitored safe")
    return Manner(*own, freed, batch_span=spans, settings=turned, constraints=exploited)


SETTINGS: dict[str, tuple[Any, ...]] = {
    "scheduler": CHOICES["scheduler"],
    "slice_rows": (0, 1, 2, 5),
    "memory_limit": (0, 1, 20_000),
    "filters": CHOICES["filters"],
    "access_method": ("adaptive", "hash", "b+tree", "t-tree", "none"),
    "profiling": (0.0, 0.5, 1.0),
}
"""Settings of a running query that change no result, with values."""


def settings_of(choices: Choices, steps: int) -> tuple[tuple[int, str, Any], ...]:
    """Settings that are changed between steps."""
    found = []
    for _ in range(choices.pick(1, 2, 4)):
        name = choices.pick(*SETTINGS)
        value = choices.pick(*SETTINGS[name])
        if name in OF_OPERATORS and choices.pick(False, True):  # of one operator, if there is such a one
            name += f"@{choices.pick('mjoin', 'select', 'range_window')}.{choices.pick(2, 3, 4, 5, 6, 7)}"
        found.append((choices.index(steps), name, value))
    return tuple(found)


def _times(choices: Choices, batches: int) -> tuple[int, ...]:
    """Times of batches, by a clock that may stand still or be set back."""
    times = [choices.pick(1, 5)]
    for _ in range(batches):
        times.append(times[-1] + choices.pick(1, 2, 4, 0, -2))
    return tuple(times[:batches])


def _stamped(case: Case, manner: Manner) -> Case:
    """The case with the timestamps that the rows get on arrival, each batch later than the one before."""
    last, inputs = -1 << 62, {n: list(rows) for n, rows in case.inputs.items()}
    streams = {n: manner.batches(rows) for n, rows in inputs.items() if rows and isinstance(rows[0], tuple)}
    stamped: dict[str, list[Any]] = {n: [] for n in streams}
    for number, time in enumerate(manner.times):
        last = max(time, last + 1)
        for name, batches in streams.items():
            stamped[name] += [(last, *element[1:]) for element in batches[number]]
    return replace(case, inputs={**inputs, **stamped})


def _late(choices: Choices, case: Case, skew: int) -> Case:
    """The same elements, each arriving up to ``skew`` ticks after its time."""
    inputs = {}
    for name, rows in case.inputs.items():
        delayed = [(choices.index(skew + 1), row) for row in rows]
        timed = rows and isinstance(rows[0], tuple)
        inputs[name] = [row for _, row in sorted(delayed, key=lambda d: d[0] + d[1][0])] if timed else rows
    return replace(case, inputs=inputs)


def hold(seed: int, draw: Draw, seconds: float = 60) -> None:
    """Run the trial of a seed; if it fails, say what the smallest one like it is."""
    text = _failure(seed, draw, seconds)
    if text is None:
        return
    if text == "":
        raise Skip
    raise AssertionError(text)


@cache
def _failure(seed: int, draw: Draw, seconds: float) -> str | None:
    """None: it holds; "": it says nothing; else what went wrong."""
    choices = Choices(random=Random(seed))
    try:
        trial = draw(choices)
    except Skip:
        return ""
    failure = _run(trial)
    if failure is None or isinstance(failure, Skip):
        return None if failure is None else ""
    kind = type(failure)

    def fails(made: list[int]) -> list[int] | None:
        shorter = Choices(made)
        try:
            return shorter.made if isinstance(_run(draw(shorter)), kind) else None
        except Skip:
            return None

    smallest = draw(Choices(minimal(choices.made, fails, seconds)))
    said = "".join(traceback.format_exception_only(_run(smallest) or failure))
    where = "".join(traceback.format_tb(failure.__traceback__)[-2:])
    return f"{said}\n{where}\n# seed {seed}\n{smallest.snippet()}"


def _run(trial: Trial) -> Exception | None:
    try:
        trial.run()
    except Exception as failure:  # noqa: BLE001
        return failure
    return None
