"""Kafka's messages as the columns that a stream declares: JSON values, or the fields of a message itself."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from penstock.errors import CatalogError, nearest
from penstock.spark.map_side import kafka
from penstock.spark.map_side.bad_rows import CORRUPT, PLACE, WRONG, json_text, with_corrupt, wrong_value

PREFIX = "kafka_"
"""With JSON, columns named ``kafka_key``, ``kafka_timestamp``... are the message's own."""
FORMATS = ("json", "raw")
JSON_OPTIONS = ("timestampFormat", "timestampNTZFormat", "dateFormat")
OPTIONS = ("format", *JSON_OPTIONS, "startingOffsets", "maxOffsetsPerTrigger", "timeoutSeconds")

_ROW = "__row"
TOPIC, PARTITION = "#topic", "#partition"
"""Columns beside a message's: with the offset, by which the rows of a partition come, they order messages."""


def read(
    spark: SparkSession, topic: str, schema: StructType, options: dict[str, str], what: str
) -> DataFrame:
    """A topic's messages with the columns of ``schema``; JSON also marks malformed ones."""
    given = {_option(name, what): value for name, value in options.items()}
    format_ = given.get("format", "json").lower()
    if format_ not in FORMATS:
        raise CatalogError(f"{what}: the format {format_!r} is unknown; use one of {', '.join(FORMATS)}")
    prefix = PREFIX if format_ == "json" else ""
    own = [f.name.removeprefix(prefix) for f in schema if f.name.startswith(prefix)]
    message = _message_type()
    for name in own:
        if name not in message.fieldNames():
            known = ", ".join(prefix + n for n in message.fieldNames())
            raise CatalogError(f"{what}: a message of Kafka has no {prefix + name!r}; it has {known}")
    if format_ == "raw":
        columns = [f for f in message if f.name in (*own, *_places(topic).values())]
        messages = _messages(spark, topic, StructType(columns), given, what)
        shown = (F.col(f.name).cast(f.dataType).alias(f.name) for f in schema)
        return messages.select(*shown, *_ties(topic))
    columns = [f for f in message if f.name in (*own, "value", "offset", *_places(topic).values())]
    messages = _messages(spark, topic, StructType(columns), given, what)
    return _from_json(messages, schema, given, _ties(topic))


def _places(topics: str) -> dict[str, str]:
    """The columns that say which partition a message is of, by their names beside its own."""
    return {**({TOPIC: "topic"} if "," in topics else {}), PARTITION: "partition"}


def _ties(topics: str) -> list[Column]:
    return [F.col(name).alias(mark) for mark, name in _places(topics).items()]


def _messages(
    spark: SparkSession, topic: str, columns: StructType, options: dict[str, str], what: str
) -> DataFrame:
    passed = {"subscribe": topic, **{k: v for k, v in options.items() if k not in ("format", *JSON_OPTIONS)}}
    try:
        kafka.Topics.of(passed)
    except CatalogError as error:
        raise CatalogError(f"{what}: {error}") from None
    return spark.readStream.format(kafka.NAME).schema(columns).options(**passed).load()


def _from_json(
    messages: DataFrame, schema: StructType, options: dict[str, str], ties: Sequence[Column]
) -> DataFrame:
    inside = [f for f in schema if not f.name.startswith(PREFIX)]
    parsed = with_corrupt(StructType(inside))
    reader_options = {k: v for k, v in options.items() if k in JSON_OPTIONS}
    reader_options |= {"timeZone": "UTC", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    text = F.col("value").cast("string")
    # Spark's JSON reader silently replaces invalid UTF-8.
    readable = F.when(F.is_valid_utf8(text), text)
    rows = messages.withColumn(_ROW, F.from_json(readable, parsed, reader_options))
    malformed = F.col(_ROW).isNull() | F.col(_ROW)[CORRUPT].isNotNull()
    wrong = F.when(malformed, wrong_value(inside, lambda name: F.col(_ROW)[name], json_text(readable)))
    place = F.concat(F.lit("the message at partition "), "partition", F.lit(", offset "), "offset")
    return rows.select(*map(_shown, schema), *ties, wrong.alias(WRONG), place.alias(PLACE))


def _shown(field: StructField) -> Column:
    if field.name.startswith(PREFIX):
        return F.col(field.name.removeprefix(PREFIX)).cast(field.dataType).alias(field.name)
    return F.col(_ROW)[field.name].alias(field.name)


def _message_type() -> StructType:
    found = _parse_datatype_string(kafka.COLUMNS)
    assert isinstance(found, StructType)
    return found


def _option(name: str, what: str) -> str:
    """The exact name of an option; rejects unknown ones, which would have no effect."""
    known = next((o for o in OPTIONS if o.lower() == name.lower()), None)
    if known is None and not name.startswith("kafka."):
        near = nearest(name, OPTIONS)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(OPTIONS)} and kafka.*"
        raise CatalogError(f"{what}: Kafka has no option {name!r}; {hint}")
    return known or name
