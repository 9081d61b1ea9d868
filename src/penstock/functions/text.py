"""String functions, with Spark's names and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions.kernels import Datum, Kernel, arrow, by_row, constants, rows, where_known
from penstock.functions.registry import Theme
from penstock.functions.types import BOOLEAN, INT, STRING, coerce

TEXT = Theme("Text", "Positions count characters from 1. Regular expressions are Python's, near to Java's.")
ONE, BLANK = Literal(1, INT), Literal(" ", STRING)


def _case_mapped(kernel: Callable[..., pa.Array], full: Callable[[str], str]) -> Kernel:
    """Upper or lower case, by Unicode's full mapping if there are characters that need it."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        if pc.all(pc.string_is_ascii(args[0])).as_py() is not False:
            return kernel(args[0])
        return by_row(full)(call, args)

    return apply


def _affix(kernel: Callable[..., pa.Array], one: Callable[[str, str], bool]) -> Kernel:
    """Whether a text starts with, ends with or contains another; Arrow's kernel if the other is constant."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        text, part = args
        pattern = constants([part])
        if isinstance(text, pa.Array) and pattern:
            return kernel(text, pattern=pattern[0])
        return by_row(one)(call, args)

    return apply


def _octets(bits: int) -> Kernel:
    return lambda call, args: pc.multiply(pc.binary_length(args[0]), pa.scalar(bits, pa.int32()))


TEXT.define("upper", "STRING -> STRING", "in upper case", "UPPER('straße') -> 'STRASSE'",
            _case_mapped(pc.utf8_upper, str.upper), aliases=("ucase",))  # fmt: skip
TEXT.define("lower", "STRING -> STRING", "in lower case", "LOWER('ABC') -> 'abc'",
            _case_mapped(pc.utf8_lower, str.lower), aliases=("lcase",))  # fmt: skip
TEXT.define("trim", "STRING -> STRING", "without blanks at both ends; `TRIM(x FROM s)` is `BTRIM(s, x)`",
            "TRIM('  ab ') -> 'ab'", arrow(pc.utf8_trim, characters=" "))  # fmt: skip
TEXT.define("ltrim", "STRING -> STRING", "without blanks at the start", "LTRIM('  ab ') -> 'ab '",
            arrow(pc.utf8_ltrim, characters=" "))  # fmt: skip
TEXT.define("rtrim", "STRING -> STRING", "without blanks at the end", "RTRIM('  ab ') -> '  ab'",
            arrow(pc.utf8_rtrim, characters=" "))  # fmt: skip
TEXT.define("reverse", "STRING -> STRING", "backwards", "REVERSE('abc') -> 'cba'", arrow(pc.utf8_reverse))
TEXT.define("length", "STRING -> INT", "number of characters", "LENGTH('héß') -> 3", arrow(pc.utf8_length),
            aliases=("char_length", "character_length", "len"))  # fmt: skip
TEXT.define("octet_length", "STRING -> INT", "bytes in UTF-8", "OCTET_LENGTH('héß') -> 5", _octets(1))
TEXT.define("bit_length", "STRING -> INT", "bits in UTF-8", "BIT_LENGTH('ab') -> 16", _octets(8))
TEXT.define("startswith", "STRING, STRING -> BOOLEAN", "whether the first starts with the second",
            "STARTSWITH('abc', 'ab') -> TRUE", _affix(pc.starts_with, str.startswith))  # fmt: skip
TEXT.define("endswith", "STRING, STRING -> BOOLEAN", "whether the first ends with the second",
            "ENDSWITH('abc', 'ab') -> FALSE", _affix(pc.ends_with, str.endswith))  # fmt: skip
TEXT.define("contains", "STRING, STRING -> BOOLEAN", "whether the second is part of the first",
            "CONTAINS('abc', 'b') -> TRUE", _affix(pc.match_substring, str.__contains__))  # fmt: skip


@TEXT.by_row("initcap", "STRING -> STRING", "each word capitalized", "INITCAP('aB cd') -> 'Ab Cd'")
def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


@TEXT.by_row("ascii", "STRING -> INT", "code of the first character", "ASCII('A') -> 65")
def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


@TEXT.by_row("chr", "BIGINT -> STRING", "character of a code modulo 256", "CHR(65) -> 'A'", aliases=("char",))
def _chr(code: int) -> str:
    return "" if code < 0 else chr(code % 256)


@TEXT.by_row("btrim", "STRING, STRING -> STRING", "without the second's characters at both ends",
             "BTRIM('xaby', 'xy') -> 'ab'")  # fmt: skip
def _btrim(text: str, characters: str) -> str:
    return text.strip(characters) if characters else text


@TEXT.by_row("translate", "STRING, STRING, STRING -> STRING",
             "each character of the second replaced by the third's at its place, or removed",
             "TRANSLATE('a-b c', '- ', '+') -> 'a+bc'")  # fmt: skip
def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for position, char in enumerate(old):
        table.setdefault(ord(char), new[position] if position < len(new) else None)
    return text.translate(table)


@TEXT.by_column("replace", "STRING, STRING [, STRING] -> STRING",
                "every occurrence of the second replaced by the third, removed without one",
                "REPLACE('abcb', 'b', 'xx') -> 'axxcxx'")  # fmt: skip
def _replace(call: Call, args: Sequence[Datum]) -> pa.Array:
    text, search, *rest = args
    new = rest[0] if rest else pa.scalar("")
    if isinstance(text, pa.Array) and (known := constants((search, new))):
        return pc.replace_substring(text, pattern=known[0], replacement=known[1]) if known[0] else text
    return by_row(lambda s, old, by: s.replace(old, by) if old else s)(call, (text, search, new))


@TEXT.by_row("levenshtein", "STRING, STRING -> INT", "edit distance", "LEVENSHTEIN('kitten', 'sitting') -> 3")
def _levenshtein(left: str, right: str) -> int:
    before = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
        before = row
    return before[-1]


# Regular expressions.


@lru_cache(maxsize=256)
def regex(pattern: str) -> re.Pattern[str]:
    r"""A regular expression, ``\d`` and the like in ASCII as in Java."""
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as failure:
        raise DataError(f"{pattern!r} is not a regular expression: {failure}") from None


@TEXT.by_row("rlike", "STRING, STRING -> BOOLEAN",
             "whether the regular expression matches some part; also written `s RLIKE p`",
             "'abc' RLIKE 'b.' -> TRUE", aliases=("regexp", "regexp_like"), raises=True)  # fmt: skip
def _rlike(text: str, pattern: str) -> bool:
    return regex(pattern).search(text) is not None


@TEXT.by_row("regexp_replace", "STRING, STRING, STRING -> STRING",
             "every match replaced by the third, in which `$1` is the first group",
             "REGEXP_REPLACE('abc', '([ac])', '<$1>') -> '<a>b<c>'", raises=True)  # fmt: skip
def _regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """Java writes a group as ``$1``, and a backslash quotes the next character."""
    parts = re.sub(r"\\(.)|\$(\d+)", _python_group, replacement, flags=re.DOTALL)
    try:
        return regex(pattern).sub(parts, text)
    except (re.error, IndexError) as failure:
        raise DataError(f"{replacement!r} is not a replacement for {pattern!r}: {failure}") from None


def _python_group(part: re.Match[str]) -> str:
    if part[2] is not None:
        return rf"\g<{part[2]}>"
    return part[1] if part[1] != "\\" else r"\\"


def _regexp_extract(text: str, pattern: str, group: int) -> str:
    compiled = regex(pattern)
    if not 0 <= group <= compiled.groups:
        raise DataError(f"the regular expression {pattern!r} has no group {group}, only {compiled.groups}")
    found = compiled.search(text)
    return (found[group] or "") if found else ""


@TEXT.by_rule("regexp_extract", "STRING, STRING [, INT] -> STRING",
              "the group of the first match, the first group if not given; `''` without a match",
              "REGEXP_EXTRACT('a1-b2', '([a-z])(.)-', 2) -> '1'",
              kernel=by_row(_regexp_extract), raises=True)  # fmt: skip
def _with_group(text: Expression, pattern: Expression, group: Expression = ONE) -> Expression:
    return Call("regexp_extract", (text, pattern, group), STRING)


# Parts by place.


@TEXT.by_column("substring", "STRING, INT [, INT] -> STRING",
                "characters from a position, negative from the end; the third is how many, all if not given."
                " Also `SUBSTRING(s FROM n FOR m)`",
                "SUBSTRING('abcde', 2, 3) -> 'bcd'", aliases=("substr",))  # fmt: skip
def _substring(call: Call, args: Sequence[Datum]) -> pa.Array:
    text, *bounds = args
    if isinstance(text, pa.Array) and (known := constants(bounds)):
        return pc.utf8_slice_codeunits(text, *_slice(*known))
    return by_row(lambda s, *where: s[slice(*_slice(*where))])(call, args)


def _slice(position: int, length: int = 1 << 31) -> tuple[int, int | None]:
    """SQL's position (1-based, negative from the end, 0 as 1) and length as start and stop."""
    if length <= 0:
        return 0, 0
    start = position - 1 if position > 0 else position
    stop = start + length
    return start, None if start < 0 <= stop else stop


