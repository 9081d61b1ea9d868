"""Penstock: continuous queries in CQL on Spark.

>>> import penstock
>>> penstock.evaluate("SELECT * FROM S [ROWS 1]", {"S": [(1, {"a": 1})]})
[(1, '+', {'a': 1})]
"""

from __future__ import annotations

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
    from penstock.evaluation import evaluate
    from penstock.spark.driver.session import connect

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


def __getattr__(name: str) -> Any:
    """``connect`` and ``evaluate`` are imported when they are used: what needs neither starts sooner."""
    if name == "connect":
        from penstock.spark.driver.session import connect

        return connect
    if name == "evaluate":
        from penstock.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
