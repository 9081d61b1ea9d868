"""Aggregates of one's own in random queries: with and without ``remove``, of one and of two arguments."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow.compute as pc
from pyspark import cloudpickle

from penstock.catalog import FunctionDef
from penstock.cql import define_aggregate

State = dict[str, Any]
# Engine processes cannot import tests, so these functions travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _plus(a: State, b: State) -> State:
    return {"total": pc.add(a["total"], b["total"])}


def _minus(a: State, b: State) -> State:
    return {"total": pc.subtract(a["total"], b["total"])}


_SUM = {"returns": "BIGINT", "state": "total BIGINT", "merge": _plus, "remove": _minus,
        "finish": lambda state: state["total"]}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "own_sum": {**_SUM, "add": lambda x: {"total": pc.cast(x, "int64")}},
    "own_dot": {**_SUM, "add": lambda x, y: {"total": pc.cast(pc.multiply(x, y), "int64")}},
    "own_span": {
        "returns": "INT",
        "state": "low INT, high INT",
        "add": lambda x: {"low": x, "high": x},
        "merge": lambda a, b: {
            "low": pc.min_element_wise(a["low"], b["low"]),
            "high": pc.max_element_wise(a["high"], b["high"]),
        },
        "finish": lambda state: pc.subtract(state["high"], state["low"]),
    },
}
"""As ``penstock.evaluate`` takes them. Without ``remove`` a group is merged again when rows leave."""


def own_definitions() -> dict[str, FunctionDef]:
    """As a catalog has them."""
    return {name: define_aggregate(name, **parts) for name, parts in OWN.items()}
