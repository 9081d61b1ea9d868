"""Rows that a stream cannot take, without a time or of another form: refused, or counted and left out.

They are counted by Spark's own means: every progress report of a query has, under ``observedMetrics``, how
many a batch had of each stream declared ``ON BAD ROWS COUNT``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.map_side.catalyst import quote

MALFORMED, POSITION = "__malformed", "__position"
"""Columns that a reader may add: whether a row has not the declared form, and where it was found."""


def metric(stream: str) -> str:
    """The name under which a stream's bad rows are counted."""
    return f"penstock.{stream}"


def without_bad_rows(stream: str, df: DataFrame, needed: list[Column], policy: str) -> DataFrame:
    """The rows that can be taken: well formed, with a value in every ``needed`` column.

    Rows without one are refused where their values are looked at, in the packer.
    """
    told = MALFORMED in df.columns
    if policy == "error":
        return _refused(stream, df) if told else df
    bad = F.col(MALFORMED) if told else F.lit(False)
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
