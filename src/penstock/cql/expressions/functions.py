"""The scalar functions: Spark's names, what they take, what they give.

A function is one line of a table: how many arguments, a rule from the arguments to the bound call, and in
words what it takes, for the error message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from penstock.cql.expressions import types
from penstock.cql.expressions.aggregates import AGGREGATES
from penstock.cql.expressions.function_rules import (
    Args,
    Rule,
    common,
    concat,
    concat_ws,
    constant,
    equal_null,
    if_,
    isnull,
    left,
    locate,
    logarithm,
    modulo,
    nullif,
    nullifzero,
    number_to_double,
    nvl2,
    padded,
    regexp_extract,
    right,
    round_,
    same,
    space,
    text,
    to_whole,
    typed,
    zeroifnull,
)  # fmt: skip
from penstock.cql.expressions.time_rules import (
    cast_to,
    clock_field,
    date_and_days,
    date_field,
    date_trunc,
    datediff,
    from_unixtime,
    of_date,
    of_timestamp,
    trunc,
    unix_seconds,
    whole,
)  # fmt: skip
from penstock.cql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING
from penstock.cql.syntax.dialect import RELATION_TO_STREAM
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.expression import Expression
from penstock.schema import TIMESTAMP


@dataclass(frozen=True)
class Function:
    """A scalar function. ``most`` None is any number of arguments."""

    least: int
    most: int | None
    rule: Rule
    takes: str


NUMBER, NUMBERS, TEXT, TIME, ALIKE = (
    "a number",
    "two numbers",
    "a STRING",
    "a DATE or TIMESTAMP",
    "arguments of one type",
)
WHOLE, ANYTHING = "a whole number", "anything"
DATE_UNIT, TIME_UNIT = "a DATE and the name of a unit", "the name of a unit and a TIMESTAMP"

CONDITIONAL: dict[str, Function] = {
    "coalesce": Function(1, None, common, ALIKE),
    "least": Function(2, None, common, ALIKE),
    "greatest": Function(2, None, common, ALIKE),
    "nullif": Function(2, 2, nullif, ALIKE),
    "if": Function(3, 3, if_, "a BOOLEAN and two arguments of one type"),
    "nvl2": Function(3, 3, nvl2, "anything and two arguments of one type"),
    "isnull": Function(1, 1, isnull, ANYTHING),
    "isnotnull": Function(1, 1, isnull, ANYTHING),
    "equal_null": Function(2, 2, equal_null, ALIKE),
    "zeroifnull": Function(1, 1, zeroifnull, NUMBER),
    "nullifzero": Function(1, 1, nullifzero, NUMBER),
    "isnan": Function(1, 1, typed(BOOLEAN, DOUBLE), NUMBER),
    "nanvl": Function(2, 2, typed(DOUBLE, DOUBLE, DOUBLE), NUMBERS),
}

MATH: dict[str, Function] = {
    "abs": Function(1, 1, same(types.is_numeric), NUMBER),
    "round": Function(1, 2, round_, "a number and a constant number of digits"),
    "floor": Function(1, 1, to_whole, NUMBER),
    "ceil": Function(1, 1, to_whole, NUMBER),
    "pmod": Function(2, 2, modulo, "two numbers that are no DECIMAL"),
    "power": Function(2, 2, number_to_double, NUMBERS),
    "log": Function(1, 2, logarithm, "one or two numbers"),
    "atan2": Function(2, 2, number_to_double, NUMBERS),
    "hypot": Function(2, 2, number_to_double, NUMBERS),
    "pi": Function(0, 0, constant(math.pi, DOUBLE), "nothing"),
    "e": Function(0, 0, constant(math.e, DOUBLE), "nothing"),
    **{
        name: Function(1, 1, number_to_double, NUMBER)
        for name in """sign sqrt cbrt exp expm1 ln log10 log2 log1p sin cos tan asin acos atan sinh cosh tanh
        degrees radians rint""".split()
    },
}

STRINGS: dict[str, Function] = {
    **{
        name: Function(1, 1, text(STRING), TEXT)
        for name in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse", "initcap", "md5")
    },
    **{name: Function(1, 1, text(INT), TEXT) for name in ("length", "octet_length", "bit_length", "ascii")},
    **{
        name: Function(2, 2, text(BOOLEAN, 2), "two STRINGs")
        for name in ("startswith", "endswith", "contains", "rlike")
    },
    "replace": Function(3, 3, text(STRING, 3), "three STRINGs"),
    "translate": Function(3, 3, text(STRING, 3), "three STRINGs"),
    "regexp_replace": Function(3, 3, text(STRING, 3), "three STRINGs"),
    "regexp_extract": Function(2, 3, regexp_extract, "two STRINGs and a group"),
    "levenshtein": Function(2, 2, text(INT, 2), "two STRINGs"),
    "btrim": Function(2, 2, text(STRING, 2), "two STRINGs"),
    "substring": Function(2, 3, typed(STRING, STRING, INT, INT), "a STRING, a start and a length"),
    "substring_index": Function(3, 3, typed(STRING, STRING, STRING, INT), "two STRINGs and a count"),
    "split_part": Function(3, 3, typed(STRING, STRING, STRING, INT), "two STRINGs and a number"),
    "left": Function(2, 2, left, "a STRING and a length"),
    "right": Function(2, 2, right, "a STRING and a length"),
    "lpad": Function(2, 3, padded, "a STRING, a length and a STRING"),
    "rpad": Function(2, 3, padded, "a STRING, a length and a STRING"),
    "repeat": Function(2, 2, typed(STRING, STRING, INT), "a STRING and a count"),
    "space": Function(1, 1, space, WHOLE),
    "chr": Function(1, 1, typed(STRING, BIGINT), WHOLE),
    "instr": Function(2, 2, locate, "two STRINGs"),
    "locate": Function(2, 3, locate, "two STRINGs and a start"),
    "concat": Function(1, None, concat, ANYTHING),
    "concat_ws": Function(1, None, concat_ws, ANYTHING),
}

TIME_FIELDS: dict[str, Function] = {
    "year": Function(1, 1, date_field, TIME),
    "quarter": Function(1, 1, date_field, TIME),
    "month": Function(1, 1, date_field, TIME),
    "weekofyear": Function(1, 1, date_field, TIME),
    "day": Function(1, 1, date_field, TIME),
    "dayofweek": Function(1, 1, date_field, TIME),
    "weekday": Function(1, 1, date_field, TIME),
    "dayofyear": Function(1, 1, date_field, TIME),
    "hour": Function(1, 1, clock_field, TIME),
    "minute": Function(1, 1, clock_field, TIME),
}

TIMES: dict[str, Function] = {
    **TIME_FIELDS,
    "second": Function(1, 1, clock_field, TIME),
    "date_trunc": Function(2, 2, date_trunc, TIME_UNIT),
    "trunc": Function(2, 2, trunc, DATE_UNIT),
    "date_add": Function(2, 2, date_and_days, "a DATE and a number of days"),
    "date_sub": Function(2, 2, date_and_days, "a DATE and a number of days"),
    "add_months": Function(2, 2, date_and_days, "a DATE and a number of months"),
    "datediff": Function(2, 2, datediff, "two DATEs"),
    "last_day": Function(1, 1, of_date(DATE), TIME),
    "make_date": Function(3, 3, typed(DATE, INT, INT, INT), "three whole numbers"),
    "unix_date": Function(1, 1, of_date(INT), TIME),
    "date_from_unix_date": Function(1, 1, typed(DATE, INT), WHOLE),
    "unix_timestamp": Function(1, 1, unix_seconds, TIME),
    "unix_seconds": Function(1, 1, of_timestamp(BIGINT), TIME),
    "unix_millis": Function(1, 1, of_timestamp(BIGINT), TIME),
    "unix_micros": Function(1, 1, of_timestamp(BIGINT), TIME),
    "timestamp_seconds": Function(1, 1, whole(TIMESTAMP), WHOLE),
    "timestamp_millis": Function(1, 1, whole(TIMESTAMP), WHOLE),
    "timestamp_micros": Function(1, 1, whole(TIMESTAMP), WHOLE),
    "from_unixtime": Function(1, 1, from_unixtime, WHOLE),
    "to_date": Function(1, 1, cast_to(DATE), "a STRING, DATE or TIMESTAMP"),
    "to_timestamp": Function(1, 1, cast_to(TIMESTAMP), "a STRING, DATE or TIMESTAMP"),
}

FUNCTIONS: dict[str, Function] = CONDITIONAL | MATH | STRINGS | TIMES

SYNONYMS = {
    "ceiling": "ceil",
    "char": "chr",
    "char_length": "length",
    "character_length": "length",
    "date": "to_date",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "nvl": "coalesce",
    "pow": "power",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "signum": "sign",
    "substr": "substring",
    "timestamp": "to_timestamp",
    "ucase": "upper",
}

CHANGING = "its value depends on when or where it is computed, and a result may not"
REFUSED = dict.fromkeys(
    """now current_timestamp current_date current_time localtimestamp curdate rand random randn uuid shuffle
    monotonically_increasing_id spark_partition_id input_file_name current_user""".split(),
    CHANGING,
)


NOT_DONE = """any_value approx_count_distinct array_agg bit_and bit_or bit_xor bool_and bool_or collect_list
    collect_set corr count_if covar_pop covar_samp every first first_value group_concat kurtosis last
    last_value listagg max_by median min_by mode percentile percentile_approx product skewness some
    string_agg""".split()
"""Aggregates of Spark and others that there are not here."""


def call(name: str, args: Args, node: exp.Expr, registered: Iterable[str] = ()) -> Expression:
    """The bound call of a scalar function, by the name as written; ``registered`` are others there are."""
    known = SYNONYMS.get(name.lower(), name.lower())
    function = FUNCTIONS.get(known)
    if known in REFUSED:
        raise unsupported(f"the function {name.upper()}", node, REFUSED[known])
    if known in NOT_DONE:
        there_are = ", ".join(n.upper() for n, a in AGGREGATES.items() if not a.means)
        raise unsupported(f"the aggregate {name.upper()}", node, f"supported are {there_are}")
    if function is None:
        names = [n.upper() for n in (*FUNCTIONS, *SYNONYMS, *AGGREGATES, *RELATION_TO_STREAM, *registered)]
        raise error(f"unknown function '{name.upper()}'", node, did_you_mean(name, names))
    _check_count(name.upper(), function, len(args), node)
    bound = function.rule(known, args)
    if bound is None:
        given = ", ".join(types.sql_name(a.type) for a in args)
        raise error(
            f"type mismatch: {name.upper()} takes {function.takes}, not {given}",
            node,
            "write CAST to convert it",
        )
    return bound


def _check_count(name: str, function: Function, given: int, node: exp.Expr) -> None:
    if function.least <= given and (function.most is None or given <= function.most):
        return
    wanted = str(function.least)
    if function.most is None:
        wanted += " or more"
    elif function.most != function.least:
        wanted += f" to {function.most}"
    plural = "" if wanted == "1" else "s"
    raise error(f"{name} takes {wanted} argument{plural}, not {given}", node)
