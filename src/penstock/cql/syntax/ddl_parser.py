"""The parser of CREATE, DROP, INSERT and SET, as an extension of sqlglot's.

``CREATE STREAM`` is followed by columns and clauses, in any order, or by ``AS`` and a query; a relation is
defined as a stream whose rows say in one column whether they enter or leave; ``CREATE VIEW`` names a query.
``CREATE SINK`` mirrors a source: ``TO PARQUET 'dir' OPTIONS (...)`` and clauses in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.cql.settings import AUTO_DISORDER
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.cql.syntax.nodes import (
    ArrivalOrder,
    DropDefinition,
    Duration,
    DurationPart,
    HeavyValues,
    InputDefinition,
    Insertion,
    Inspection,
    KeyReference,
    RowCount,
    Setting,
    SinkDefinition,
    Source,
    TableDefinition,
    ViewDefinition,
)
from penstock.cql.syntax.precedence import PrecedenceParser
from penstock.schema import SQL_TYPES

DEFINED = ("STREAM", "RELATION", "TABLE", "VIEW", "SINK")
DROPPED = (*DEFINED, "FUNCTION")
STATEMENTS = (
    "write SELECT, INSERT, CREATE, REGISTER, START, STOP, ALTER, DROP, REFRESH, SET, SHOW, DESCRIBE or "
    "EXPLAIN"
)
INSPECTIONS = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
FILE_FORMATS = ("PARQUET", "JSON", "CSV")


class DDLParser(PrecedenceParser):
    """Spark's parser with lengths of time and definitions."""

    # numbers and lengths of time

    def _parse_signed_number(self, after: str) -> exp.Expr:
        start = self._curr or self._prev
        minus = "-" if self._match(TokenType.DASH) else ""
        if not self._match(TokenType.NUMBER):
            quoted = start.token_type == TokenType.STRING
            hint = f"write it without quotes, as in {after} 10 SECONDS" if quoted else None
            raise error(f"{after} takes a number", start, hint)
        return self.expression(exp.Literal(this=minus + self._prev.text, is_string=False), start)

    def _parse_duration(self, after: str | None = None) -> Duration:
        after = after or self._prev.text.upper()
        if self._match(TokenType.INTERVAL) and self._match(TokenType.STRING, advance=False):
            return self._parse_quoted_duration(after)
        parts = [self._parse_duration_part(after)]
        while self._curr and self._curr.token_type == TokenType.NUMBER:
            parts.append(self._parse_duration_part(after))
        return self.expression(Duration(expressions=parts))

    def _parse_quoted_duration(self, after: str) -> Duration:
        """A length of time in quotes: ``INTERVAL '10' SECONDS``, ``INTERVAL '1 day 2 hours'``."""
        text = self._curr
        self._advance()
        words = [*text.text.split(), *([self._parse_word().name] if self._curr_is_word() else [])]
        numbers, units = words[::2], words[1::2]
        if not words or len(numbers) != len(units):
            message = f"{after} INTERVAL '{text.text}' is not a length of time"
            raise error(message, text, "write e.g. 10 SECONDS")
        parts = [
            DurationPart(this=exp.Literal(this=n, is_string=False), unit=exp.Var(this=u))
            for n, u in zip(numbers, units, strict=True)
        ]
        return self.expression(Duration(expressions=parts), text)

    def _parse_duration_part(self, after: str) -> DurationPart:
        number = self._parse_signed_number(after)
        unit = self._parse_word() if self._curr_is_word() else None
        return self.expression(DurationPart(this=number, unit=unit))

    def _parse_word(self) -> exp.Expr:
        word = self._curr
        if not word:
            raise error(f"{self._prev.text.upper()} needs a word after it", self._prev)
        self._advance()
        return self.expression(exp.Var(this=word.text), word)

    def _curr_is_word(self) -> bool:
        return bool(self._curr) and self._curr.text.isidentifier() and self._curr.text.upper() not in _STOPS

    # DDL

    def _parse_create(self) -> Any:
        start = self._prev
        replace = self._match_text_seq("OR", "REPLACE")
        node: exp.Expr = self._parse_definition(start)
        if replace and node.args.get("if_taken"):
            raise error("a definition has OR REPLACE or IF NOT EXISTS, not both", start)
        if replace:
            node.set("if_taken", "replace")
        return node

    def _parse_definition(self, start: Token) -> Any:
        if not self._match_texts(DEFINED):
            what = self._curr.text.upper() if self._curr else ""
            hint = f"write CREATE {_any_of(DEFINED)}"
            if what == "FUNCTION":
                hint = "register it in Python with create_function(name, function, returns)"
            if what in ("TEMPORARY", "TEMP", "MATERIALIZED"):
                hint = "write CREATE VIEW: it lasts as long as the session, and stands for its query"
            raise unsupported(f"CREATE {what}".strip(), start, hint)
        word = self._prev.text.upper()
        keep = self._match_text_seq("IF", "NOT", "EXISTS")
        name = self._parse_defined_name(f"CREATE {word}")
        if word == "VIEW" or (word == "STREAM" and self._match(TokenType.ALIAS, advance=False)):
            node: exp.Expr = self._parse_view(start, name, word)
        elif word == "TABLE":
            node = self._parse_table_definition(start, name)
        elif word == "SINK":
            node = self._parse_sink_definition(start, name)
        else:
            node = self._parse_input_definition(start, name, word)
        if self._match_texts(("USING", "LOCATION")):
            hint = f"write {'TO' if word == 'SINK' else 'FROM'} PARQUET 'directory'"
            raise error(f"{self._prev.text.upper()} is not part of CREATE", self._prev, hint)
        if keep:
            node.set("if_taken", "keep")
        return node

    # what is there

    def _parse_inspection(self) -> Inspection:
        """SHOW, DESCRIBE or EXPLAIN, whose first word is the current token."""
        start = self._curr
        self._advance()
        kind = "describe" if start.text.upper() == "DESC" else start.text.lower()
        first = self._curr or start
        inside = self._parse_inspected(kind)
        text = self._find_sql(first, self._prev)
        return self.expression(Inspection(kind=kind, this=inside, text=text), start)

    def _parse_inspected(self, kind: str) -> exp.Expr | None:
        if kind == "explain":
            if self._match_texts(("EXTENDED", "FORMATTED", "COST", "CODEGEN", "ANALYZE", "VERBOSE")):
                word = self._prev.text.upper()
                raise error(f"EXPLAIN has no {word}", self._prev, "write EXPLAIN SELECT ...")
            return self._parse_statement()
        if kind == "describe":
            return self._parse_defined_name("DESCRIBE")
        shown = [f"{word}S" for word in DROPPED]
        if not self._match_texts(shown):
            hint = "DESCRIBE s shows the columns of one"
            every = _any_of((*shown, "PIPELINES", "QUERIES"))
            raise error(f"SHOW takes {every}", self._curr or self._prev, hint)
        word = self._prev.text
        if self._curr and self._curr.text.upper() in ("LIKE", "IN", "FROM"):
            hint = "filter the DataFrame that it returns"
            raise error(f"SHOW {word.upper()} takes nothing more", self._curr, hint)
        return exp.Var(this=word.lower().removesuffix("s"))

    def _parse_view(self, start: Token, name: exp.Expr, word: str) -> ViewDefinition:
        named = self._match(TokenType.L_PAREN, advance=False)
        columns = self._parse_wrapped_id_vars() if named else []
        if not self._match(TokenType.ALIAS):
            raise error(f"CREATE {word} takes AS and a query", self._curr or self._prev)
        first = self._curr or self._prev
        query = self._parse_statement()
        text = self._find_sql(first, self._prev)
        node = ViewDefinition(this=name, kind=word.lower(), query=query, text=text, columns=columns)
        return self.expression(node, start)

    def _parse_input_definition(self, start: Token, name: exp.Expr, word: str) -> InputDefinition:
        node = InputDefinition(this=name, kind=word.lower(), columns=self._parse_column_types())
        while self._parse_input_clause(node):
            pass
        if self._match(TokenType.ALIAS):
            raise error("a stream has columns or is defined by a query, not both", self._prev)
        return self.expression(node, start)

    def _parse_input_clause(self, node: InputDefinition) -> bool:
        for words, parse in INPUT_CLAUSES.items():
            if self._match_text_seq(*words):
                parse(self, node)
                return True
        return False

    def _parse_timestamp(self, node: InputDefinition) -> None:
        node.set("timestamp", self._parse_field_name())
        if self._match_text_seq("IN"):
            node.set("unit", self._parse_word())

    def _parse_disorder(self, node: InputDefinition) -> None:
        """``DISORDER t``, or ``DISORDER AUTO [UP TO t]``."""
        adaptive = self._match_text_seq("AUTO")
        if adaptive:
            node.set("adaptive", True)
            node.set("skew", AUTO_DISORDER)
        if not adaptive or self._match_text_seq("UP", "TO"):
            node.set("skew", self._parse_duration("DISORDER"))

    def _parse_table_definition(self, start: Token, name: exp.Expr) -> TableDefinition:
        node = TableDefinition(this=name, columns=self._parse_column_types())
        if self._match(TokenType.ALIAS):
            raise unsupported("CREATE TABLE ... AS", self._prev, "write CREATE VIEW ... AS")
        if self._match(TokenType.FROM):
            node.set("source", self._parse_source(FILE_FORMATS))
        if self._match_text_seq("REFRESH", "EVERY"):
            node.set("refresh", self._parse_duration("REFRESH EVERY"))
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
            hint = did_you_mean(start.text, SQL_TYPES, "types are Spark's, e.g. BIGINT or STRING")
            raise error(f"a column is written as name TYPE, and '{start.text}' is not a type", start, hint)
        return self.expression(exp.ColumnDef(this=name, kind=kind))

    def _parse_input_source(self) -> Source:
        return self._parse_source((*FILE_FORMATS, "KAFKA", "RATE"))

    def _parse_source(self, formats: tuple[str, ...]) -> Source:
        start = self._curr or self._prev
        if not self._match_texts(formats):
            other = "register a DataFrame of another source with create_stream or create_table"
            hint = did_you_mean(start.text, formats, other)
            raise error(f"FROM takes one of {', '.join(formats)}", start, hint)
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

    def _parse_field_names(self) -> list[exp.Expr]:
        return self._parse_wrapped_csv(self._parse_field_name, optional=True)

    def _parse_heavy(self) -> list[HeavyValues]:
        start = self._curr or self._prev
        column = self._parse_field_name()
        if not column or not self._match(TokenType.IN):
            raise error("heavy keys are written as HEAVY column IN (value, ...)", start)
        values = HeavyValues(this=column, expressions=self._parse_wrapped_csv(self._parse_unary))
        return [self.expression(values)]

    # constraints

    def _parse_key_reference(self) -> list[KeyReference]:
        columns = self._parse_field_names()
        if not columns or not self._match_text_seq("REFERENCES"):
            raise error("a reference is written as FOREIGN KEY (a) REFERENCES S (b)", self._prev)
        return self._parse_referred(columns)

    def _parse_referred(self, columns: list[exp.Expr] | None = None) -> list[KeyReference]:
        start = self._prev
        target = self._parse_defined_name("REFERENCES")
        named = self._match(TokenType.L_PAREN, advance=False)
        theirs = self._parse_field_names() if named else []
        if not theirs:
            raise error("REFERENCES takes a stream and its columns", start, "write REFERENCES S (column)")
        within = self._parse_adherence()
        found = KeyReference(this=target, columns=columns or theirs, expressions=theirs, within=within)
        return [self.expression(found, start)]

    def _parse_arrival_order(self) -> list[ArrivalOrder]:
        start = self._prev
        called = self._match(TokenType.L_PAREN, advance=False)
        columns = self._parse_wrapped_csv(self._parse_arriving) if called else []
        if len(columns) != 1:
            hint = "write e.g. ORDERED BY (a) WITHIN 10 ROWS, and a clause for each column"
            raise error("CLUSTERED BY and ORDERED BY take one column in parentheses", start, hint)
        return [self.expression(ArrivalOrder(this=columns[0], within=self._parse_adherence()), start)]

    def _parse_arriving(self) -> exp.Expr | None:
        column = self._parse_field_name()
        if self._match_texts(("ASC", "DESC")):
            hint = "write the column alone; ORDERED BY says that its values grow"
            raise error(f"syntax error near '{self._prev.text}'", self._prev, hint)
        return column

    def _parse_adherence(self) -> exp.Expr | None:
        """``WITHIN n ROWS`` or ``WITHIN`` a length of time, if it is there."""
        if not self._match_text_seq("WITHIN"):
            return None
        if self._curr and self._curr.text.upper() in ("ROWS", "ROW", "RANGE"):
            raise error("WITHIN takes a number first", self._curr, "write WITHIN 5 ROWS or WITHIN 5 SECONDS")
        signed = self._curr is not None and self._curr.token_type in (TokenType.DASH, TokenType.PLUS)
        unit = self._index + (2 if signed else 1)
        if unit >= len(self._tokens) or self._tokens[unit].text.upper() not in ("ROWS", "ROW"):
            return self._parse_duration("WITHIN")
        number = self._parse_signed_number("WITHIN")
        self._advance()
        return self.expression(RowCount(this=number))

    # sinks

    def _parse_sink_definition(self, start: Token, name: exp.Expr) -> SinkDefinition:
        node = SinkDefinition(this=name)
        while any(self._parse_sink_clause(node, *clause) for clause in SINK_CLAUSES.items()):
            pass
        if self._match(TokenType.ALIAS):
            raise error("a sink has no query", self._prev, f"write INSERT INTO {name.name} SELECT ...")
        return self.expression(node, start)

    def _parse_sink_clause(
        self, node: SinkDefinition, words: tuple[str, ...], parse: Callable[[DDLParser, SinkDefinition], None]
    ) -> bool:
        found = bool(self._match_text_seq(*words))
        if found:
            parse(self, node)
        return found

    def _parse_sink_format(self, node: SinkDefinition) -> None:
        """A word, or in quotes what is no word, as the name of a class; then a path or topic."""
        start = self._curr or self._prev
        format_ = self._parse_string() or (self._parse_word() if self._curr_is_word() else None)
        if format_ is None:
            raise error("TO takes a format", start, "write e.g. TO PARQUET 'directory' or TO CONSOLE")
        node.set("format", format_)
        node.set("path", self._parse_string())

    def _parse_trigger(self, node: exp.Expr) -> None:
        start = self._curr or self._prev
        if self._match_text_seq("EVERY"):
            node.set("trigger", self._parse_duration("TRIGGER EVERY"))
        elif self._match_text_seq("AVAILABLE", "NOW"):
            node.set("trigger", self.expression(exp.Var(this="available-now"), start))
        else:
            raise error("TRIGGER takes EVERY and a length of time, or AVAILABLE NOW", start)

    def _parse_checkpoint(self, node: exp.Expr) -> None:
        start = self._curr or self._prev
        path = self._parse_string()
        if not path:
            raise error("CHECKPOINT takes a directory in quotes", start)
        node.set("checkpoint", path)

    def _parse_insert(self) -> Any:
        start = self._prev
        if not self._match(TokenType.INTO):
            raise error("INSERT takes INTO, a sink and a query", start, "write INSERT INTO s SELECT ...")
        name = self._parse_defined_name("INSERT INTO")
        if self._match(TokenType.L_PAREN, advance=False) and self._next_is_name():
            hint = "name the columns in the query, with AS"
            raise error("INSERT INTO takes no list of columns", self._curr, hint)
        first = self._curr
        query = self._parse_statement() if first else None
        text = self._find_sql(first, self._prev) if first else ""
        return self.expression(Insertion(this=name, query=query or exp.Null(), text=text), start)

    def _next_is_name(self) -> bool:
        """Whether a name and no query follows a parenthesis."""
        return self._next is not None and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)

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


