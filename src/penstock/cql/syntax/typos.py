"""Misspelt keywords: the one that was meant is found by trying.

A word that is not a keyword is read as a name or an alias, so the parser fails only at a later word. Words
around that place are replaced by similar keywords; the one with which the parser gets further is suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from penstock.cql.settings import (
    TYPO_PARSED_TOKENS,
    TYPO_SIMILARITY,
    TYPO_TOKENS_AFTER,
    TYPO_TOKENS_BEFORE,
)
from penstock.cql.syntax.dialect import CQL, RELATION_TO_STREAM
from penstock.cql.syntax.errors import place
from penstock.errors import CQLError

OWN = """
    AFTER AT AVAILABLE BAD BEFORE BY CHANGE CHECKPOINT COLUMNS CONFIDENCE DISORDER DROP DWINDOW EACH
    EVERY HEAVY HOP IDLE IN KEEP LEAST MAXIMIZE MEMORY NOW OPTIONS PATH PER PIPELINE QUERY RANGE RATE
    REGISTER RELATION RESULTS ROWS SAMPLE SESSION SINK SKEW SLIDE SPLIT STAGES START STOP STREAM
    TIMESTAMP TO TRIGGER TUMBLE UNBOUNDED USING VIEW WINDOW WINDOWS WITHIN
""".split()
"""Words that CQL has beside those of SQL."""
KEYWORDS = sorted(
    {w for k in CQL.Tokenizer.KEYWORDS for w in k.split() if re.fullmatch("[A-Z]{2,}", w)}
    | {*OWN, *RELATION_TO_STREAM}
)
BEFORE_BY = ("GROUP", "PARTITION")
"""Words that must be followed by BY."""
Check = Callable[[str], object]


def suggest_keyword(text: str, failure: CQLError, check: Check) -> CQLError | None:
    """An error at a misspelt keyword, if ``check``, which raises, gets further with a similar keyword."""
    try:
        tokens = CQL().tokenize(text)
    except TokenError:
        return None
    at = _index(tokens, failure)
    if at is None:
        return None
    for token in _around(tokens, at):
        for word in _like(token):
            if _gets_to(text[: token.start] + word + text[token.end + 1 :], at + TYPO_PARSED_TOKENS, check):
                return _with_hint(failure, token, word)
    return None


def _with_hint(failure: CQLError, token: Token, word: str) -> CQLError:
    """The failure with a hint, at the misspelt word if the parser failed after it."""
    message, line, column = failure.message, failure.line, failure.column
    if message.startswith("syntax error") and place(token) != (line, column):
        message, (line, column) = f"syntax error near '{token.text}'", place(token)
    return CQLError(message, line=line, column=column, hint=f"did you mean '{word}'?")


def _like(token: Token) -> list[str]:
    """The keywords that are similar to a word."""
    word = token.text.upper()
    if word in BEFORE_BY:
        return [f"{word} BY"]
    return [] if word in KEYWORDS else get_close_matches(word, KEYWORDS, cutoff=TYPO_SIMILARITY)


def _index(tokens: list[Token], failure: CQLError) -> int | None:
    return next((i for i, t in enumerate(tokens) if place(t) == (failure.line, failure.column)), None)


def _around(tokens: list[Token], at: int) -> Iterator[Token]:
    """The words around a place, the nearest first."""
    near = range(max(at - TYPO_TOKENS_BEFORE, 0), min(at + TYPO_TOKENS_AFTER + 1, len(tokens)))
    for token in (tokens[i] for i in sorted(near, key=lambda i: (abs(i - at), i))):
        if token.token_type == TokenType.VAR:
            yield token


def _gets_to(text: str, at: int, check: Check) -> bool:
    """Whether a text parses up to some token."""
    try:
        check(text)
    except CQLError as failure:
        index = _index(CQL().tokenize(text), failure)
        return index is not None and index >= at
    return True
