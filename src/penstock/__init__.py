"""Penstock: continuous queries in CQL on Spark.

>>> import penstock
>>> penstock.evaluate("SELECT * FROM S [ROWS 1]", {"S": [(1, {"a": 1})]})
[(1, '+', {'a': 1})]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    CatalogError,
    CQLError,
    DataError,
    EngineError,
    PenstockError,
    PipelineError,
    QueryFailed,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.evaluation import Change, Function
    from penstock.spark.driver.session import Session

__all__ = [
    "CQLError",
    "CatalogError",
    "DataError",
    "EngineError",
    "PenstockError",
    "PipelineError",
    "QueryFailed",
    "UnsupportedError",
    "connect",
    "evaluate",
]
__version__ = "0.1.0"


def connect(
    spark: SparkSession | None = None, partitions: int | None = None, shuffle_partitions: int | None = None
) -> Session:
    """A session on your Spark, or on a local one; see :class:`penstock.spark.driver.session.Session`."""
    from penstock.spark.driver.session import connect

    return connect(spark, partitions, shuffle_partitions)


def evaluate(
    cql: str,
    inputs: Mapping[str, Sequence[Any]],
    schemas: Mapping[str, str] | None = None,
    unit: str = "seconds",
    until: int | None = None,
    on: str = "engine",
    partitions: int = 1,
    batches: int = 3,
    functions: Mapping[str, Function] | None = None,
    constraints: Mapping[str, str] | None = None,
) -> list[Change]:
    """All changes of a query's result over finite inputs; see :func:`penstock.evaluation.evaluate`."""
    from penstock.evaluation import evaluate

    return evaluate(cql, inputs, schemas, unit, until, on, partitions, batches, functions, constraints)
