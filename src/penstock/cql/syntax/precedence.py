"""Which operators bind closer, as in Spark's grammar; sqlglot has other levels.

From the loosest: OR; AND; NOT; a predicate (BETWEEN, IN, LIKE, IS); comparisons, all on one level; ``|``;
``^``; ``&``; shifts; ``+ - ||``; ``* / % DIV``; a sign; ``::``. Operators of one level are taken from left to
right. The sign of a number is part of it, and so is the type of a literal such as ``DATE '2024-01-31'``.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

from penstock.cql.syntax.errors import unsupported
from penstock.cql.syntax.nodes import Positive, Unsigned

COMPARISON, OR, XOR, AND, SHIFT, SUM, PRODUCT, COLLATION = range(8)
OPERATORS: dict[TokenType, tuple[int, type[exp.Binary]]] = {
    **{token: (COMPARISON, kind) for token, kind in SparkParser.EQUALITY.items()},
    **{token: (COMPARISON, kind) for token, kind in SparkParser.COMPARISON.items()},
    TokenType.PIPE: (OR, exp.BitwiseOr),
    TokenType.CARET: (XOR, exp.BitwiseXor),
    TokenType.AMP: (AND, exp.BitwiseAnd),
    TokenType.PLUS: (SUM, exp.Add),
    TokenType.DASH: (SUM, exp.Sub),
    TokenType.DPIPE: (SUM, exp.DPipe),
    **{token: (PRODUCT, kind) for token, kind in SparkParser.FACTOR.items()},
    TokenType.COLLATE: (COLLATION, exp.Collate),
}
"""The level of each operator, the closest the highest."""
SHIFTS = {TokenType.LT: exp.BitwiseLeftShift, TokenType.GT: exp.BitwiseRightShift}
"""The shift that a token is if the same one follows it at once."""
TYPES_OF_LITERALS = (
    TokenType.DATE,
    TokenType.TIMESTAMP,
    TokenType.TIMESTAMPNTZ,
    TokenType.TIMESTAMPTZ,
    TokenType.TIMESTAMPLTZ,
)


class PrecedenceParser(SparkParser):
    """Parses expressions by Spark's precedence."""

    UNARY_PARSERS = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self.expression(Positive(this=self._parse_unary())),
        TokenType.DASH: lambda self: self._parse_negative(),
    }

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """A value, perhaps with predicates after it."""
        value = self._parse_bitwise()
        return self._parse_range(value, parse_is=True) if value is not None else None

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return this or self._parse_bitwise()

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_operators(COMPARISON)

    def _parse_operators(self, loosest: int) -> exp.Expr | None:
        """A value of operators that bind at least so close."""
        left = self._parse_at_time_zone(self._parse_unary())
        if left is not None and self._curr.token_type == TokenType.COLON:
            raise unsupported("a path into a column", self._curr)  # j:x, which sqlglot takes for j AS x
        while left is not None and (found := self._next_operator()) and found[0] >= loosest:
            level, kind, width = found
            start, word = self._index, self._curr.text
            self._advance(width)
            comments, unsigned = self._prev_comments, width == len(">>>")
            right = self._parse_operators(level + 1)
            if right is None and word.isalpha():  # an alias: SELECT a div
                self._retreat(start)
                break
            right = self.expression(Unsigned(this=right)) if unsigned else right
            build = self._build_predicate if level == COMPARISON else _binary
            left = self.expression(build(kind, left, right), comments=comments)
        return left

    def _next_operator(self) -> tuple[int, type[exp.Binary], int] | None:
        """The level of the operator that stands here, its node, and how many tokens it has."""
        kind = self._curr.token_type
        alike = 1
        while kind in SHIFTS and alike < len(">>>") and self._adjoins(alike):
            alike += 1
        if alike == 2 or (alike == 3 and kind == TokenType.GT):
            return SHIFT, SHIFTS[kind], alike
        return (*OPERATORS[kind], 1) if kind in OPERATORS else None

    def _adjoins(self, ahead: int) -> bool:
        """Whether the token so far ahead is of the kind of the one here, with nothing between."""
        tokens, at = self._tokens, self._index + ahead
        alike = at < len(tokens) and tokens[at].token_type == self._curr.token_type
        return alike and tokens[at - 1].end + 1 == tokens[at].start

    def _parse_negative(self) -> exp.Expr | None:
        if self._curr.token_type != TokenType.NUMBER:
            return self.expression(exp.Neg(this=self._parse_unary()))
        return self._parse_column_ops(self.expression(exp.Neg(this=self._parse_primary())))

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Interval | exp.Add | None:
        """INTERVAL, whose text may have a sign before it."""
        interval = super()._parse_interval(*args, **kwargs)
        for part in interval.find_all(exp.Interval) if interval is not None else ():
            if isinstance(part.this, Positive):
                part.set("this", part.this.this)
        return interval

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        typed = self._curr.token_type in TYPES_OF_LITERALS and self._next.token_type == TokenType.STRING
        if not typed or fallback_to_identifier:
            return super()._parse_type(parse_interval, fallback_to_identifier)
        kind = self._parse_types(check_func=True, allow_identifiers=False)
        return self._parse_column_ops(self.expression(exp.Cast(this=self._parse_primary(), to=kind)))


def _binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr | None) -> exp.Binary:
    return kind(this=left, expression=right)
