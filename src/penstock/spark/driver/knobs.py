"""Settings of running queries: ``ps.set`` and ``ALTER QUERY ... SET``, checked and sent as commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.command import SETTING
from penstock.engine.knobs import OF_OPERATORS
from penstock.engine.operator import Node, nodes
from penstock.errors import CatalogError, nearest
from penstock.measurement import Kind, Measurements
from penstock.plan.physical import PlannedStage
from penstock.settings import CHOICES, READERS
from penstock.spark.driver import commands
from penstock.spark.driver.sysstream import Publishers


@dataclass(frozen=True)
class Knob:
    """A setting that a running query can change: how its value is read, and what it does."""

    read: Callable[[str], Any]
    doc: str
    choices: tuple[str, ...] = ()
    changes_results: bool = False


def _or_zero(name: str) -> Callable[[str], int]:
    return lambda value: READERS[name](value) or 0


def _share(value: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", value.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1:
        raise ValueError("write a share from 0 to 1, such as 0.01 or 1 %")
    return share


def _times(value: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", value.strip())
    times = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < times <= 1e6:
        raise ValueError("write how many times the declared budget, such as 0.5 or 200 %")
    return times


KNOBS: dict[str, Knob] = {
    "scheduler": Knob(READERS["scheduler"], "The order in which operators run.", CHOICES["scheduler"]),
    "slice_rows": Knob(
        _or_zero("slice_rows"), "The rows that go through the operators at once, which bounds queues."
    ),
    "memory_limit": Knob(
        _or_zero("memory_limit"), "The memory of each engine's state, such as 200 MB; the rest is on disk."
    ),
    "filters": Knob(READERS["filters"], "The algorithm that orders filters and probes.", CHOICES["filters"]),
    "profiling": Knob(_share, "The share of dropped tuples that are profiled, such as 0.01."),
    "access_method": Knob(
        lambda value: {"scan": "none"}.get(READERS["access_method"](value), READERS["access_method"](value)),
        "How windows are probed, where it finds the rows.",
        CHOICES["access_method"],
    ),
    "budget": Knob(
        _times, "How many times the declared budget (WITHIN) it has; changes results.", changes_results=True
    ),
    "sharing": Knob(
        READERS["sharing"],
        "Whether the queries of a pipeline share operators and windows.",
        CHOICES["sharing"],
    ),
    "publish_every": Knob(READERS["sysstream_every"], "How often SysStream gets its measurements."),
}
"""What a running query can change; nothing but ``budget`` changes a result."""


OF_PIPELINES = ("sharing",)
"""Those that only a pipeline has."""


def value_of(name: str, value: str) -> tuple[str, Any]:
    """A setting by its name without ``penstock.``, and the value that engines get.

    A name such as ``filters@mjoin.7`` is the setting of one operator.
    """
    key = name.lower().removeprefix("penstock.")
    own, at, operator = key.partition("@")
    if own not in KNOBS:
        raise CatalogError(_refusal(name, own))
    if at and (own not in OF_OPERATORS or not operator):
        raise CatalogError(
            f"{own} is a setting of the whole query; one operator can have {', '.join(OF_OPERATORS)}, "
            "such as filters@mjoin.7"
        )
    try:
        return key, KNOBS[own].read(str(value))
    except ValueError as error:
        raise CatalogError(f"{name} cannot be {value!r}; {error}") from None


def _refusal(name: str, key: str) -> str:
    if key in READERS:
        return (
            f"{name} is fixed when a query is made; SET it, then start the query again. While a query runs, "
            f"these can change: {', '.join(KNOBS)}"
        )
    near = nearest(key, KNOBS)
    hint = f"did you mean '{near}'?" if near else f"use one of {', '.join(KNOBS)}"
    return f"unknown setting {name!r}; {hint}"


def send(
    query: StreamingQuery,
    name: str,
    value: str,
    running: Measurements,
    stages: Sequence[PlannedStage] | None = None,
) -> None:
    """Change a setting of a running query: its engines use it from the next batch on.

    ``running``: its latest measurements, which must have the operator that is named. ``stages``: its plan,
    which must have what is changed.
    """
    key, read = value_of(name, value)
    operator, found = key.partition("@")[2], {m.entity for m in running.of_kind(Kind.OPERATOR)}
    if operator and found and operator not in found:
        raise CatalogError(f"the query has no operator {operator!r}; it has: {', '.join(sorted(found))}")
    if key in OF_PIPELINES and stages is not None:
        raise CatalogError(f"{key} is a setting of pipelines; this is a query by itself")
    if key == "budget" and stages is not None and not any(map(_has_budget, nodes(*_roots(stages)))):
        raise CatalogError("the query has no budget to change; write one with WITHIN")
    commands.append(query, SETTING, {"name": key, "value": read})
    if key == "publish_every":
        context = SparkContext._active_spark_context
        assert context is not None
        Publishers.of(context).set_period(str(query.runId), read)


def _roots(stages: Sequence[PlannedStage]) -> list[Node]:
    return [root for planned in stages for root in planned.stage.roots.values()]


def _has_budget(node: Node) -> bool:
    return getattr(node, "budget", None) is not None
