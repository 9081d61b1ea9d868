"""Functions that DuckDB spells or defines otherwise, in its own words.

A form, by name and number of arguments, is a template over the arguments ``{0}``, ``{1}``, ...; ``{where}``
is what FILTER says, or TRUE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TIME = "time__"
"""The time of a row, which the scanner of FROM knows."""
_SPREAD = "VAR_POP ( {x} ) {filter}"
_POWERS = "v", "v * v", "v * v * v"  # AVG(DISTINCT v * v) would count 1 and -1 once
_MEANS = [f"LIST_AVG ( LIST_TRANSFORM ( LIST ( {{x}} ) {{filter}} , lambda v : {p} ) )" for p in _POWERS]
_THIRD = "( {2} - 3 * {0} * {1} + 2 * {0} * {0} * {0} )".format(*_MEANS)
_SKEWNESS = f"CASE WHEN {_SPREAD} > 0 THEN {_THIRD} / POWER ( {_SPREAD} , 1.5 ) END"
_KURTOSIS = f"CASE WHEN {_SPREAD} > 0 THEN KURTOSIS_POP ( {{x}} ) {{filter}} END"
FORMS = {
    "EVERY 1": "BOOL_AND ( {0} ) {filter}",
    "SOME 1": "BOOL_OR ( {0} ) {filter}",
    "COUNT_IF 1": "COUNT ( CASE WHEN {0} THEN 1 END ) {filter}",
    "CORR 2": "CASE WHEN REGR_SXX ( {0} , {1} ) {filter} <> 0 AND REGR_SYY ( {0} , {1} ) {filter} <> 0 "
    "THEN CORR ( {0} , {1} ) {filter} END",
    "MEDIAN 1": "QUANTILE_CONT ( {0} , 0.5 ) {filter}",
    "MEDIAN DISTINCT 1": "QUANTILE_CONT ( DISTINCT {0} , 0.5 ) {filter}",
    "PERCENTILE 2": "QUANTILE_CONT ( {0} , {1} ) {filter}",
    "MIN_BY 2": "FIRST ( {0} ORDER BY {1} , {0} NULLS FIRST ) FILTER ( WHERE {1} IS NOT NULL AND {where} )",
    "MAX_BY 2": "LAST ( {0} ORDER BY {1} , {0} NULLS FIRST ) FILTER ( WHERE {1} IS NOT NULL AND {where} )",
    "FIRST 1": f"FIRST ( {{0}} ORDER BY {TIME} , {{0}} NULLS FIRST ) {{filter}}",
    "LAST 1": f"LAST ( {{0}} ORDER BY {TIME} , {{0}} NULLS FIRST ) {{filter}}",
    "OWN_SUM 1": "SUM ( {0} ) {filter}",
    "OWN_SUM DISTINCT 1": "SUM ( DISTINCT {0} ) {filter}",
    "OWN_DOT 2": "SUM ( {0} * {1} ) {filter}",
    "OWN_SPAN 1": "( MAX ( {0} ) {filter} - MIN ( {0} ) {filter} )",
    "LAST 2": f"LAST ( {{0}} ORDER BY {TIME} , {{0}} ) FILTER ( WHERE {{0}} IS NOT NULL AND {{where}} )",
    "STRING_AGG ORDERED 2": "STRING_AGG ( {0} , {1} ORDER BY {order} , {0} ) {filter}",
    "COLLECT_LIST ORDERED 1": "COALESCE ( LIST ( {0} ORDER BY {order} , {0} ) "
    "FILTER ( WHERE {0} IS NOT NULL AND {where} ) , [ ] )",
    "FIRST 2": f"FIRST ( {{0}} ORDER BY {TIME} , {{0}} ) FILTER ( WHERE {{0}} IS NOT NULL AND {{where}} )",
    "STRING_AGG 2": f"STRING_AGG ( {{0}} , {{1}} ORDER BY {TIME} , {{0}} ) {{filter}}",
    "STRING_AGG DISTINCT 2": "STRING_AGG ( DISTINCT {0} , {1} ORDER BY {0} ) {filter}",
    "COLLECT_LIST 1": f"COALESCE ( LIST ( {{0}} ORDER BY {TIME} , {{0}} ) "
    "FILTER ( WHERE {0} IS NOT NULL AND {where} ) , [ ] )",
    "COLLECT_SET 1": "COALESCE ( LIST ( DISTINCT {0} ORDER BY {0} ) "
    "FILTER ( WHERE {0} IS NOT NULL AND {where} ) , [ ] )",
    "APPROX_PERCENTILE 2": "QUANTILE_DISC ( {0} , {1} ) {filter}",
    "APPROX_COUNT_DISTINCT 1": "COUNT ( DISTINCT {0} ) {filter}",
    "SHA2 2": "SHA256 ( {0} )",
    "DATE_FORMAT 2": "STRFTIME ( {0} , '%Y-%m-%d' )",  # the one format that is drawn
    "ANY_VALUE 1": "MIN ( {0} ) {filter}",
    **{
        f"{name}{distinct}1": form.replace("{x}", "{0}").replace("( {0} ", f"({distinct}{{0}} ")
        for name, form in (("SKEWNESS", _SKEWNESS), ("KURTOSIS", _KURTOSIS))
        for distinct in (" ", " DISTINCT ")
    },
    "MODE 1": "MODE ( {0} ORDER BY {0} ) {filter}",
    "COUNT 2": "COUNT ( CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN 1 END ) {filter}",
    "COUNT DISTINCT 2": "COUNT ( DISTINCT CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL "
    "THEN ( {0} , {1} ) END ) {filter}",
}


def in_duckdb(words: list[str]) -> list[str]:
    """A query's words with the calls of these functions rewritten."""
    out: list[str] = []
    position = 0
    while position < len(words):
        found = _call(words, position)
        if found is None:
            out.append(words[position])
            position += 1
        else:
            rewritten, position = found
            out += rewritten
    return out


