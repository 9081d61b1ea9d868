"""Text that is searched, compared by sound, checked, masked or chosen, with Spark's names and results."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions.casts import spark_name
from penstock.functions.kernels import Datum, by_row, rows
from penstock.functions.text import TEXT, regex
from penstock.functions.types import INT, STRING

# Regular expressions.


@TEXT.by_row("regexp_count", "STRING, STRING -> INT", "how often the regular expression matches",
             "REGEXP_COUNT('abcab', 'ab') -> 2", raises=True)  # fmt: skip
def _regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in regex(pattern).finditer(text))


@TEXT.by_row("regexp_substr", "STRING, STRING -> STRING", "the first match, NULL without one",
             "REGEXP_SUBSTR('abc', '[b-z]+') -> 'bc'", raises=True)  # fmt: skip
def _regexp_substr(text: str, pattern: str) -> str | None:
    found = regex(pattern).search(text)
    return found[0] if found and found[0] else None


@TEXT.by_row("regexp_instr", "STRING, STRING -> INT", "position of the first match, 0 without one",
             "REGEXP_INSTR('abc', '[b-z]') -> 2", raises=True)  # fmt: skip
def _regexp_instr(text: str, pattern: str) -> int:
    found = regex(pattern).search(text)
    return found.start() + 1 if found else 0


# Comparison and checks.

_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))


@TEXT.by_row("soundex", "STRING -> STRING", "code of how an English word sounds",
             "SOUNDEX('Miller') -> 'M460'")  # fmt: skip
def _soundex(text: str) -> str:
    if not text or text[0].upper() not in _SOUNDS:
        return text
    code, last = text[0].upper(), _SOUNDS[text[0].upper()]
    for char in text[1:]:
        sound = _SOUNDS.get(char.upper() if char.isascii() else "", "0")
        if sound == "7":
            continue
        if sound not in ("0", last):
            code += sound
        last = sound
        if len(code) == 4:
            break
    return code.ljust(4, "0")


@TEXT.by_row("find_in_set", "STRING, STRING -> INT", "which item of a list with commas it is, 0 if none",
             "FIND_IN_SET('ab', 'abc,b,ab') -> 3")  # fmt: skip
def _find_in_set(text: str, items: str) -> int:
    parts = items.split(",")
    return parts.index(text) + 1 if text in parts else 0


@TEXT.by_row("luhn_check", "STRING -> BOOLEAN", "whether the last digit is the check digit of the others",
             "LUHN_CHECK('79927398713') -> TRUE")  # fmt: skip
def _luhn_check(text: str) -> bool:
    if not text or not all(c in "0123456789" for c in text):
        return False
    digits = [int(c) for c in reversed(text)]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[1::2]]
    return (sum(digits[0::2]) + sum(doubled)) % 10 == 0


# Text in place of other text.


def _overlay(text: str, new: str, position: int, length: int) -> str:
    count = len(new) if length < 0 else length
    return _sql_part(text, 1, position - 1) + new + _sql_part(text, position + count, 1 << 31)


def _sql_part(text: str, position: int, length: int) -> str:
    """SUBSTRING, as Spark cuts: a negative position is from the end, also before the start."""
    if position > len(text):
        return ""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


@TEXT.by_rule("overlay", "STRING, STRING, INT [, INT] -> STRING",
              "the second in place of the first's characters from a position on, as many as it has, or given",
              "OVERLAY('Spark SQL', '_', 6) -> 'Spark_SQL'", kernel=by_row(_overlay))  # fmt: skip
def _with_length(*args: Expression) -> Expression:
    return Call("overlay", args if len(args) == 4 else (*args, Literal(-1, INT)), STRING)


def _mask(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pa.array([_masked(*row) for row in rows(args)], STRING)


def _masked(
    text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None
) -> str | None:
    if text is None:
        return None

    def mask(char: str) -> str:
        by = upper if char.isupper() else lower if char.islower() else digit if char.isdigit() else other
        return char if by is None else by

    return "".join(map(mask, text))


@TEXT.by_rule("mask", "STRING [, STRING, STRING, STRING, STRING] -> STRING",
              "upper-case letters as 'X', lower-case ones as 'x', digits as 'n', or as given, where NULL "
              "keeps them; the last is for all others",
              "MASK('Ab-12') -> 'Xx-nn'", kernel=_mask)  # fmt: skip
def _with_masks(text: Expression, *given: Expression) -> Expression | None:
    if not all(isinstance(g, Literal) and (g.value is None or len(g.value) == 1) for g in given):
        return None
    defaults = [Literal(c, STRING) for c in ("X", "x", "n", None)]
    return Call("mask", (text, *given, *defaults[len(given) :]), STRING)


def _elt(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pa.array([_chosen(*row) for row in rows(args)], STRING)


def _chosen(number: int | None, *texts: str | None) -> str | None:
    if number is None:
        return None
    if not 1 <= number <= len(texts):
        raise DataError(f"ELT has {len(texts)} texts, not number {number}")
    return texts[number - 1]


TEXT.define("elt", "INT, STRING, ... -> STRING", "the text with a number, counted from 1",
            "ELT(2, 'a', 'b') -> 'b'", _elt, raises=True)  # fmt: skip


@TEXT.by_rule("typeof", "any -> STRING", "the name of its type", "TYPEOF(1) -> 'int'")
def _typeof(value: Expression) -> Expression:
    name = "void" if pa.types.is_null(value.type) else spark_name(value.type).lower().replace(", ", ",")
    return Literal(name, STRING)
