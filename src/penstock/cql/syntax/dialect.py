"""CQL as a sqlglot dialect: Spark's SQL plus windows, relation-to-stream operators and stream DDL.

sqlglot parses the SQL. What is added here, each where sqlglot has a hook for it:

* ``S [RANGE 10 MINUTES] AS x``: a :class:`StreamWindow` in the ``window`` argument of the FROM item;
* ``SELECT ISTREAM(a, b)``: the select list is one :class:`RelationToStream` around the items;
* ``ISTREAM(SELECT ...)``: a :class:`RelationToStream` around the query; ``ISTREAM ALL(...)``, in both forms,
  is one of kind ``istream all``;
* ``(SELECT ISTREAM(...) ...) [ROWS 5] AS x``: the same windows after a query in parentheses;
* ``FROM A, B WINDOW (A, B) 5 SECONDS``: a :class:`WindowClause` in the ``between`` argument of the SELECT.

Definitions and settings are in ``ddl_parser``.

Functions are left as they are written (``Anonymous`` nodes): which there are, and what types they take,
is the binder's business, by Spark's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeGuard

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from penstock.cql.syntax.ddl_parser import INSPECTIONS, STATEMENTS
from penstock.cql.syntax.errors import error, unsupported
from penstock.cql.syntax.nodes import (
    Duration,
    GoalClause,
    RelationToStream,
    StreamsWindow,
    StreamWindow,
    WindowClause,
    WithinClause,
)
from penstock.cql.syntax.pipeline_parser import PipelineParser
from penstock.errors import CQLError

BOUNDED = ("TUMBLE", "HOP", "SESSION")
"""The windows that have bounds."""
RELATION_TO_STREAM = ("ISTREAM", "DSTREAM", "RSTREAM")
ISTREAM_ALL = "ISTREAM ALL"
SEVERAL = "write e.g. WINDOW (A, B) 5 SECONDS AND WINDOW (B, C) 2 SECONDS; other conditions stand in WHERE"
AFTER_SAMPLE = ("CONFIDENCE", "USING", ";", ")", "UNION", "EXCEPT", "MINUS", "INTERSECT")
"""What may follow SAMPLE where it names no scheme."""

CLAUSES = (
    (TokenType.WHERE,),
    (TokenType.GROUP_BY,),
    (TokenType.HAVING,),
    (TokenType.QUALIFY,),
    (TokenType.ORDER_BY,),
    (TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
)
"""The clauses after FROM as they follow each other; sqlglot takes them in any order."""


def _check_order(tokens: Sequence[Token]) -> None:
    """Reject a clause that stands after one that must follow it."""
    places = {kind: place for place, kinds in enumerate(CLAUSES) for kind in kinds}
    depth, last = 0, None
    for token in tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.L_BRACKET)
        depth -= kind in (TokenType.R_PAREN, TokenType.R_BRACKET)
        if depth or kind not in places:
            continue
        if last is not None and places[kind] < places[last.token_type]:
            word = token.text.upper()
            raise error(f"syntax error near '{word}'", token, f"write {word} before {last.text.upper()}")
        last = token


def around_list(operator: str, at: exp.Expr | Token) -> CQLError:
    """The error for ISTREAM and the like around a part of the SELECT list."""
    word = operator.upper()
    return error(f"{word} must enclose the whole SELECT list", at, f"write SELECT {word}(a, b) FROM ...")


Modifier = tuple[str, Any]


def _placed(parse: Callable[[SparkParser], Modifier]) -> Callable[[SparkParser], Modifier]:
    """A clause's parser that marks its result with the position of the clause's first word."""

    def parse_and_place(parser: SparkParser) -> Modifier:
        start = parser._curr
        key, node = parse(parser)
        return key, node.update_positions(start) if isinstance(node, exp.Expr) else node

    return parse_and_place


class CQLParser(PipelineParser):
    """Spark's parser with CQL's constructs."""

    STRICT_CAST = True  # CAST stays CAST: it fails on what it cannot convert, as in ANSI Spark
    JOINS_HAVE_EQUAL_PRECEDENCE = False  # a comma is not CROSS JOIN: it needs a predicate
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "SUBSTRING", "SUBSTR", "TRIM", "EXTRACT", "POSITION")
    }
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    QUERY_MODIFIER_PARSERS = {
        token: _placed(parse)
        for token, parse in {
            **SparkParser.QUERY_MODIFIER_PARSERS,
            TokenType.WINDOW: lambda self: self._parse_window_clauses(),
        }.items()
    }

    # places for errors

    def parse_set_operation(self, *args: Any, **kwargs: Any) -> exp.SetOperation | None:
        """A set operation, with the place of its word."""
        start, node = self._curr, super().parse_set_operation(*args, **kwargs)
        return node.update_positions(start) if node else None

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        """A list; sqlglot would ignore a trailing comma."""

        def parse_item() -> Any:
            before, item = self._prev, parse_method()
            if item is None and before and before.token_type == sep:
                raise error(f"something is missing after '{before.text}'", before)
            return item

        return super()._parse_csv(parse_item, sep)

    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        group = super()._parse_group(*args, **kwargs)
        if group is not None and not any(group.args.values()):
            raise error("something is missing after 'GROUP BY'", self._prev)
        return group

    def _parse_hint(self) -> exp.Hint | None:
        start, hint = self._curr, super()._parse_hint()
        return hint.update_positions(start) if hint else None

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        start, join = self._curr, super()._parse_join(*args, **kwargs)
        if join is None and start and start.token_type == TokenType.COMMA:
            raise error("expected a stream or table after ','", start)
        written = self._prev and self._prev.token_type in (TokenType.TRUE, TokenType.FALSE)
        if join and isinstance(join.args.get("on"), exp.Boolean) and not written:
            join.set("on", None)  # filled in by sqlglot for an outer join that has no ON
        if join and start.token_type == TokenType.COMMA:
            join.meta["comma"] = True
            return join
        return join.update_positions(start) if join else None

    def _parse_query_modifiers(self, this: Any) -> Any:
        start, found = self._index, super()._parse_query_modifiers(this)
        _check_order(self._tokens[start : self._index])
        return found

    def _warn_unsupported(self) -> None:
        raise unsupported(f"the statement {self._tokens[0].text.upper()}", self._tokens[0], STATEMENTS)

    # relation-to-stream

    def _parse_statement(self) -> exp.Expr | None:
        start, operator = self._curr, self._match_relation_to_stream()
        if operator:
            return self._parse_within(self._parse_stream_query(operator))
        if start and start.text.upper() in INSPECTIONS:
            return self._parse_inspection()
        pipelines = self._parse_pipeline_statement() if start else None
        if pipelines:
            return pipelines
        node = super()._parse_statement()
        if node and "line" not in node.meta:
            node.update_positions(start)
        return self._parse_within(node) if _is_query(node) else node

    # budgets

    def _parse_within(self, query: exp.Expr) -> exp.Expr:
        """``WITHIN RATE 100 PER SECOND`` and ``WITHIN MEMORY 1000 ROWS`` after a query, in either order."""
        clauses = list[WithinClause]()
        while self._curr and self._starts_within(again=bool(clauses)):
            start = self._curr
            self._advance()
            clauses.append(self._parse_rate_or_memory(start))
        goal = self._parse_goal()
        if goal:
            query.meta["goal"] = goal
        if clauses:
            query.meta["within"] = clauses
        return query

    def _starts_within(self, again: bool = False) -> bool:
        word = self._curr.text.upper()
        return (again and word == "AND") or (word == "WITHIN" and self._within_what(self._next))

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """A query, which may have a budget wherever it stands; an operand of a set operation has none."""
        query = super()._parse_select(*args, **kwargs)
        part = kwargs.get("table") or not kwargs.get("parse_set_operation", True)
        return query if part or not _is_query(query) else self._parse_whole(query)

    def _parse_whole(self, query: exp.Expr) -> exp.Expr:
        """A query with its budget; that of a first operand of a set operation stands before the operation."""
        before, query = self._index, self._parse_within(query)
        if self._index == before:
            return query
        both = self._parse_set_operations(query)
        return query if both is query or both is None else self._parse_whole(both)

    def _parse_wrapped_select(self, table: bool = False) -> exp.Expr | None:
        query = super()._parse_wrapped_select(table)
        return self._parse_whole(query) if _is_query(query) else query

    @staticmethod
    def _within_what(token: Token | None) -> bool:
        return token is not None and token.text.upper() in ("RATE", "MEMORY")

    def _parse_rate_or_memory(self, start: Token) -> WithinClause:
        self._match_text_seq("WITHIN")
        kind = "rate" if self._match_text_seq("RATE") else "memory" if self._match_text_seq("MEMORY") else ""
        number = self._parse_signed_number(kind.upper()) if kind else None
        if kind == "rate" and not self._match_text_seq("PER"):
            kind = ""
        unit = None if self._starts_goal() else self._parse_var(any_token=True)
        if kind == "memory" and number is not None and unit is None:
            raise error(f"WITHIN MEMORY {number.name} has no unit", self._prev, "write ROWS, KB, MB or GB")
        if not kind or unit is None:
            forms = "WITHIN RATE 100 PER SECOND or WITHIN MEMORY 1000 ROWS"
            raise error(f"a budget is written {forms}", self._curr or self._prev)
        clause = self.expression(WithinClause(kind=kind, this=number, unit=unit), start)
        while self._curr and self._curr.text.upper() in ("AT", "DROP"):
            self._parse_within_option(clause)
        return clause

    def _parse_within_option(self, clause: WithinClause) -> None:
        """``AT LEAST 10 EACH`` or ``DROP BEFORE WINDOWS``."""
        start = self._curr
        if self._match_text_seq("DROP", "BEFORE", "WINDOWS"):
            clause.set("before", exp.Boolean(this=True).update_positions(start))
        elif self._match_text_seq("AT", "LEAST"):
            clause.set("least", self._parse_signed_number("AT LEAST"))
            if not self._match_text_seq("EACH"):
                raise error("a minimum per stream is written AT LEAST 10 EACH", self._curr or self._prev)
        else:
            raise error("a budget is followed by AT LEAST 10 EACH or DROP BEFORE WINDOWS", start)

    def _starts_goal(self) -> bool:
        words = [t.text.upper() for t in (self._curr, self._next) if t]
        return words == ["MAXIMIZE", "RESULTS"]

    def _parse_goal(self) -> GoalClause | None:
        """After a budget, ``MAXIMIZE RESULTS [USING x]`` or ``SAMPLE [UNIFORM | CLUSTER] [CONFIDENCE x]``."""
        start = self._curr
        if self._match_text_seq("MAXIMIZE"):
            if not self._match_text_seq("RESULTS"):
                raise error("MAXIMIZE must be followed by RESULTS", self._curr or self._prev)
            using = self._parse_var(any_token=True) if self._match_text_seq("USING") else None
            return self.expression(GoalClause(kind="maximize", this=using), start)
        if not self._match_text_seq("SAMPLE"):
            return None
        plain = self._curr is None or self._curr.text.upper() in AFTER_SAMPLE
        scheme = None if plain else self._parse_var(any_token=True)
        if self._match_text_seq("USING"):
            raise error("SAMPLE takes no USING", self._prev, "write SAMPLE, or MAXIMIZE RESULTS USING AGE")
        confident = self._match_text_seq("CONFIDENCE")
        level = self._parse_number() if confident else None
        if confident and level is None:
            raise error("CONFIDENCE takes a number", self._prev, "write e.g. CONFIDENCE 0.95")
        return self.expression(GoalClause(kind="sample", this=scheme, confidence=level), start)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        if self._curr and self._curr.token_type == TokenType.L_BRACE:
            raise error("a window is written in brackets", self._curr, "write [NOW], [RANGE ...] or [ROWS n]")
        if self._curr and (
            self._starts_goal() or (self._curr.text.upper() == "WITHIN" and self._within_what(self._next))
        ):
            return None
        start, alias = self._curr, super()._parse_table_alias(*args, **kwargs)
        if alias and isinstance(alias.this, exp.Parameter | exp.Placeholder):  # from S@v1 or S:x
            raise error(f"syntax error near '{start.text}'", start, "an alias is a name, as in S AS x")
        return alias

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        starts = self._starts_query(2 if self._next and self._next.token_type == TokenType.ALL else 1)
        operator = self._match_relation_to_stream() if starts else None
        return (
            self._parse_stream_query(operator) if operator else super()._parse_select_query(*args, **kwargs)
        )

    def _starts_query(self, ahead: int = 0) -> bool:
        """Whether a query, in parentheses or not, begins ``ahead`` tokens from here."""
        position = self._index + ahead
        while position < len(self._tokens) and self._tokens[position].token_type == TokenType.L_PAREN:
            position += 1
        queries = (TokenType.SELECT, TokenType.WITH)
        return position < len(self._tokens) and self._tokens[position].token_type in queries

    def _parse_stream_query(self, operator: Token) -> RelationToStream:
        if not self._starts_query():
            word = operator.text.upper()
            raise error(f"{word} must enclose a query", operator, f"write {word}(SELECT ... FROM ...)")
        query = self._parse_wrapped(self._parse_wrapped_select)
        return self._relation_to_stream(operator, this=query)

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        operator = self._match_relation_to_stream()
        if not operator:
            return super()._parse_projections()
        self._match_l_paren()
        distinct = self._match(TokenType.DISTINCT)
        items = self._parse_expressions()
        self._match_r_paren()
        if self._match(TokenType.COMMA):
            raise around_list(operator.text, operator)
        return [self._relation_to_stream(operator, expressions=items, distinct=distinct)], None

    def _match_relation_to_stream(self) -> Token | None:
        """ISTREAM, DSTREAM, RSTREAM or ISTREAM ALL before a parenthesis."""
        if self._next and self._next.token_type == TokenType.L_PAREN:
            if self._match_texts(RELATION_TO_STREAM):
                return self._prev
        after = self._tokens[self._index + 2 : self._index + 3]
        if not after or after[0].token_type != TokenType.L_PAREN or self._next.token_type != TokenType.ALL:
            return None
        operator = self._curr
        if not self._match_texts(RELATION_TO_STREAM):
            return None
        self._advance()
        if operator.text.upper() != "ISTREAM":
            raise error(f"ALL applies to ISTREAM, not to {operator.text.upper()}", self._prev)
        names = ("token_type", "text", "line", "col", "start", "end")
        kind, _, *where = (getattr(operator, name) for name in names)
        return Token(kind, ISTREAM_ALL, *where)

    def _relation_to_stream(self, operator: Token, **args: Any) -> RelationToStream:
        every = self._parse_duration() if self._match_text_seq("EVERY") else None
        kind = operator.text.lower()
        return self.expression(RelationToStream(kind=kind, every=every, **args), operator)

    # windows

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        item = super()._parse_table(*args, **kwargs)
        if isinstance(item, RelationToStream):
            item = self._parse_subquery(item)
        return self._parse_stream_window(item) if isinstance(item, exp.Table | exp.Subquery) else item

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return (
            self._parse_stream_window(this) if isinstance(this, exp.Table) else super()._parse_bracket(this)
        )

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        start, window = self._curr, self._parse_window_in_brackets()
        subquery = super()._parse_subquery(this, parse_alias)
        if window and subquery is None:
            raise error("a window follows a stream", start)
        if window and subquery:
            subquery.set("window", window)
        return subquery

    def _parse_stream_window(self, item: exp.Expr) -> exp.Expr:
        start, window = self._curr, self._parse_window_in_brackets()
        if window and item.args.get("window"):
            raise error(f"'{item.alias_or_name}' has two windows", start)
        if window:
            item.set("window", window)
        return item

    def _parse_window_clauses(self) -> Modifier:
        """Windows between streams, or SQL's named windows, which follow WINDOW with a name and AS."""
        position = self._index + 2
        if position < len(self._tokens) and self._tokens[position].token_type == TokenType.ALIAS:
            return "windows", self._parse_window_clause()
        found = [self._parse_streams_window()]
        while self._match(TokenType.AND):
            found.append(self._parse_streams_window())
        after = (TokenType.L_PAREN, TokenType.WINDOW)
        comma = self._match(TokenType.COMMA, advance=False) and self._next and self._next.token_type in after
        if comma or self._match(TokenType.WINDOW, advance=False):
            raise error("several windows need AND between them", self._curr, SEVERAL)
        return "between", self.expression(WindowClause(expressions=found))

    def _parse_streams_window(self) -> StreamsWindow:
        """``WINDOW w``, ``WINDOW (A, B) w``, ``DWINDOW (A, B) w`` or ``WINDOW PATH (A, B, C) (w, w)``."""
        start = self._curr
        if not self._match(TokenType.WINDOW):
            at = start or self._prev
            raise error("AND in a WINDOW clause must be followed by WINDOW or DWINDOW", at, SEVERAL)
        kind = start.text.lower()
        if kind == "window" and self._match_text_seq("PATH"):
            kind = "path"
        names = self._parse_wrapped_names() if self._match(TokenType.L_PAREN, advance=False) else []
        if kind != "window" and not names:
            form = "DWINDOW (A, B) 5 SECONDS"
            form = form if kind == "dwindow" else "WINDOW PATH (A, B, C) (2 SECONDS, 5 SECONDS)"
            raise error(f"{start.text.upper()} needs streams in parentheses", start, f"write {form}")
        self._match(TokenType.EQ)
        word = "WINDOW PATH" if kind == "path" else kind.upper()
        if kind == "path" and self._match(TokenType.L_PAREN):
            sizes = self._parse_csv(lambda: self._parse_length_between(word))
            self._match_r_paren()
        else:
            sizes = [self._parse_length_between(word)]
        return self.expression(StreamsWindow(kind=kind, expressions=names, sizes=sizes), start)

    def _parse_length_between(self, word: str) -> Duration:
        """The length of a window between streams."""
        starts = (TokenType.NUMBER, TokenType.DASH, TokenType.INTERVAL, TokenType.STRING)
        if not self._curr or self._curr.token_type not in starts:
            forms = {"WINDOW": "(A, B) 5 SECONDS", "DWINDOW": "(A, B) 5 SECONDS"}
            form = forms.get(word, "(A, B, C) (2 SECONDS, 5 SECONDS)")
            at = self._curr or self._prev
            raise error(f"{word} needs a length of time", at, f"write e.g. {word} {form}")
        return self._parse_duration(word)

    def _parse_wrapped_names(self) -> list[exp.Expr]:
        return self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=False))

    def _parse_window_in_brackets(self) -> StreamWindow | None:
        start = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        columns = self._parse_csv(self._parse_column) if self._match(TokenType.PARTITION_BY) else []
        kind, size = self._parse_window_frame()
        slide = self._parse_step(kind)
        if not columns and self._match(TokenType.PARTITION_BY):
            columns = self._parse_csv(self._parse_column)
        if not self._match(TokenType.R_BRACKET):
            timed = kind == "rows" and slide is None and bool(self._curr)
            hint = "a window of time is written [RANGE 5 SECONDS]" if timed else None
            raise error("a window ends with ']'", self._curr or self._prev, hint)
        text = " ".join(self._find_sql(start, self._prev).split())
        window = StreamWindow(kind=kind, size=size, slide=slide, partition_by=columns, text=text)
        return self.expression(window, start)

    def _parse_step(self, kind: str) -> exp.Expr | None:
        """SLIDE of a window, or EVERY of a hop."""
        word = next((w for w in ("SLIDE", "EVERY") if self._match_text_seq(w)), None)
        if word is None:
            if kind == "hop":
                raise error("HOP needs EVERY", self._prev, "write [HOP 10 SECONDS EVERY 2 SECONDS]")
            return None
        if kind.upper() in BOUNDED and (word, kind) != ("EVERY", "hop"):
            raise error(f"{kind.upper()} has no {word}", self._prev, "write [HOP 10 SECONDS EVERY 2 SECONDS]")
        if kind.upper() not in BOUNDED and word == "EVERY":
            raise error("EVERY is for HOP", self._prev, "write SLIDE, or [HOP 10 SECONDS EVERY 2 SECONDS]")
        return self._parse_signed_number("SLIDE") if kind == "rows" else self._parse_duration()

    def _parse_window_frame(self) -> tuple[str, exp.Expr | None]:
        if self._match_text_seq("NOW"):
            return "now", None
        if self._match_text_seq("ROWS"):
            return "rows", None if self._match_text_seq("UNBOUNDED") else self._parse_signed_number("ROWS")
        if self._match_text_seq("RANGE"):
            return "range", None if self._match_text_seq("UNBOUNDED") else self._parse_duration()
        if self._match_texts(BOUNDED):
            word = self._prev.text.upper()
            ends = (TokenType.R_BRACKET, TokenType.PARTITION_BY)
            if not self._curr or self._curr.token_type in ends or self._match_text_seq("UNBOUNDED"):
                raise error(f"{word} takes a length of time", self._prev, f"write e.g. [{word} 10 SECONDS]")
            return word.lower(), self._parse_duration()
        bare = self._curr and self._curr.token_type in (TokenType.NUMBER, TokenType.INTERVAL)
        raise error(
            "a window is [ROWS n], [ROWS UNBOUNDED], [RANGE t unit], [RANGE UNBOUNDED], [NOW], "
            "[PARTITION BY columns ROWS n], [TUMBLE t unit], [HOP t unit EVERY t unit] "
            "or [SESSION t unit PARTITION BY columns]",
            self._curr or self._prev,
            "write [RANGE 10 SECONDS] or [ROWS 10]" if bare else None,
        )


def _is_query(node: exp.Expr | None) -> TypeGuard[exp.Expr]:
    return isinstance(node, exp.Query | RelationToStream)


class CQL(Spark):
    """The dialect: Spark's tokens and SQL, CQL's parser."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's, with a doubled quote for a quote inside a string, as Spark 4 reads it."""

        STRING_ESCAPES = ["'", "\\"]
        # Of SHOW and EXPLAIN sqlglot's own tokenizer takes the rest of the text as one string.
        # DWINDOW is reserved as WINDOW is: it could be read as an alias.
        KEYWORDS = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in ("SHOW", "EXPLAIN")},
            "DWINDOW": TokenType.WINDOW,
        }

    Parser = CQLParser
