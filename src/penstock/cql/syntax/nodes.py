"""The syntax nodes that CQL adds to sqlglot's."""

from __future__ import annotations

from dataclasses import fields

from sqlglot import exp

from penstock.catalog import InputOptions


class StreamWindow(exp.Expression):
    """``kind`` is rows, range, now, tumble, hop or session; ``size`` a number or a :class:`Duration`.

    ``size`` is absent if unbounded; ``slide`` is the step of a hop too.
    """

    arg_types = {"kind": True, "size": False, "slide": False, "partition_by": False, "text": True}


class Duration(exp.Expression):
    """A length of time: :class:`DurationPart` s that add up."""

    arg_types = {"expressions": True}


class DurationPart(exp.Expression):
    """A number with its unit, or a bare number of ticks."""

    arg_types = {"this": True, "unit": False}


class Unsigned(exp.Expression, exp.Func):
    """What stands right of ``>>>``: the right side of a right shift that moves zeros in."""


class Positive(exp.Expression, exp.Func):
    """``+ x``."""


class WindowClause(exp.Expression):
    """The windows between streams that stand after FROM: ``expressions`` are :class:`StreamsWindow` s."""

    arg_types = {"expressions": True}


class StreamsWindow(exp.Expression):
    """WINDOW, DWINDOW or WINDOW PATH, which is its ``kind``: names of streams, and lengths of time.

    Without names it is a window between all streams.
    """

    arg_types = {"kind": True, "expressions": False, "sizes": True}


class RelationToStream(exp.Expression):
    """ISTREAM, DSTREAM or RSTREAM of a query (``this``) or around a select list (``expressions``)."""

    arg_types = {
        "kind": True,
        "this": False,
        "expressions": False,
        "distinct": False,
        "every": False,
        "with_": False,
    }


class InputDefinition(exp.Expression):
    """CREATE STREAM or CREATE RELATION, which is its ``kind``.

    Besides columns and source it has an argument per declared option of the input, and ``unit``.
    """

    arg_types = {
        "this": True,
        "kind": True,
        "columns": False,
        "source": False,
        "unit": False,
        "if_taken": False,
        **{option.name: False for option in fields(InputOptions)},
        **dict.fromkeys(("primary_key", "references", "clustered_by", "ordered_by"), False),
    }


class KeyReference(exp.Expression):
    """FOREIGN KEY (``columns``) REFERENCES ``this`` (``expressions``) WITHIN ``within``.

    Without columns they have the names of those that are referred to.
    """

    arg_types = {"this": True, "columns": False, "expressions": True, "within": False}


class ArrivalOrder(exp.Expression):
    """CLUSTERED BY or ORDERED BY one column, ``this``."""

    arg_types = {"this": True, "within": False}


class RowCount(exp.Expression):
    """A number of rows, where a length of time may stand too."""

    arg_types = {"this": True}


class HeavyValues(exp.Expression):
    """HEAVY column IN (values)."""

    arg_types = {"this": True, "expressions": True}


class TableDefinition(exp.Expression):
    """CREATE TABLE; ``refresh`` is the Duration of REFRESH EVERY."""

    arg_types = {"this": True, "columns": False, "source": False, "refresh": False, "if_taken": False}


class ViewDefinition(exp.Expression):
    """CREATE VIEW, or CREATE STREAM with a query: its ``text`` and its syntax tree."""

    arg_types = {"this": True, "kind": True, "query": True, "text": True, "columns": False, "if_taken": False}


class SinkDefinition(exp.Expression):
    """CREATE SINK; ``trigger`` is the Duration of TRIGGER EVERY, or a Var for AVAILABLE NOW."""

    arg_types = {
        "this": True,
        "format": False,
        "path": False,
        "options": False,
        "partitioned_by": False,
        "trigger": False,
        "checkpoint": False,
        "if_taken": False,
    }


class Insertion(exp.Expression):
    """INSERT INTO sink SELECT ...: ``this`` is the sink, ``query`` and ``text`` the query's tree and text."""

    arg_types = {"this": True, "query": True, "text": True}


class PipelineDefinition(exp.Expression):
    """CREATE PIPELINE over ``streams``; ``splits`` are :class:`PipelineSplit` s, the rest as of a sink."""

    arg_types = {
        "this": True,
        "streams": True,
        "splits": False,
        "checkpoint": False,
        "keep": False,
        "trigger": False,
        "stages": False,
        "columns": False,
        "if_taken": False,
    }


class PipelineSplit(exp.Expression):
    """SPLIT stream BY (columns), or COLUMNS stream (columns)."""

    arg_types = {"this": True, "expressions": True}


class PipelineSwitch(exp.Expression):
    """START PIPELINE or STOP PIPELINE: ``kind`` is start or stop."""

    arg_types = {"this": True, "kind": True}


class QueryAlteration(exp.Expression):
    """ALTER QUERY q SET name = value: ``setting`` is a Setting."""

    arg_types = {"this": True, "setting": True}


class QueryRegistration(exp.Expression):
    """REGISTER QUERY q IN p INTO s WITH HISTORY AS query: its syntax tree and its ``text``."""

    arg_types = {
        "this": True, "pipeline": False, "sink": False, "history": False, "query": False, "text": False
    }  # fmt: skip


class Inspection(exp.Expression):
    """SHOW STREAMS, DESCRIBE s or EXPLAIN SELECT ...: ``kind`` is the first word, ``this`` what follows, and
    ``text`` its text.
    """

    arg_types = {"this": True, "kind": True, "text": True}


class Setting(exp.Expression):
    """SET name = value."""

    arg_types = {"this": True, "value": True}


class DropDefinition(exp.Expression):
    """DROP STREAM, RELATION, TABLE, VIEW, SINK, FUNCTION or PIPELINE, or QUERY of a ``pipeline``."""

    arg_types = {"this": True, "kind": True, "exists": False, "pipeline": False}


class Source(exp.Expression):
    """FROM PARQUET 'dir' or FROM KAFKA 'topic' OPTIONS (...), or FROM RATE n ROWS PER SECOND."""

    arg_types = {"format": True, "path": False, "rate": False, "options": False}


class WithinClause(exp.Expression):
    """WITHIN RATE n PER unit, or WITHIN MEMORY n unit: its ``kind`` is rate or memory.

    ``least`` is the number of AT LEAST n EACH, ``before`` the place of DROP BEFORE WINDOWS.
    """

    arg_types = {"kind": True, "this": True, "unit": True, "least": False, "before": False}


class GoalClause(exp.Expression):
    """What a budget is used for: its ``kind`` is maximize or sample, ``this`` the policy or the scheme."""

    arg_types = {"kind": True, "this": False, "confidence": False}
