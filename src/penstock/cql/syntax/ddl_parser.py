"""The statements that define things, as sqlglot's parser reads them: CREATE, DROP and SET.

``CREATE STREAM`` is followed by columns and clauses, in any order, or by ``AS`` and a query; a relation is
defined as a stream whose rows say in one column whether they enter or leave; ``CREATE VIEW`` names a query.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from penstock.cql.syntax.errors import error, unsupported
from penstock.cql.syntax.nodes import (
    DropDefinition,
    Duration,
    DurationPart,
    HeavyValues,
    Setting,
    Source,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
)

DEFINED = ("STREAM", "RELATION", "TABLE", "VIEW")
DROPPED = (*DEFINED, "FUNCTION")
STATEMENTS = "write SELECT, CREATE, DROP or SET"
FILE_FORMATS = ("PARQUET", "JSON", "CSV")
BAD_ROWS = ("ERROR", "COUNT")


class DDLParser(SparkParser):
    """Spark's parser with lengths of time and definitions."""

    # numbers and lengths of time

    def _parse_signed_number(self, after: str) -> exp.Expr:
        start = self._curr or self._prev
        minus = "-" if self._match(TokenType.DASH) else ""
        if not self._match(TokenType.NUMBER):
            raise error(f"{after} takes a number", start)
        return self.expression(exp.Literal(this=minus + self._prev.text, is_string=False), start)

    def _parse_duration(self) -> Duration:
        after = self._prev.text.upper()
        parts = [self._parse_duration_part(after)]
        while self._curr and self._curr.token_type == TokenType.NUMBER:
            parts.append(self._parse_duration_part(after))
        return self.expression(Duration(expressions=parts))

    def _parse_duration_part(self, after: str) -> DurationPart:
        number = self._parse_signed_number(after)
        unit = self._parse_word() if self._curr_is_word() else None
        return self.expression(DurationPart(this=number, unit=unit))

    def _parse_word(self) -> exp.Expr:
        word = self._curr
        self._advance()
        return self.expression(exp.Var(this=word.text), word)

    def _curr_is_word(self) -> bool:
        stops = ("FROM", "IDLE", "SKEW", "TIMESTAMP", "CHANGE", "ON", "SLIDE", "RATE", "HEAVY")
        return bool(self._curr) and self._curr.text.isidentifier() and self._curr.text.upper() not in stops

    # DDL

    def _parse_create(self) -> Any:
        start = self._prev
        if not self._match_texts(DEFINED):
            what = self._curr.text.upper() if self._curr else ""
            hint = f"write CREATE {_any_of(DEFINED)}"
            if what == "FUNCTION":
                hint = "register it in Python with create_function(name, function, returns)"
            raise unsupported(f"CREATE {what}".strip(), start, hint)
        word = self._prev.text.upper()
        name = self._parse_defined_name(f"CREATE {word}")
        if word == "VIEW" or (word == "STREAM" and self._match(TokenType.ALIAS, advance=False)):
            return self._parse_view(start, name, word)
        if word == "TABLE":
            return self._parse_table_definition(start, name)
        return self._parse_stream_definition(start, name, word)

    def _parse_view(self, start: Token, name: exp.Expr, word: str) -> ViewDefinition:
        if self._match(TokenType.L_PAREN, advance=False):
            raise unsupported("a view with column names", self._curr, "write AS in its SELECT list")
        if not self._match(TokenType.ALIAS):
            raise error(f"CREATE {word} takes AS and a query", self._curr or self._prev)
        first = self._curr or self._prev
        query = self._parse_statement()
        text = self._find_sql(first, self._prev)
        return self.expression(ViewDefinition(this=name, kind=word.lower(), query=query, text=text), start)

    def _parse_stream_definition(self, start: Token, name: exp.Expr, word: str) -> StreamDefinition:
        node = StreamDefinition(this=name, kind=word.lower(), columns=self._parse_column_types())
        while self._parse_stream_clause(node):
            pass
        return self.expression(node, start)

    def _parse_stream_clause(self, node: StreamDefinition) -> bool:
        if self._match_text_seq("TIMESTAMP", "BY"):
            node.set("timestamp", self._parse_id_var(any_token=True))
            if self._match_text_seq("IN"):
                node.set("unit", self._parse_word())
        elif self._match_text_seq("CHANGE", "BY"):
            node.set("change", self._parse_id_var(any_token=True))
        elif self._match_text_seq("SKEW"):
            node.set("skew", self._parse_duration())
        elif self._match_text_seq("IDLE", "AFTER"):
            node.set("idle_after", self._parse_duration())
        elif self._match(TokenType.FROM):
            node.set("source", self._parse_source((*FILE_FORMATS, "KAFKA", "RATE")))
        elif self._match_text_seq("RATE"):
            node.set("rate", self._parse_rate())
        elif self._curr and self._curr.text.upper() == "PARTITIONED BY":
            self._advance()
            node.set("partitioned_by", self._parse_wrapped_csv(self._parse_field_name, optional=True))
        elif self._match_text_seq("HEAVY"):
            node.append("heavy", self._parse_heavy())
        elif self._match_text_seq("ON", "BAD", "ROWS"):
            node.set("bad_rows", self._parse_bad_rows())
        elif self._match(TokenType.ALIAS):
            raise error("a stream has columns or is defined by a query, not both", self._prev)
        else:
            return False
        return True

    def _parse_table_definition(self, start: Token, name: exp.Expr) -> TableDefinition:
        node = TableDefinition(this=name, columns=self._parse_column_types())
        if self._match(TokenType.ALIAS):
            raise unsupported("CREATE TABLE ... AS", self._prev, "write CREATE VIEW ... AS")
        if self._match(TokenType.FROM):
            node.set("source", self._parse_source(FILE_FORMATS))
        return self.expression(node, start)

    def _parse_defined_name(self, after: str) -> exp.Expr:
        start = self._curr or self._prev
        name = self._parse_id_var(any_token=False)
        if not name:
            raise error(f"{after} needs a name", start)
        return name

    def _parse_column_types(self) -> list[exp.Expr]:
        if not self._match(TokenType.L_PAREN, advance=False):
            return []
        return self._parse_wrapped_csv(self._parse_column_type)

    def _parse_column_type(self) -> exp.Expr:
        name = self._parse_id_var(any_token=True)
        start = self._curr or self._prev
        kind = self._parse_types(schema=True)
        if not name or not kind:
            hint = "types are Spark's, e.g. BIGINT or STRING"
            raise error(f"a column is written as name TYPE, and '{start.text}' is no type", start, hint)
        return self.expression(exp.ColumnDef(this=name, kind=kind))

    def _parse_source(self, formats: tuple[str, ...]) -> Source:
        start = self._curr or self._prev
        if not self._match_texts(formats):
            raise error(f"FROM takes one of {', '.join(formats)}", start)
        name = self._prev.text.lower()
        source = Source(format=name)
        if name != "rate":
            source.set("path", self._parse_source_path(name))
        elif self._match(TokenType.NUMBER, advance=False):
            source.set("rate", self._parse_rate())
        if self._match_text_seq("OPTIONS"):
            source.set("options", self._parse_wrapped_csv(self._parse_option))
        return self.expression(source, start)

    def _parse_source_path(self, name: str) -> exp.Expr:
        start = self._curr or self._prev
        path = self._parse_string()
        if not path:
            what = "topic" if name == "kafka" else "path"
            raise error(f"FROM {name.upper()} takes a {what} in quotes", start)
        return path

    def _parse_rate(self) -> exp.Expr:
        number = self._parse_signed_number("RATE")
        if not self._match_text_seq("ROWS", "PER", "SECOND"):
            raise error("a rate is written as n ROWS PER SECOND", self._curr or self._prev)
        return number

    def _parse_option(self) -> exp.Expr:
        start = self._curr or self._prev
        key = self._parse_string() or self._parse_option_name()
        self._match(TokenType.EQ)
        value = self._parse_primary()
        if not key or not isinstance(value, exp.Literal | exp.Boolean):
            raise error("an option is written as name 'value'", start)
        return self.expression(exp.Property(this=key, value=value))

    def _parse_option_name(self) -> exp.Expr | None:
        """Words with dots between them."""
        start = self._curr or self._prev
        words = [self._parse_id_var(any_token=True)]
        while self._match(TokenType.DOT):
            words.append(self._parse_id_var(any_token=True))
        if not all(words):
            return None
        return self.expression(exp.Var(this=".".join(w.name for w in words if w)), start)

    def _parse_field_name(self) -> exp.Expr | None:
        return self._parse_id_var(any_token=True)

    def _parse_heavy(self) -> HeavyValues:
        start = self._curr or self._prev
        column = self._parse_field_name()
        if not column or not self._match(TokenType.IN):
            raise error("heavy keys are written as HEAVY column IN (value, ...)", start)
        return self.expression(
            HeavyValues(this=column, expressions=self._parse_wrapped_csv(self._parse_unary))
        )

    def _parse_bad_rows(self) -> exp.Expr:
        if not self._match_texts(BAD_ROWS):
            raise error(f"ON BAD ROWS takes {' or '.join(BAD_ROWS)}", self._curr or self._prev)
        return self.expression(exp.Var(this=self._prev.text.lower()), self._prev)

    def _parse_drop(self, exists: bool = False, kind: str | None = None) -> Any:
        start = self._prev
        if not self._match_texts(DROPPED):
            what = self._curr.text.upper() if self._curr else ""
            raise unsupported(f"DROP {what}".strip(), start, f"write DROP {_any_of(DROPPED)}")
        what = self._prev.text.upper()
        if_exists = self._parse_exists()
        name = self._parse_defined_name(f"DROP {what}")
        return self.expression(DropDefinition(this=name, kind=what.lower(), exists=if_exists), start)

    # settings

    def _parse_set(self, unset: bool = False, tag: bool = False) -> Any:
        start = self._prev
        first = self._curr or self._prev
        while self._curr and self._curr.token_type != TokenType.EQ:
            self._advance()
        name = self._find_sql(first, self._prev).strip() if self._prev is not start else ""
        if not name or not self._match(TokenType.EQ) or not self._curr:
            raise error("a setting is written as SET name = value", first)
        return self._parse_setting(start, name)

    def _parse_setting(self, start: Token, name: str) -> Setting:
        first = self._curr
        string = first.token_type == TokenType.STRING
        while self._curr:
            self._advance()
        value = first.text if string and self._prev is first else self._find_sql(first, self._prev)
        return self.expression(Setting(this=name, value=value), start)


def _any_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
