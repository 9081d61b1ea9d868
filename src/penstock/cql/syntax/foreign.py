"""What other systems write, such as windows: functions of GROUP BY in Spark, of FROM or GROUP BY in Flink."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from penstock.cql.syntax.ddl_parser import DEFINED
from penstock.cql.syntax.dialect import CQL
from penstock.cql.syntax.errors import error, unsupported
from penstock.errors import CQLError

_FORMS = {
    "WINDOW": "[TUMBLE 10 SECONDS] or S [HOP 10 SECONDS EVERY 2 SECONDS]",
    "TUMBLE": "[TUMBLE 10 SECONDS]",
    "HOP": "[HOP 10 SECONDS EVERY 2 SECONDS]",
    "SESSION": "[SESSION 10 SECONDS PARTITION BY k]",
}
WINDOW_FUNCTIONS = {
    **_FORMS,
    "SESSION_WINDOW": _FORMS["SESSION"],
    "WINDOW_TIME": _FORMS["TUMBLE"],
    "CUMULATE": _FORMS["HOP"],
    **{f"{kind}_START": form for kind, form in _FORMS.items()},
    **{f"{kind}_END": form for kind, form in _FORMS.items()},
}
"""What to write instead of a function that makes windows or returns their bounds."""

_BEFORE_CLAUSE = (TokenType.VAR, TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.AND)
"""What stands before a WINDOW clause, and never before a function."""

_KSQL = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
_BRACKETED = ("ROWS", "RANGE", "TUMBLE", "HOP", "SESSION")


def is_window_function(name: str) -> bool:
    """Whether other systems have a function of this name for windows."""
    return name.upper() in WINDOW_FUNCTIONS


def window_function(name: str, at: exp.Expr | Token) -> CQLError:
    """The error for such a function."""
    form = WINDOW_FUNCTIONS[name.upper()]
    hint = f"write FROM S {form}, whose rows have the columns window_start and window_end"
    return error(f"{name.upper()} is not a function: a window stands after its stream", at, hint)


def suggestion(text: str) -> CQLError | None:
    """The error for the first of these in a text that cannot be parsed."""
    try:
        tokens = CQL().tokenize(text)
    except TokenError:
        return None
    between = False  # whether a WINDOW clause has begun
    for place, (token, following) in enumerate(zip(tokens, tokens[1:], strict=False)):
        before = tokens[place - 1] if place else None
        if token.token_type == TokenType.WINDOW:
            between = between or (before is not None and before.token_type in _BEFORE_CLAUSE)
            if between and following.text.upper() not in _KSQL:
                continue
        found = _suggestion(before, token, following)
        if found is not None:
            return found
    return None


def _suggestion(before: Token | None, token: Token, following: Token) -> CQLError | None:
    word, next_word = token.text.upper(), following.text.upper()
    called = following.token_type == TokenType.L_PAREN
    if is_window_function(word) and called:
        return window_function(word, token)
    if word == "WINDOW" and next_word in _KSQL:
        return window_function(_KSQL[next_word], following)
    if word == "MATCH_RECOGNIZE":
        return unsupported(word, token)
    if word == "EMIT" and next_word in ("CHANGES", "FINAL"):
        hint = "leave it out: a query returns all changes"
        return error(f"EMIT {next_word} is not part of CQL", token, hint)
    if word == "WATERMARK" and following.token_type != TokenType.L_PAREN:
        hint = "write TIMESTAMP BY ts DISORDER 5 SECONDS after the columns"
        return error("WATERMARK is not part of CQL", token, hint)
    if word == "WITH" and called and before is not None and before.token_type == TokenType.R_PAREN:
        hint = "write FROM JSON 'directory', FROM KAFKA 'topic' or another source after the columns"
        return error("WITH (...) is not part of CREATE", token, hint)
    if word == "PRIMARY KEY" and not called:
        return error("a key stands after the columns", token, "write PRIMARY KEY (id) after TIMESTAMP BY")
    if word in ("DESCRIBE", "DESC") and next_word in DEFINED:
        return error(f"{word} takes a name alone", following, f"write {word} s")
    if word in _BRACKETED and following.token_type in (TokenType.NUMBER, TokenType.INTERVAL):
        if before is not None and before.token_type in (TokenType.VAR, TokenType.L_PAREN):
            return error("a window stands in brackets after its stream", token, f"write S [{word} ...]")
    return None
