"""Options of Spark's file sources: unknown ones, which Spark ignores without a word, are reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from pyspark.sql import DataFrame

from penstock.errors import CatalogError
from penstock.spark.settings import OPTION_SIMILARITY

_log = logging.getLogger("penstock")

_FILES = (
    "path maxFilesPerTrigger maxBytesPerTrigger maxCachedFiles discardCachedInputRatio latestFirst "
    "maxFileAge fileNameOnly cleanSource sourceArchiveDir pathGlobFilter recursiveFileLookup modifiedBefore "
    "modifiedAfter basePath ignoreCorruptFiles ignoreMissingFiles timeZone"
)
_TEXT = (
    "mode columnNameOfCorruptRecord dateFormat timestampFormat timestampNTZFormat multiLine encoding charset "
    "lineSep samplingRatio locale compression enableDateTimeParsingFallback singleVariantColumn"
)
KNOWN = {
    "parquet": f"{_FILES} mergeSchema datetimeRebaseMode int96RebaseMode",
    "json": (
        f"{_FILES} {_TEXT} primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames "
        "allowSingleQuotes allowNumericLeadingZeros allowNonNumericNumbers allowUnquotedControlChars "
        "allowBackslashEscapingAnyCharacter dropFieldIfAllNull"
    ),
    "csv": (
        f"{_FILES} {_TEXT} sep delimiter header quote escape comment inferSchema preferDate enforceSchema "
        "ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue nanValue positiveInf negativeInf "
        "maxColumns maxCharsPerColumn charToEscapeQuoteEscaping emptyValue unescapedQuoteHandling "
        "columnPruning extension"
    ),
}
"""By format, as in Spark's documentation."""


def check_options(source: str, given: Iterable[str], what: str) -> None:
    """Reject an option that is a misspelt one; report others that the format does not have."""
    for name, near in _unknown(source, given):
        if near:
            raise CatalogError(f"{what}: {source.upper()} has no option {name!r}; did you mean {near!r}?")
        _log.warning("%s: %s has no option %r; Spark ignores it", what, source.upper(), name)


def report_options(df: DataFrame, what: str) -> None:
    """The same for the files that a streaming DataFrame reads, but it is only reported."""
    plan: Any = df._jdf.queryExecution().analyzed()
    for leaf in _each(plan.collectLeaves()):
        if leaf.getClass().getSimpleName() == "StreamingRelation":
            source = leaf.dataSource()
            given = [pair._1() for pair in _each(source.options())]
            for name, near in _unknown(source.className(), given):
                hint = f"; did you mean {near!r}?" if near else ""
                _log.warning("%s: Spark ignores the option %r of its source%s", what, name, hint)


def _unknown(source: str, given: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Options that a format does not have, each with the one that may be meant."""
    known = {name.lower(): name for name in KNOWN.get(source.lower(), "").split()}
    for name in given if known else ():
        if name.lower() not in known and "." not in name:
            near = get_close_matches(name.lower(), known, 1, OPTION_SIMILARITY)
            yield name, known[near[0]] if near else None


def _each(scala: Any) -> Iterator[Any]:
    iterator = scala.iterator()
    while iterator.hasNext():
        yield iterator.next()