@TEXT.by_rule("left", "STRING, INT -> STRING", "the first characters", "LEFT('abc', 2) -> 'ab'")
def _left(text: Expression, count: Expression) -> Expression:
    return Call("substring", (text, ONE, count), STRING)


@TEXT.by_rule("right", "STRING, INT -> STRING", "the last characters", "RIGHT('abc', 2) -> 'bc'")
def _right(text: Expression, count: Expression) -> Expression:
    last = Call("substring", (text, Call("negative", (count,), INT)), STRING)
    empty = Call("<=", (count, Literal(0, INT)), BOOLEAN)
    either = Call("or", (Call("isnull", (text,), BOOLEAN), Call("isnull", (count,), BOOLEAN)), BOOLEAN)
    return Call("case", (either, Literal(None, STRING), empty, Literal("", STRING), last), STRING)


@TEXT.by_row("substring_index", "STRING, STRING, INT -> STRING",
             "all before the n-th delimiter; with a negative n all after the n-th from the end",
             "SUBSTRING_INDEX('a.b.c', '.', -2) -> 'b.c'")  # fmt: skip
def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _split_parts(call: Call, args: Sequence[Datum]) -> pa.Array:
    texts, known = args[0], constants(args[1:])
    if known is None or not all(known) or not isinstance(texts, pa.Array):
        return by_row(_split_part)(call, args)
    delimiter, number = known
    lists = pc.split_pattern(texts, pattern=delimiter)
    starts = lists.offsets.to_numpy()
    counts = np.diff(starts)
    position = number - 1 if number > 0 else counts + number
    there = (position >= 0) & (position < counts)
    parts = lists.values.take(pa.array(np.where(there, starts[:-1] + position, 0), mask=~there))
    return where_known((texts,), pc.fill_null(parts, ""))


