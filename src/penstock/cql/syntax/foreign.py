"""What other systems write, such as windows: functions of GROUP BY in Spark, of FROM or GROUP BY in Flink."""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from penstock.cql.settings import TYPO_SIMILARITY
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
    "CUMULATE": "",
    **{f"{kind}_START": form for kind, form in _FORMS.items()},
    **{f"{kind}_END": form for kind, form in _FORMS.items()},
}
"""What to write instead of a function that makes windows or returns their bounds."""

_BEFORE_CLAUSE = (TokenType.VAR, TokenType.R_BRACKET, TokenType.R_PAREN, TokenType.AND)
"""What stands before a WINDOW clause, and never before a function."""

_KSQL = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
_BRACKETED = ("ROWS", "RANGE", "TUMBLE", "HOP", "SESSION")


_KEY = "PRIMARY KEY (a)"
_ORDERED = "ORDERED BY (a) WITHIN 10 ROWS"
_CLUSTERED = "CLUSTERED BY (a) WITHIN 10 ROWS"
_CONSTRAINTS = {
    "UNIQUE": _KEY,
    "PRIMARY": _KEY,
    "FOREIGN": "FOREIGN KEY (a) REFERENCES T (b) WITHIN 2 SECONDS",
    "REFERENCE": "REFERENCES T (a) WITHIN 2 SECONDS",
    "SORTED": _ORDERED,
    "SORT BY": _ORDERED,
    "ORDER BY": _ORDERED,
    "ORDERED": _ORDERED,
    "CLUSTER BY": _CLUSTERED,
    "CLUSTER": _CLUSTERED,
    "CLUSTERED": _CLUSTERED,
}
"""What to write instead of constraints of other systems, after the columns of a stream."""
_OWN_CONSTRAINTS = {
    "PRIMARY KEY": _KEY,
    "FOREIGN KEY": _CONSTRAINTS["FOREIGN"],
    "REFERENCES": "REFERENCES T (a) WITHIN 2 SECONDS",
    "CLUSTERED": _CLUSTERED,
    "ORDERED": _ORDERED,
}
"""Those of CQL, which do not stand among the columns."""


def is_window_function(name: str) -> bool:
    """Whether other systems have a function of this name for windows."""
    return name.upper() in WINDOW_FUNCTIONS


_MOST_ARGUMENTS = {"WINDOW": 3, "TUMBLE": 2, "HOP": 3}
"""More than these have an offset; a table as an argument comes beside them."""


def window_function(name: str, at: exp.Expr | Token, arguments: int = 0) -> CQLError:
    """The error for such a function."""
    if name.upper() == "CUMULATE":
        return unsupported("CUMULATE", at)
    if arguments > _MOST_ARGUMENTS.get(name.upper(), arguments):
        hint = "[TUMBLE ...] and [HOP ...] begin at multiples of their step since 1970"
        return unsupported("a window with an offset", at, hint)
    form = WINDOW_FUNCTIONS[name.upper()]
    hint = f"write FROM S {form}, whose rows have the columns window_start and window_end"
    return error(f"{name.upper()} is not a function: a window stands after its stream", at, hint)


_WORDS = {
    "&&": "AND",
    "GROUPBY": "GROUP BY",
    "ORDERBY": "ORDER BY",
    "UPSERT": "INSERT INTO a sink; the changes of a relation say which rows leave and enter",
}
"""Words of other systems, and CQL's."""


def suggestion(text: str) -> CQLError | None:
    """The error for the first of these in a text that cannot be parsed."""
    try:
        tokens = CQL().tokenize(text)
    except TokenError:
        return None
    depth, inside, defines = 0, 0, _defines_input(tokens)
    between = False  # whether a WINDOW clause has begun
    for place, (token, following) in enumerate(zip(tokens, tokens[1:], strict=False)):
        before = tokens[place - 1] if place else None
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        inside += (token.token_type == TokenType.L_BRACKET) - (token.token_type == TokenType.R_BRACKET)
        if inside:
            continue
        if token.token_type == TokenType.WINDOW:
            between = between or (before is not None and before.token_type in _BEFORE_CLAUSE)
            if between and following.text.upper() not in _KSQL:
                continue
        if is_window_function(token.text) and following.token_type == TokenType.L_PAREN:
            return window_function(token.text, token, _arguments(tokens, place + 1))
        found = _suggestion(before, token, following)
        found = found or (_constraint(token, following, depth) if defines else None)
        if found is not None:
            return found
    return None


