"""The language: CQL text to statements, and queries to logical plans.

``parse(text)`` returns the statements of a text, ``bind(query, catalog)`` the logical plan of a query,
``bind_insert(statement, catalog)`` the plan of INSERT INTO and its sink,
``define_view(statement, catalog)`` the catalog's entry of a view or of a stream defined by a query,
``define_function(name, function, returns)`` that of a user's function, ``define_aggregate`` that of an
aggregate, ``input_options`` the checked options of a stream or relation declared in Python, and
``constraints_of(text, ...)`` its constraints. Every mistake in CQL is a
:class:`~penstock.errors.CQLError` with line and column.
"""

from penstock.cql.expressions.user_functions import define_aggregate, define_function
from penstock.cql.inputs import constraints_of, input_options
from penstock.cql.pipelines import (
    Alter,
    CreatePipeline,
    DropQuery,
    PipelineStatement,
    RegisterQuery,
    SwitchPipeline,
    check_pipeline,
)
from penstock.cql.query import bind, bind_insert, bind_registration, columns_of, define_view
from penstock.cql.statements import (
    Create,
    CreateInput,
    CreateSink,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Refresh,
    SelectStatement,
    Set,
    Show,
    SourceSpec,
    Statement,
    parse,
    refresh_period,
    schema_of,
    seconds,
)
from penstock.cql.syntax.parser import split

__all__ = [
    "columns_of",
    "Alter",
    "Create",
    "CreateInput",
    "CreatePipeline",
    "CreateSink",
    "CreateTable",
    "CreateView",
    "Describe",
    "Drop",
    "DropQuery",
    "Explain",
    "Insert",
    "Refresh",
    "PipelineStatement",
    "RegisterQuery",
    "SelectStatement",
    "Set",
    "Show",
    "SourceSpec",
    "Statement",
    "SwitchPipeline",
    "bind",
    "bind_insert",
    "bind_registration",
    "check_pipeline",
    "constraints_of",
    "define_aggregate",
    "define_function",
    "define_view",
    "input_options",
    "parse",
    "refresh_period",
    "schema_of",
    "seconds",
    "split",
]