def _call(words: list[str], at: int) -> tuple[list[str], int] | None:
    """A call that begins here in other words, and where it ends; None if it is none of these."""
    if words[at + 1 : at + 2] != ["("]:
        return None
    shut = closed_at(words, at + 1)
    inside = words[at + 2 : shut]
    distinct = inside[:1] == ["DISTINCT"]
    inside, order = _ordered(inside) if words[at].upper() in ("COLLECT_LIST", "STRING_AGG") else (inside, [])
    arguments = [in_duckdb(a) for a in _arguments(inside[distinct:])]
    name = words[at].upper()
    name += " DISTINCT" * distinct + " ORDERED" * bool(order) + f" {len(arguments)}"
    form = FORMS.get(name)
    if form is None:
        return None
    end, condition = shut + 1, ["TRUE"]
    if [w.upper() for w in words[end : end + 3]] == ["FILTER", "(", "WHERE"]:
        last = closed_at(words, end + 1)
        condition, end = ["(", *in_duckdb(words[end + 3 : last]), ")"], last + 1
    return list(_filled(form.replace("{order}", " ".join(order)), arguments, condition)), end


def _ordered(words: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of a list, and its order, in which NULL comes first, or with DESC last."""
    if "ORDER" not in words:
        return words, []
    at = words.index("ORDER")
    order = words[at + 2 :]
    return words[:at], [*order, "NULLS", "LAST" if order[-1:] == ["DESC"] else "FIRST"]


def _filled(form: str, arguments: list[list[str]], condition: list[str]) -> Iterator[str]:
    for word in form.split():
        place = re.fullmatch(r"\{(\d+)\}", word)
        if place:
            yield from ["(", *arguments[int(place[1])], ")"]
        elif word == "{where}":
            yield from condition
        elif word == "{filter}":
            yield from [] if condition == ["TRUE"] else ["FILTER", "(", "WHERE", *condition, ")"]
        else:
            yield word


def _arguments(words: list[str]) -> Iterator[list[str]]:
    depth, argument = 0, list[str]()
    for word in words:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "," and depth == 0:
            yield argument
            argument = []
        else:
            argument.append(word)
    if argument:
        yield argument


def closed_at(words: list[str], opening: int) -> int:
    """The place of the parenthesis that closes the one at a place."""
    depth = 0
    for position in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"no closing parenthesis in {' '.join(words)!r}")
