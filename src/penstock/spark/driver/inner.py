"""Streams over another query's DataFrame: that query's progress comes with its rows.

Rows alone complete no instant before a later row comes. A second stage knows better, since the partitions of
the first report their progress: how old their later rows are at least. So does a stream that is made of a
query's DataFrame, or of one that filters and selects its rows. For such a stream the DataFrame is built once
more, with the same attributes, and with one more row per partition and batch: a report, whose columns are
NULL but for ``PRODUCER`` and ``PROGRESS``.

What else Spark does with a query's DataFrame, such as an aggregate of its own, may hold rows back; then, as
with functions that a report would have to go through, the rows' own timestamps have to suffice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from penstock.spark.driver.parts import Parts
from penstock.spark.driver.tables import QueryTables
from penstock.spark.map_side.catalyst import quote
from penstock.spark.relay.fingerprint import Fingerprint
from penstock.spark.wire.record import PRODUCER, PROGRESS

_FOLLOWED = (
    *("filter", "select", "selectExpr", "withColumn", "withColumns"),
    *("withColumnRenamed", "withColumnsRenamed", "drop"),
)
"""The methods of a DataFrame that change rows one by one."""
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias"})
_NOT_FOR_REPORTS = ("PYTHON_UDF", "SCALA_UDF", "GENERATOR")
"""Spark's names for expressions that may fail for a report, or drop it."""


class Origin(Protocol):
    """A query's own DataFrame."""

    @property
    def fingerprints(self) -> Sequence[Fingerprint]:
        """Those of its stages."""

    @property
    def tables(self) -> QueryTables:
        """Its static tables."""

    def with_reports(self, parts: Parts) -> DataFrame:
        """Its rows and reports, under the same attributes."""


@dataclass(frozen=True)
class Call:
    """A call of a DataFrame's method; ``columns`` are those that the DataFrame had before."""

    method: str
    columns: tuple[str, ...]
    args: tuple[Any, ...]
    given: dict[str, Any]

    def again(self, df: DataFrame) -> DataFrame:
        """The same for a DataFrame with reports, which pass."""
        if self.method == "filter":
            (condition,) = (*self.args, *self.given.values())
            wanted = F.expr(condition) if isinstance(condition, str) else condition
            return df.filter(F.col(PROGRESS).isNotNull() | wanted)
        args = self.args
        if self.method.startswith("select"):
            args = (*self._chosen(), *map(quote, (PRODUCER, PROGRESS)))
        found: DataFrame = getattr(df, self.method)(*args, **self.given)
        return found

    def _chosen(self) -> Iterator[Any]:
        for arg in self.args:
            for column in arg if isinstance(arg, list) else (arg,):
                yield from (
                    map(quote, self.columns) if isinstance(column, str) and column == "*" else (column,)
                )


class Followed(ClassicDataFrame):
    """A DataFrame of a query's rows, one by one; what is derived of it by such methods is another."""

    origin: Origin
    calls: tuple[Call, ...] = ()

    def _derived(self, method: str, *args: Any, **given: Any) -> DataFrame:
        df = getattr(ClassicDataFrame, method)(self, *args, **given)
        call = Call(method, tuple(self.columns), args, given)
        return Derived(df, self.sparkSession, self.origin, (*self.calls, call))


for _name in _FOLLOWED:
    setattr(Followed, _name, partialmethod(Followed._derived, _name))


class Derived(Followed):
    """A DataFrame made of a query's own by methods that change rows one by one."""

    def __init__(self, df: Any, spark: SparkSession, origin: Origin, calls: tuple[Call, ...]) -> None:
        super().__init__(df._jdf, spark)
        self.origin, self.calls = origin, calls


@dataclass(frozen=True)
class InnerQuery:
    """The query whose rows a stream has."""

    origin: Origin
    calls: tuple[Call, ...]

    @property
    def tables(self) -> QueryTables:
        return self.origin.tables

    @property
    def fingerprints(self) -> Sequence[Fingerprint]:
        return self.origin.fingerprints

    @property
    def producers(self) -> int:
        """How many partitions of its last stage report their progress."""
        return self.fingerprints[-1].partitions

    def frame(self, parts: Parts) -> DataFrame:
        """The rows and the reports."""
        df = self.origin.with_reports(parts)
        for call in self.calls:
            df = call.again(df)
        return df


def inner_of(df: DataFrame, timestamp: str | None) -> InnerQuery | None:
    """The query whose rows a DataFrame has, with its time in the column ``timestamp``; None: unknown."""
    if not isinstance(df, Followed) or timestamp is None:
        return None
    inner = InnerQuery(df.origin, df.calls)
    try:
        reported = inner.frame(Parts(df.sparkSession, inner.tables, inner.fingerprints))
        return inner if _passes(reported, timestamp) and _columns(reported) == df.columns else None
    except PySparkException:
        return None


def _columns(reported: DataFrame) -> list[str]:
    return [name for name in reported.columns if name not in (PRODUCER, PROGRESS)]


def _passes(df: DataFrame, timestamp: str) -> bool:
    """Whether reports pass all that was made of a query's rows, and the timestamp is still its ``ts``."""
    nodes = list(_row_by_row(df))
    jvm: Any = df.sparkSession._jvm
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    unsafe = [getattr(patterns, name)() for name in _NOT_FOR_REPORTS]
    stamps = set[int]()
    for node in reversed(nodes):
        for e in _listed(node.expressions()):
            if any(e.containsPattern(pattern) for pattern in unsafe):
                return False
            own = e.child() if _kind(e) == "Alias" else None
            if own is not None and _kind(own) == "AttributeReference":
                if own.exprId().id() in stamps or (own.name() == "ts" and not stamps):
                    stamps.add(e.exprId().id())
    named = [a for a in _listed(nodes[0].output()) if a.name().lower() == timestamp.lower()]
    return len(named) == 1 and named[0].exprId().id() in stamps


def _row_by_row(df: DataFrame) -> Iterator[Any]:
    """The operators above that of the query's last stage; none of another kind is among them."""
    node = df._jdf.queryExecution().analyzed()
    while (kind := _kind(node)) in _ROW_BY_ROW:
        yield node
        node = node.children().apply(0)
    if not kind.startswith("TransformWithState"):
        raise PySparkException(f"{kind} may hold rows back")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _listed(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def under_attributes(df: DataFrame, as_of: DataFrame, more: Sequence[str]) -> DataFrame:
    """The columns of a DataFrame under another's attributes, and ``more`` of its columns.

    So what refers to columns of the one (``df.k``) also finds them in the other.
    """
    jvm: Any = df.sparkSession._jvm
    none, empty = (
        getattr(getattr(jvm, f"scala.{n}$"), "MODULE$") for n in ("None", "collection.immutable.Nil")
    )
    own, wanted = (_listed(d._jdf.queryExecution().analyzed().output()) for d in (df, as_of))
    named: list[Column] = []
    for child, attribute in zip(own, wanted, strict=False):
        alias = jvm.org.apache.spark.sql.catalyst.expressions.Alias(
            child, attribute.name(), attribute.exprId(), empty, none, empty
        )
        named.append(ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(alias)))
    return df.select(*named, *more)
