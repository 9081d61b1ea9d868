"""Windows as other systems write them: functions of GROUP BY in Spark, of FROM or GROUP BY in Flink."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from penstock.cql.syntax.dialect import CQL
from penstock.cql.syntax.errors import error
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


def is_window_function(name: str) -> bool:
    """Whether other systems have a function of this name for windows."""
    return name.upper() in WINDOW_FUNCTIONS


def window_function(name: str, at: exp.Expr | Token) -> CQLError:
    """The error for such a function."""
    form = WINDOW_FUNCTIONS[name.upper()]
    hint = f"write FROM S {form}, whose rows have the columns window_start and window_end"
    return error(f"{name.upper()} is not a function: a window stands after its stream", at, hint)


def suggest_window(text: str) -> CQLError | None:
    """The error for the first such function in a text that cannot be parsed."""
    try:
        tokens = CQL().tokenize(text)
    except TokenError:
        return None
    for place, (token, following) in enumerate(zip(tokens, tokens[1:], strict=False)):
        if is_window_function(token.text) and following.token_type == TokenType.L_PAREN:
            before = tokens[place - 1].token_type if place else None
            if token.token_type != TokenType.WINDOW or before not in _BEFORE_CLAUSE:
                return window_function(token.text, token)
    return None
