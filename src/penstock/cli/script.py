"""CQL files: statements separated by ``;``, each with its place in the file."""

from __future__ import annotations

from pathlib import Path

from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from penstock.cql.syntax.dialect import CQL
from penstock.errors import PenstockError


def read(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PenstockError(f"cannot read {path}: {reason}") from None


def statements(text: str) -> list[str]:
    r"""The statements of a text, each preceded by blanks so that errors name the place in the whole text.

    >>> statements("DROP STREAM S;\nSELECT 1")
    ['DROP STREAM S', '              \nSELECT 1']
    """
    try:
        tokens = CQL().tokenize(text)
    except SqlglotError:
        return [text]  # a string or comment without an end: parsing says where
    found, start, any_token = [], 0, False
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if any_token:
                found.append(_in_place(text, start, token.start))
            start, any_token = token.end + 1, False
        else:
            any_token = True
    if any_token:
        found.append(_in_place(text, start, len(text)))
    return found


def _in_place(text: str, start: int, stop: int) -> str:
    before = "".join(c if c == "\n" else " " for c in text[:start])
    return before + text[start:stop]
