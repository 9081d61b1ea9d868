"""The parser of pipelines: CREATE PIPELINE, REGISTER QUERY, START, STOP and DROP, as an extension."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.cql.syntax.ddl_parser import DDLParser
from penstock.cql.syntax.errors import error
from penstock.cql.syntax.nodes import (
    DropDefinition,
    PipelineDefinition,
    PipelineSplit,
    PipelineSwitch,
    QueryAlteration,
    QueryRegistration,
)

SWITCHES = ("START", "STOP")


class PipelineParser(DDLParser):
    """DDL with pipelines."""

    def _parse_pipeline_statement(self) -> exp.Expr | None:
        """REGISTER QUERY, START PIPELINE or STOP PIPELINE, if the current token begins one of them."""
        start = self._curr
        if self._match_text_seq("REGISTER"):
            if not self._match_text_seq("QUERY"):
                hint = "write REGISTER QUERY q AS SELECT ..."
                raise error("REGISTER takes QUERY and a name", self._curr or self._prev, hint)
            return self._parse_registration(start)
        if self._match_text_seq("ALTER", "QUERY") or self._match_text_seq("ALTER", "PIPELINE"):
            return self._parse_alteration(start)
        for word in SWITCHES:
            if self._match_text_seq(word):
                if not self._match_text_seq("PIPELINE"):
                    hint = f"write {word} PIPELINE p"
                    raise error(f"{word} takes PIPELINE and a name", self._curr or self._prev, hint)
                name = self._parse_defined_name(f"{word} PIPELINE")
                return self.expression(PipelineSwitch(this=name, kind=word.lower()), start)
        return None

    def _parse_alteration(self, start: Token) -> QueryAlteration:
        """``ALTER QUERY q SET scheduler = 'chain'``: a setting of a running query."""
        name = self._parse_defined_name("ALTER QUERY")
        if not self._match_text_seq("SET") or not self._curr:
            hint = f"write ALTER QUERY {name.name} SET scheduler = 'chain'"
            raise error("ALTER QUERY takes SET, a setting and its value", self._curr or self._prev, hint)
        setting = self._parse_set()
        return self.expression(QueryAlteration(this=name, setting=setting), start)

    def _parse_definition(self, start: Token) -> Any:
        if not self._match_text_seq("PIPELINE"):
            return super()._parse_definition(start)
        name = self._parse_defined_name("CREATE PIPELINE")
        if not self._match(TokenType.L_PAREN, advance=False):
            raise error("CREATE PIPELINE takes the streams that it reads", self._curr or self._prev,
                        f"write CREATE PIPELINE {name.name} (C, B)")  # fmt: skip
        node = PipelineDefinition(this=name, streams=self._parse_field_names(), splits=[])
        while self._parse_pipeline_clause(node):
            pass
        return self.expression(node, start)

    def _parse_pipeline_clause(self, node: PipelineDefinition) -> bool:
        if self._match_text_seq("CHECKPOINT"):
            self._parse_checkpoint(node)
        elif self._match_text_seq("TRIGGER"):
            self._parse_trigger(node)
        elif self._match_text_seq("KEEP"):
            node.set("keep", self._parse_duration("KEEP"))
        elif self._match_text_seq("SPLIT"):
            node.append("splits", self._parse_split())
        elif self._match_text_seq("COLUMNS"):
            node.append("columns", self._parse_columns())
        elif self._match_text_seq("STAGES"):
            if not self._match(TokenType.NUMBER) or self._prev.text not in ("1", "2"):
                raise error("a pipeline has one stage or two", self._prev, "write STAGES 2")
            node.set("stages", int(self._prev.text))
        else:
            return False
        return True

    def _parse_split(self) -> PipelineSplit:
        start = self._curr or self._prev
        stream = self._parse_field_name()
        if not stream or not self._match_text_seq("BY"):
            raise error("a split is written as SPLIT stream BY (column, ...)", start)
        return self.expression(PipelineSplit(this=stream, expressions=self._parse_field_names()))

    def _parse_columns(self) -> PipelineSplit:
        start = self._curr or self._prev
        stream = self._parse_field_name()
        if not stream or not self._match(TokenType.L_PAREN, advance=False):
            raise error("columns are written as COLUMNS stream (column, ...)", start)
        return self.expression(PipelineSplit(this=stream, expressions=self._parse_field_names()))

    def _parse_registration(self, start: Token) -> QueryRegistration:
        """``REGISTER QUERY q IN p INTO s WITH HISTORY AS SELECT ...``; the clauses in any order."""
        node = QueryRegistration(this=self._parse_defined_name("REGISTER QUERY"))
        while self._match_texts(("IN", "INTO", "WITH")):
            word = self._prev.text.upper()
            if word != "WITH":
                node.set("pipeline" if word == "IN" else "sink", self._parse_defined_name(word))
            elif self._match_text_seq("HISTORY"):
                node.set("history", True)
            else:
                hint = f"write REGISTER QUERY {node.name} WITH HISTORY AS SELECT ..."
                raise error("REGISTER QUERY takes WITH HISTORY", self._curr or self._prev, hint)
        if not self._match(TokenType.ALIAS):
            hint = f"write REGISTER QUERY {node.name} AS SELECT ..."
            raise error("REGISTER QUERY takes AS and a query", self._curr or self._prev, hint)
        first = self._curr or self._prev
        node.set("query", self._parse_statement() or exp.Null())
        node.set("text", self._find_sql(first, self._prev))
        return self.expression(node, start)

    def _parse_drop(self, exists: bool = False, kind: str | None = None) -> Any:
        start = self._prev
        if not self._match_texts(("PIPELINE", "QUERY")):
            return super()._parse_drop(exists, kind)
        what = self._prev.text.upper()
        if_exists = self._parse_exists()
        node = DropDefinition(
            this=self._parse_defined_name(f"DROP {what}"), kind=what.lower(), exists=if_exists
        )
        if what == "QUERY" and self._match_text_seq("IN"):
            node.set("pipeline", self._parse_defined_name("IN"))
        return self.expression(node, start)

    def _parse_inspected(self, kind: str) -> exp.Expr | None:
        if kind == "show" and self._match_texts(("PIPELINES", "QUERIES")):
            return exp.Var(this={"PIPELINES": "pipeline", "QUERIES": "query"}[self._prev.text.upper()])
        return super()._parse_inspected(kind)
