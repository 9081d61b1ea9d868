"""Rows without a time or not of the declared form: rejected, or counted and left out.

Spark counts them: every progress report of a query has, under ``observedMetrics``, how many a batch had of
each stream declared ``ON BAD ROWS COUNT``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.map_side.catalyst import quote

MALFORMED, POSITION = "__malformed", "__position"
"""Columns that a reader may add: whether a row is malformed, and where it was found."""


def metric(stream: str) -> str:
    """The name under which a stream's bad rows are counted."""
    return f"penstock.{stream}"


def without_bad_rows(stream: str, df: DataFrame, needed: list[Column], policy: str) -> DataFrame:
    """The valid rows: well formed, with a value in every ``needed`` column.

    Under ``ON BAD ROWS ERROR`` the packer rejects rows without one, when it reads their values.
    """
    marked = MALFORMED in df.columns
    if policy == "error":
        return _refused(stream, df) if marked else df
    bad = F.col(MALFORMED) if marked else F.lit(False)
    for column in needed:
        bad = bad | column.isNull()
    counted = df.observe(metric(stream), F.count_if(bad).alias("bad_rows"))
    return counted.where(~bad).drop(MALFORMED, POSITION)


def _refused(stream: str, df: DataFrame) -> DataFrame:
    sentence = F.concat(
        F.lit(f"stream {stream!r}: the message at "),
        F.col(quote(POSITION)),
        F.lit(
            " is not a row of the declared columns; mend what produces it, or declare the stream "
            "ON BAD ROWS COUNT to leave such messages out and count them"
        ),
    )
    checked = F.when(F.col(MALFORMED), F.raise_error(sentence).cast("boolean")).otherwise(True)
    return df.where(checked).drop(MALFORMED, POSITION)
