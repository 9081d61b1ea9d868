"""More functions of strings, by Spark's names. Regular expressions are Java's as far as Python's are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.functions import Datum, Function, _by_row, _rows
from penstock.errors import DataError
from penstock.expression import Call


@lru_cache(maxsize=256)
def _regex(pattern: str) -> re.Pattern[str]:
    r"""A regular expression, ``\d`` and the like in ASCII as in Java."""
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as failure:
        raise DataError(f"{pattern!r} is not a regular expression: {failure}") from None


def _rlike(call: Call, args: Sequence[Datum]) -> pa.Array:
    return _by_row(lambda s, pattern: _regex(pattern).search(s) is not None)(call, args)


def _regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """Java writes a group as ``$1``, and a backslash takes the next character as it is."""
    parts = re.sub(r"\\(.)|\$(\d+)", _python_group, replacement, flags=re.DOTALL)
    try:
        return _regex(pattern).sub(parts, text)
    except (re.error, IndexError) as failure:
        raise DataError(f"{replacement!r} is no replacement for {pattern!r}: {failure}") from None


def _python_group(part: re.Match[str]) -> str:
    if part[2] is not None:
        return rf"\g<{part[2]}>"
    return part[1] if part[1] != "\\" else r"\\"


def _regexp_extract(text: str, pattern: str, group: int) -> str:
    regex = _regex(pattern)
    if not 0 <= group <= regex.groups:
        raise DataError(f"{pattern!r} has {regex.groups} groups, not {group}")
    found = regex.search(text)
    return (found[group] or "") if found else ""


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for position, char in enumerate(old):
        table.setdefault(ord(char), new[position] if position < len(new) else None)
    return text.translate(table)


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


def _pad(left: bool) -> Callable[[str, int, str], str]:
    def pad(text: str, length: int, filling: str) -> str:
        length = max(length, 0)
        missing = length - len(text)
        if missing <= 0 or not filling:
            return text[:length] if missing <= 0 else text
        more = (filling * (missing // len(filling) + 1))[:missing]
        return more + text if left else text + more

    return pad


def _locate(part: str, text: str, start: int) -> int:
    if start <= 0:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise DataError("SPLIT_PART counts from 1, or from -1 at the end; 0 is no part")
    parts = text.split(delimiter) if delimiter else [text]
    position = number - 1 if number > 0 else len(parts) + number
    return parts[position] if 0 <= position < len(parts) else ""


def _levenshtein(left: str, right: str) -> int:
    before = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
        before = row
    return before[-1]


def _concat_ws(call: Call, args: Sequence[Datum]) -> pa.Array:
    def one(separator: str | None, *parts: str | None) -> str | None:
        return None if separator is None else separator.join(p for p in parts if p is not None)

    return pa.array([one(*row) for row in _rows(args)], call.type)


def _octets(times: int) -> Function:
    return lambda call, args: pc.multiply(pc.binary_length(args[0]), pa.scalar(times, pa.int32()))


def _of(function: Callable[..., Any]) -> Function:
    return _by_row(function)


TEXT: dict[str, Function] = {
    "rlike": _rlike,
    "regexp_replace": _of(_regexp_replace),
    "regexp_extract": _of(_regexp_extract),
    "translate": _of(_translate),
    "initcap": _of(_initcap),
    "md5": _of(lambda s: hashlib.md5(s.encode(), usedforsecurity=False).hexdigest()),
    "octet_length": _octets(1),
    "bit_length": _octets(8),
    "ascii": _of(lambda s: ord(s[0]) if s else 0),
    "chr": _of(lambda n: "" if n < 0 else chr(n % 256)),
    "levenshtein": _of(_levenshtein),
    "btrim": _of(lambda s, chars: s.strip(chars) if chars else s),
    "substring_index": _of(_substring_index),
    "split_part": _of(_split_part),
    "lpad": _of(_pad(left=True)),
    "rpad": _of(_pad(left=False)),
    "repeat": _of(lambda s, n: s * max(n, 0)),
    "locate": _of(_locate),
    "concat_ws": _concat_ws,
}