def _primary_key(parser: DDLParser, node: InputDefinition) -> None:
    start = parser._prev
    if node.args.get("primary_key"):
        raise error("PRIMARY KEY stands twice", start, "write PRIMARY KEY (a, b) for a key of two columns")
    node.set("primary_key", parser._parse_field_names())


def _option(name: str, parse: Callable[[DDLParser], Any]) -> Callable[[DDLParser, InputDefinition], None]:
    """A clause that sets one option; of a list, it may stand several times."""

    def rule(parser: DDLParser, node: InputDefinition) -> None:
        value = parse(parser)
        node.set(name, [*(node.args.get(name) or ()), *value] if isinstance(value, list) else value)

    return rule


INPUT_CLAUSES: dict[tuple[str, ...], Callable[[DDLParser, InputDefinition], None]] = {
    ("TIMESTAMP", "BY"): DDLParser._parse_timestamp,
    ("CHANGE", "BY"): _option("change", DDLParser._parse_field_name),
    ("DISORDER",): DDLParser._parse_disorder,
    ("SKEW",): DDLParser._parse_disorder,
    ("IDLE", "AFTER"): _option("idle_after", lambda parser: parser._parse_duration("IDLE AFTER")),
    ("HEARTBEAT", "BY"): _option("heartbeat", DDLParser._parse_field_name),
    ("ON", "BAD", "ROWS"): _option("bad_rows", DDLParser._parse_word),
    ("RATE",): _option("rate", DDLParser._parse_rate),
    ("PARTITIONED BY",): _option("partitioned_by", DDLParser._parse_field_names),
    ("HEAVY",): _option("heavy", DDLParser._parse_heavy),
    ("PRIMARY KEY",): _primary_key,
    ("FOREIGN KEY",): _option("references", DDLParser._parse_key_reference),
    ("REFERENCES",): _option("references", DDLParser._parse_referred),
    ("CLUSTERED", "BY"): _option("clustered_by", DDLParser._parse_arrival_order),
    ("ORDERED", "BY"): _option("ordered_by", DDLParser._parse_arrival_order),
    ("FROM",): _option("source", DDLParser._parse_input_source),
}
"""The clauses of CREATE STREAM and CREATE RELATION, in any order."""

SINK_CLAUSES: dict[tuple[str, ...], Callable[[DDLParser, SinkDefinition], None]] = {
    ("TO",): DDLParser._parse_sink_format,
    ("OPTIONS",): lambda parser, node: node.set("options", parser._parse_wrapped_csv(parser._parse_option)),
    ("PARTITIONED BY",): lambda parser, node: node.set("partitioned_by", parser._parse_field_names()),
    ("TRIGGER",): DDLParser._parse_trigger,
    ("CHECKPOINT",): DDLParser._parse_checkpoint,
}
"""The clauses of CREATE SINK, in any order."""

_AFTER_WINDOW = """
    AND WHERE GROUP HAVING QUALIFY ORDER LIMIT OFFSET UNION EXCEPT MINUS INTERSECT WITHIN MAXIMIZE SAMPLE
""".split()
_CLAUSES = (*INPUT_CLAUSES, *SINK_CLAUSES)
_STOPS = {"SLIDE", "EVERY", *_AFTER_WINDOW, *(words[0] for words in _CLAUSES)}
"""Words after a number that are not its unit."""
