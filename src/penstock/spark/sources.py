"""Where streams and tables come from: DataFrames, and the directories that DDL names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Source:
    """A stream's DataFrame and its time in ticks, or a table's DataFrame."""

    df: DataFrame
    ticks: Any = None