TEXT.define("split_part", "STRING, STRING, INT -> STRING",
            "the n-th part between delimiters, from the end if n is negative; `''` if there is none",
            "SPLIT_PART('a.b.c', '.', 2) -> 'b'", kernel=_split_parts, raises=True)  # fmt: skip


def _split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise DataError("SPLIT_PART counts from 1, or from -1 at the end; 0 is not a part")
    parts = text.split(delimiter) if delimiter else [text]
    position = number - 1 if number > 0 else len(parts) + number
    return parts[position] if 0 <= position < len(parts) else ""


def _locate(call: Call, args: Sequence[Datum]) -> pa.Array:
    return pa.array([_place_of(*row) for row in rows(args)], INT)


def _place_of(part: str | None, text: str | None, start: int | None) -> int | None:
    if start is None:
        return 0
    if part is None or text is None:
        return None
    if start <= 0:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


@TEXT.by_rule("locate", "STRING, STRING [, INT] -> INT",
              "position of the first in the second, from the third on; 0 if nowhere. Also `POSITION(p IN s)`",
              "LOCATE('b', 'abcb', 3) -> 4", kernel=_locate)  # fmt: skip
def _from_start(part: Expression, text: Expression, start: Expression = ONE) -> Expression:
    return Call("locate", (part, text, start), INT)


@TEXT.by_rule("instr", "STRING, STRING -> INT", "where the second occurs in the first; 0 if nowhere",
              "INSTR('abc', 'b') -> 2")  # fmt: skip
def _instr(text: Expression, part: Expression) -> Expression:
    return _from_start(part, text)


# Text put together.


def _limit(length: int) -> None:
    """Rejects a text that no column holds before memory is taken for it."""
    if length >= 2**31 - 1:
        raise pa.lib.ArrowCapacityError(f"a text of {length:,} characters")


def _padding(left: bool) -> Kernel:
    def pad(text: str, length: int, filling: str) -> str:
        length = max(length, 0)
        missing = length - len(text)
        if missing <= 0 or not filling:
            return text[:length] if missing <= 0 else text
        _limit(length)
        more = (filling * (missing // len(filling) + 1))[:missing]
        return more + text if left else text + more

    return by_row(pad)


def _padded(name: str) -> Callable[..., Expression]:
    return lambda text, length, filling=BLANK: Call(name, (text, length, filling), STRING)


TEXT.define("lpad", "STRING, INT [, STRING] -> STRING", "filled up or cut to a length, at the start",
            "LPAD('7', 3, '0') -> '007'", _padding(left=True), rule=_padded("lpad"),
            raises=True)  # fmt: skip
TEXT.define("rpad", "STRING, INT [, STRING] -> STRING", "filled up or cut to a length, at the end",
            "RPAD('ab', 4, '*-') -> 'ab*-'", _padding(left=False), rule=_padded("rpad"),
            raises=True)  # fmt: skip


@TEXT.by_row("repeat", "STRING, INT -> STRING", "n times", "REPEAT('ab', 2) -> 'abab'", raises=True)
def _repeat(text: str, count: int) -> str:
    _limit(len(text) * count)
    return text * max(count, 0)


@TEXT.by_rule("space", "INT -> STRING", "that many blanks", "SPACE(2) -> '  '")
def _space(count: Expression) -> Expression:
    return Call("repeat", (BLANK, count), STRING)


def _as_text(name: str) -> Callable[..., Expression]:
    return lambda *args: Call(name, tuple(coerce(a, STRING) for a in args), STRING)


def _concat_ws(call: Call, args: Sequence[Datum]) -> pa.Array:
    def one(separator: str | None, *parts: str | None) -> str | None:
        return None if separator is None else separator.join(p for p in parts if p is not None)

    return pa.array([one(*row) for row in rows(args)], call.type)


TEXT.define("concat", "value, ... -> STRING", "all as text, one after the other; also written `a || b`",
            "CONCAT('a', 1, TRUE) -> 'a1true'",
            lambda call, args: pc.binary_join_element_wise(*args, ""), rule=_as_text("concat"))  # fmt: skip
TEXT.define("concat_ws", "value, ... -> STRING", "the others as text with the first between, without NULLs",
            "CONCAT_WS('-', 1, NULL, 'x') -> '1-x'", _concat_ws, rule=_as_text("concat_ws"))  # fmt: skip
