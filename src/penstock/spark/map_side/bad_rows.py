"""Bad rows, without a time or with a value that is not of its column's type: rejected, or counted.

A reader of text marks its rows: ``WRONG`` says what is wrong with a row and is NULL for a good one, ``PLACE``
says where it was found. Catalyst computes both for bad rows only. Spark counts bad rows: every progress
report of a query has, under ``observedMetrics``, how many a batch had of each stream declared ``ON BAD ROWS
COUNT``, and one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from penstock.schema import a_value_of, sql_name
from penstock.spark.map_side.catalyst import quote
from penstock.spark.settings import SHOWN_ROW_CHARS

WRONG, PLACE = "__wrong", "__place"
CORRUPT = "__corrupt"
"""The column in which Spark's readers of JSON and CSV keep the text of a row that they cannot read."""
_CSV = frozenset("sep delimiter quote escape comment nullvalue emptyvalue chartoescapequoteescaping".split())
"""Options on which the values of a line of CSV depend."""

Text = Callable[[str], Column]


def metric(stream: str) -> str:
    """The name under which a stream's bad rows are counted."""
    return f"penstock.{stream}"


def marked_files(df: DataFrame, schema: StructType, format_: str, options: Mapping[str, str]) -> DataFrame:
    """The rows of JSON or CSV files, read ``with_corrupt``, with what is wrong with them and where."""
    text = F.col(CORRUPT)
    given = json_text(text) if format_ == "json" else _csv_text(text, schema, options)
    row = F.coalesce(text, F.to_json(F.struct(*(F.col(quote(f.name)) for f in schema))))
    place = F.concat(F.col("_metadata.file_path"), F.lit(", row "), F.substring(row, 1, SHOWN_ROW_CHARS))
    wrong = F.when(text.isNotNull(), wrong_value(schema, lambda name: F.col(quote(name)), given))
    columns = [F.col(quote(f.name)) for f in schema]
    return df.select(*columns, wrong.alias(WRONG), place.alias(PLACE))


def wrong_value(fields: Iterable[StructField], read: Text, given: Text) -> Column:
    """The first column that has a text and no value."""
    found = [
        F.when(
            read(f.name).isNull() & given(f.name).isNotNull(),
            F.concat(F.lit(f"column {f.name!r} is '"), given(f.name), F.lit(f"', not {_type(f)}")),
        )
        for f in fields
    ]
    return F.coalesce(*found, F.lit("not a row of the declared columns"))


def json_text(row: Column) -> Text:
    """The text of each field of a JSON object."""
    return lambda name: F.get_json_object(row, f"$['{name}']")


def _csv_text(row: Column, schema: StructType, options: Mapping[str, str]) -> Text:
    """The text of each value of a line of CSV."""
    columns = ", ".join(f"{quote(f.name)} STRING" for f in schema)
    own = {k: v for k, v in options.items() if k.lower() in _CSV}
    return lambda name: F.from_csv(row, columns, own)[name]


def _type(field: StructField) -> str:
    return a_value_of(sql_name(to_arrow_type(field.dataType, timezone="UTC")))


def with_corrupt(schema: StructType) -> StructType:
    """The schema with which ``marked_files`` wants files to be read."""
    return StructType([*schema, StructField(CORRUPT, StringType())])


def without_bad_rows(
    kind: str, name: str, df: DataFrame, needed: Mapping[str, Column], policy: str
) -> DataFrame:
    """The good rows: well formed, with a value in every ``needed`` column, by the name of its source column.

    Under ``ON BAD ROWS ERROR`` the packer rejects rows without one, where they are not marked.
    """
    marked = WRONG in df.columns
    if not marked and (policy == "error" or not needed):
        return df
    wrong = F.coalesce(F.col(WRONG) if marked else F.lit(None), *(_missing(*n) for n in needed.items()))
    row = F.to_json(F.struct(*(F.col(quote(c)) for c in df.columns)))
    place = F.col(PLACE) if marked else F.concat(F.lit("row "), F.substring(row, 1, SHOWN_ROW_CHARS))
    named = F.concat(place, F.lit(": "), wrong)
    if policy == "error":
        hint = "" if kind == "table" else f", or declare the {kind} ON BAD ROWS COUNT to leave such rows out"
        message = F.concat(F.lit(f"{kind} {name!r}: "), named, F.lit(f"; correct it{hint}"))
        good = df.where(F.when(wrong.isNotNull(), F.raise_error(message).cast("boolean")).otherwise(True))
    else:
        counts = [F.count_if(wrong.isNotNull()).alias("bad_rows"), F.max(named).alias("bad_row")]
        good = df.observe(metric(name), *counts).where(wrong.isNull())
    return good.drop(WRONG, PLACE)


def _missing(name: str, value: Column) -> Column:
    given = F.coalesce(F.concat(F.lit("'"), F.col(quote(name)).cast("string"), F.lit("'")), F.lit("NULL"))
    return F.when(value.isNull(), F.concat(F.lit(f"column {name!r} is "), given))


def _is_row(line: str, row: str) -> bool:
    """Whether a line of a file is a row as shown: its text, or JSON of the same values without NULLs."""
    if line.startswith(row):
        return True
    try:
        return bool(json.loads(line) == json.loads(row))
    except ValueError:
        return False


_FILE = re.compile(r"(file:\S+), row (.*?): (column '|not a row)", re.DOTALL)


def with_line(sentence: str) -> str:
    """A sentence about a row of a file on this machine with the number of its line, if it is found there."""
    found = _FILE.search(sentence)
    if found is None:
        return sentence
    path, row = Path(unquote(urlparse(found[1]).path)), found[2]
    try:
        with open(path, errors="replace") as lines:
            number = next((n for n, line in enumerate(lines, 1) if _is_row(line, row)), None)
    except OSError:
        return sentence
    place = f"{path}, line {number}" if number else f"{path}, row {row}"
    return f"{sentence[: found.start()]}{place}: {found[3]}{sentence[found.end() :]}"
