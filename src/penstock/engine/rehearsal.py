"""Rehearse a query before it is registered: run it once on a few made-up rows, apart from everything.

The kernels that it needs are then compiled, or loaded, and in the cache on disk when a running engine takes
the query in: its first step takes no longer for that. What comes of the rows is thrown away.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.engine.command import REGISTER, Command
from penstock.engine.engine import Engine
from penstock.engine.registry import QueryPlan
from penstock.engine.settings import REHEARSED_TIMES
from penstock.engine.stage import TS, Arrival, Stage, StageInput, StepOutput
from penstock.expression import PythonCall

_VALUES = (0, "a", True, dt.datetime(1970, 1, 1), dt.date(1970, 1, 1), dt.timedelta(0))
"""Values of which every type of a column takes one."""


def rehearse(stages: Sequence[Stage], name: str, plan: QueryPlan) -> None:
    """Run a query of a pipeline with these stages on made-up rows. Errors are ignored: the rows are no data.

    A query with functions of the user's is left out: they may do more than compute.
    """
    if _calls_python(plan.root) or (plan.second is not None and _calls_python(plan.second.root)):
        return
    with suppress(Exception):
        register = Command(1, REGISTER, {"query": name, "plan": replace(plan, partitions=None).encoded()})
        first, *others = (Engine(replace(stage, memory=None)) for stage in stages)
        rows = [_arrival(i) for i in stages[0].inputs if i.name in plan.streams]
        for commands in ([register], []):
            sent = _onward(name, plan, first.step(rows, commands))
            for engine in others if sent else ():
                engine.step(sent, commands)


def _calls_python(value: Any) -> bool:
    if isinstance(value, PythonCall):
        return True
    if isinstance(value, tuple):
        return any(map(_calls_python, value))
    return is_dataclass(value) and any(_calls_python(getattr(value, f.name)) for f in fields(value))


def _arrival(taken: StageInput) -> Arrival:
    columns = {f.name: _column(f.type) for f in taken.schema}
    batch = pa.RecordBatch.from_pydict({TS: pa.array(REHEARSED_TIMES, pa.int64()), **columns})
    return Arrival(taken.name, 0, batch, min(REHEARSED_TIMES), max(REHEARSED_TIMES))


def _column(kind: pa.DataType) -> pa.Array:
    for value in _VALUES:
        with suppress(pa.ArrowException, TypeError):
            return pa.array([value] * len(REHEARSED_TIMES), kind)
    return pa.nulls(len(REHEARSED_TIMES), kind)


def _onward(name: str, plan: QueryPlan, output: StepOutput) -> list[Arrival]:
    """What the first stage sends to the second, as if all of its partitions had sent the same."""
    if plan.second is None:
        return []
    root, (read,) = output.roots[name], plan.second.inputs
    own = [(read.name, producer, root.batch, root.first) for producer in range(read.upstream)]
    return [Arrival(*its, progress=root.progress) for its in own]