def _arguments(tokens: list[Token], at: int) -> int:
    """How many arguments stand in the parentheses that open at a place, without a table."""
    depth, commas = 0, 0
    table = [t.token_type for t in tokens[at + 1 : at + 2]] == [TokenType.TABLE]
    for token in tokens[at:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        commas += depth == 1 and token.token_type == TokenType.COMMA
        if depth == 0:
            break
    return commas + 1 - table


def _defines_input(tokens: list[Token]) -> bool:
    """Whether a text defines a stream or relation by its columns."""
    words = [t.text.upper() for t in tokens]
    return (
        words[:1] == ["CREATE"]
        and not {"STREAM", "RELATION"}.isdisjoint(words[1:4])
        and "SELECT" not in words
    )


def _constraint(token: Token, following: Token, depth: int) -> CQLError | None:
    """The error for a constraint that is written differently, or among the columns."""
    word, next_word = token.text.upper(), following.text.upper()
    clause = next_word in ("BY", "ON", "KEY") or following.token_type == TokenType.L_PAREN
    if depth and word in _OWN_CONSTRAINTS and (clause or word in ("PRIMARY KEY", "REFERENCES")):
        form = _OWN_CONSTRAINTS[word]
        return error(f"{word} stands after the columns", token, f"write {form} after TIMESTAMP BY")
    own = word in ("ORDERED", "CLUSTERED") and next_word == "BY"
    near = get_close_matches(word, ("ORDERED", "CLUSTERED"), 1, TYPO_SIMILARITY)
    if near and next_word == "BY" and not own and not depth and word not in _CONSTRAINTS:
        return error(f"unknown clause {word} BY", token, f"did you mean {near[0]} BY?")
    if word in _CONSTRAINTS and not own and (clause or word.endswith(" BY")):
        return error(
            f"{word} is not a clause of a stream", token, f"write {_CONSTRAINTS[word]} after the columns"
        )
    return None


_DEFINED_BEFORE = (TokenType.R_PAREN, TokenType.VAR)
"""What stands before WITH (...) in a definition of ksqlDB or Flink, and never before a query's WITH."""


def _is_view_of_esper(token: Token, following: Token) -> bool:
    """``S#time(10 sec)`` or ``S.win:time(10 sec)``."""
    if token.token_type == TokenType.HASH:
        return True
    return token.text in ("win", "std", "ext") and following.token_type == TokenType.COLON


_ESPER = {
    "time": "S [RANGE 10 SECONDS]",
    "ext_timed": "S [RANGE 10 SECONDS]",
    "time_batch": "S [TUMBLE 10 SECONDS]",
    "ext_timed_batch": "S [TUMBLE 10 SECONDS]",
    "length": "S [ROWS 10]",
    "length_batch": "S [ROWS 10 SLIDE 10]",
    "lastevent": "S [ROWS 1]",
    "unique": "S [PARTITION BY k ROWS 1]",
    "keepall": "S",
}
"""Windows of Esper that CQL has."""


def _view_of_esper(name: str, at: Token) -> CQLError:
    form = _ESPER.get(name.lower())
    every = "S [RANGE 10 SECONDS], S [ROWS 10] or S [PARTITION BY k ROWS 1]"
    if name and form is None:
        return unsupported(f"the window #{name}", at, f"windows are e.g. {every}")
    return error("a window stands in brackets after its stream", at, f"write {form or every}")


def _suggestion(before: Token | None, token: Token, following: Token) -> CQLError | None:
    word, next_word = token.text.upper(), following.text.upper()
    called = following.token_type == TokenType.L_PAREN
    if word == "WINDOW" and next_word in _KSQL:
        return window_function(_KSQL[next_word], following)
    if word in ("MATCH_RECOGNIZE", "PIVOT") and called:
        return unsupported(word, token)
    if word in _WORDS and token.token_type in (TokenType.VAR, TokenType.DAMP):
        return error(f"{word} is not part of CQL", token, f"write {_WORDS[word]}")
    if word == "TOP" and before is not None and before.token_type == TokenType.SELECT:
        return error("TOP is not part of CQL", token, "write ORDER BY x LIMIT 5 at the end")
    after_column = before is not None and before.token_type == TokenType.R_PAREN  # of a constraint
    if (
        word == "WITHIN"
        and not after_column
        and following.token_type in (TokenType.NUMBER, TokenType.L_PAREN)
    ):
        hint = "write FROM A [RANGE 5 SECONDS] JOIN B [RANGE 5 SECONDS] ON ..., or WINDOW (A, B) 5 SECONDS"
        return error("a join has no WITHIN: how long rows wait is said by windows", token, hint)
    if _is_view_of_esper(token, following):
        return _view_of_esper(following.text if token.token_type == TokenType.HASH else "", token)
    if word == "EMIT" and next_word in ("CHANGES", "FINAL"):
        hint = "leave it out: a query returns all changes"
        if next_word == "FINAL":
            hint = (
                "write ISTREAM over a window such as [TUMBLE 10 SECONDS], which is there when it is complete"
            )
        return error(f"EMIT {next_word} is not part of CQL", token, hint)
    if word == "WATERMARK" and following.token_type != TokenType.L_PAREN:
        hint = "write TIMESTAMP BY ts DISORDER 5 SECONDS after the columns"
        return error("WATERMARK is not part of CQL", token, hint)
    if word == "WITH" and called and before is not None and before.token_type in _DEFINED_BEFORE:
        hint = "write FROM JSON 'directory', FROM KAFKA 'topic' or another source after the columns"
        return error("WITH (...) is not part of CREATE", token, hint)
    if word in ("DESCRIBE", "DESC") and next_word in DEFINED:
        return error(f"{word} takes a name alone", following, f"write {word} s")
    if word == "NOT" and next_word == "ENFORCED":
        return error("NOT ENFORCED is not part of CQL", token, "leave it out: no constraint is enforced")
    if word in _BRACKETED and following.token_type in (TokenType.NUMBER, TokenType.INTERVAL):
        if before is None or before.text.upper() == "WITHIN":
            return None
        if before.token_type in (TokenType.VAR, TokenType.L_PAREN):
            return error("a window stands in brackets after its stream", token, f"write S [{word} ...]")
    return None
