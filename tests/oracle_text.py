"""The oracle's reading of CQL: windows and relation-to-stream operators taken out, plain SQL left.

A scanner over words, no parser: it knows FROM items, brackets and parentheses, and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\w+|\s+|.", re.DOTALL)
ENDS_FROM = {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SELECT"}
NOT_AN_ALIAS = ENDS_FROM | {"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "NATURAL", "ON", "USING"}


@dataclass
class Query:
    """A query taken apart: ``sql`` has ``{0}``, ``{1}``, ... where the ``items`` (name, window) stood."""

    sql: str
    items: list[tuple[str, str]]
    operator: str | None = None
    every: str = ""


def take_apart(cql: str) -> Query:
    """The plain SQL in a CQL text, and what was taken out of it."""
    text = cql.strip().rstrip(";")
    operator, every = None, ""
    outer = re.match(r"([IDR])STREAM\s*\(\s*SELECT\b", text, re.IGNORECASE)
    inner = re.match(r"SELECT\s+([IDR])STREAM\s*\(", text, re.IGNORECASE)
    if outer or inner:
        found = outer or inner
        opening = text.index("(")
        closing = _closing(text, opening)
        operator, inside, after = found[1].upper(), text[opening + 1 : closing], text[closing + 1 :]
        period = re.match(r"\s*EVERY\s+((?:\d+\s*\w*\s*?)+?)(?=\s*$|\s+FROM\b)", after, re.IGNORECASE)
        every, after = (period[1], after[period.end() :]) if period else ("", after)
        text = inside if outer else f"SELECT {inside}{after}"
    sql, items = _without_windows(TOKEN.findall(text))
    return Query(sql, items, operator, every)


def _closing(text: str, opening: int) -> int:
    depth = 0
    for match in TOKEN.finditer(text, opening):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    raise ValueError(f"no closing parenthesis in {text!r}")


def _without_windows(tokens: list[str]) -> tuple[str, list[tuple[str, str]]]:
    words = [t for t in tokens if not t.isspace()]
    out, items, in_from, position = list[str](), list[tuple[str, str]](), [False], 0
    expected = False
    while position < len(words):
        word = words[position]
        upper = word.upper()
        position += 1
        if expected and (word[0].isalpha() or word[0] in '_"`'):
            alias, window, position = _from_item(words, position, word)
            out.append(f"{{{len(items)}}} AS {alias}")
            items.append((word.strip('"`'), window))
            expected = False
            continue
        if word == "(":
            in_from.append(False)
        elif word == ")":
            in_from.pop()
        elif upper == "FROM":
            in_from[-1] = True
        elif upper in ENDS_FROM:
            in_from[-1] = False
        expected = upper in ("FROM", "JOIN") or (word == "," and in_from[-1])
        out.append(word.replace("{", "{{").replace("}", "}}").replace("`", '"'))
    return _join(out), items


def _from_item(words: list[str], position: int, name: str) -> tuple[str, str, int]:
    """The alias and window after a FROM item's name, and where to read on."""
    alias, window = name, ""
    while position < len(words):
        word = words[position]
        if word[0] == "[":
            window = word[1:-1]
        elif word.upper() == "AS":
            pass
        elif (word[0].isalpha() or word[0] in '_"`') and word.upper() not in NOT_AN_ALIAS:
            alias = word
        else:
            break
        position += 1
    return alias.replace("`", '"'), window, position


def _join(words: list[str]) -> str:
    """The words with spaces between, but none inside operators and qualified names."""
    text = " ".join(words)
    text = re.sub(r"(\w|\") \. (\w|\*|\")", r"\1.\2", text)
    text = re.sub(r"(\d) \. (\d)", r"\1.\2", text)
    return re.sub(r"([<>!|=]) (?=[=>|])", r"\1", text)
