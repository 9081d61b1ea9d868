"""The scalar functions: Spark's names, what they take, what they give.

A function is one line of ``FUNCTIONS``: how many arguments, a rule from the arguments to the bound call,
and in words what it takes, for the error message. A rule gives None for types it does not take. Some
functions are spelled out in terms of others here, so that the engine has fewer to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from penstock.cql import types
from penstock.cql.aggregates import AGGREGATES
from penstock.cql.coercion import coerce
from penstock.cql.errors import did_you_mean, error
from penstock.cql.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from penstock.expression import Call, Expression, Literal

Args = Sequence[Expression]
Rule = Callable[[str, Args], Expression | None]
Test = Callable[[pa.DataType], bool]


@dataclass(frozen=True)
class Function:
    """A scalar function. ``most`` None is any number of arguments."""

    least: int
    most: int | None
    rule: Rule
    takes: str


def _is(type_: pa.DataType, test: Test) -> bool:
    return type_ == types.NULL or test(type_)


def same(test: Test) -> Rule:
    """One argument, whose type is the result's."""

    def rule(name: str, args: Args) -> Expression | None:
        return Call(name, tuple(args), args[0].type) if _is(args[0].type, test) else None

    return rule


def typed(result: pa.DataType, *parameters: pa.DataType) -> Rule:
    """Fixed parameter types (numbers widen to them) and a fixed result."""

    def rule(name: str, args: Args) -> Expression | None:
        for arg, parameter in zip(args, parameters, strict=False):
            if types.common((arg.type, parameter)) != parameter:
                return None
        return Call(name, tuple(coerce(a, p) for a, p in zip(args, parameters, strict=False)), result)

    return rule


def text(result: pa.DataType, count: int = 1) -> Rule:
    """``count`` strings to a result."""
    return typed(result, *[STRING] * count)


def number_to_double(name: str, args: Args) -> Expression | None:
    """Numbers, each as DOUBLE, to DOUBLE."""
    if not all(_is(a.type, types.is_numeric) for a in args):
        return None
    return Call(name, tuple(coerce(a, DOUBLE) for a in args), DOUBLE)


def common(name: str, args: Args) -> Expression | None:
    """Any arguments that have a common type, which is the result's."""
    type_ = types.common(a.type for a in args)
    return None if type_ is None else Call(name, tuple(coerce(a, type_) for a in args), type_)


def concat(name: str, args: Args) -> Expression | None:
    """Everything as text."""
    return Call("concat", tuple(coerce(a, STRING) for a in args), STRING)


def to_whole(name: str, args: Args) -> Expression | None:
    """FLOOR and CEIL: BIGINT, or a DECIMAL without a scale."""
    (arg,) = args
    if types.is_decimal(arg.type):
        return Call(name, (arg,), types.decimal(arg.type.precision - arg.type.scale + 1, 0))
    if types.is_fractional(arg.type):
        return Call(name, (coerce(arg, DOUBLE),), BIGINT)
    return coerce(arg, BIGINT) if _is(arg.type, types.is_integer) else None


def round_(name: str, args: Args) -> Expression | None:
    """ROUND(x[, digits]): the type of x, a DECIMAL with as many digits as are left."""
    value, digits = args[0], args[1] if len(args) > 1 else Literal(0, INT)
    if (
        not _is(value.type, types.is_numeric)
        or not isinstance(digits, Literal)
        or not isinstance(digits.value, int)
    ):
        return None
    type_ = value.type
    if types.is_decimal(type_):
        scale = min(type_.scale, max(digits.value, 0))
        whole = max(type_.precision - type_.scale + 1, 1 - digits.value)
        type_ = types.decimal(whole + scale, scale)
    return Call("round", (value, coerce(digits, INT)), type_)


def if_(name: str, args: Args) -> Expression | None:
    """IF(c, a, b) is CASE WHEN c THEN a ELSE b END."""
    type_ = types.common(a.type for a in args[1:])
    if type_ is None or not _is(args[0].type, pa.types.is_boolean):
        return None
    return Call("case", (coerce(args[0], BOOLEAN), *(coerce(a, type_) for a in args[1:])), type_)


def nullif(name: str, args: Args) -> Expression | None:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END."""
    type_ = types.common(a.type for a in args)
    if type_ is None:
        return None
    equal = Call("=", tuple(coerce(a, type_) for a in args), BOOLEAN)
    return Call("case", (equal, Literal(None, args[0].type), args[0]), args[0].type)


def left(name: str, args: Args) -> Expression | None:
    """LEFT(s, n) is SUBSTRING(s, 1, n)."""
    return typed(STRING, STRING, INT, INT)("substring", (args[0], Literal(1, INT), args[1]))


def date_field(name: str, args: Args) -> Expression | None:
    """YEAR, MONTH or DAY of a date or timestamp."""
    return Call(name, tuple(args), INT) if types.is_temporal(args[0].type) else None


def clock_field(name: str, args: Args) -> Expression | None:
    """HOUR, MINUTE or SECOND of a timestamp; a date is its midnight."""
    if not types.is_temporal(args[0].type):
        return None
    value = coerce(args[0], types.TIMESTAMP) if args[0].type == types.DATE else args[0]
    return Call(name, (value,), INT)


def isnull(name: str, args: Args) -> Expression | None:
    """ISNULL(x), ISNOTNULL(x)."""
    return Call(name, tuple(args), BOOLEAN)


NUMBER, TEXT, TIME, ALIKE = "a number", "a STRING", "a DATE or TIMESTAMP", "arguments of one type"

FUNCTIONS: dict[str, Function] = {
    "abs": Function(1, 1, same(types.is_numeric), NUMBER),
    "sign": Function(1, 1, number_to_double, NUMBER),
    "sqrt": Function(1, 1, number_to_double, NUMBER),
    "exp": Function(1, 1, number_to_double, NUMBER),
    "ln": Function(1, 1, number_to_double, NUMBER),
    "log10": Function(1, 1, number_to_double, NUMBER),
    "power": Function(2, 2, number_to_double, "two numbers"),
    "round": Function(1, 2, round_, "a number and a constant number of digits"),
    "floor": Function(1, 1, to_whole, NUMBER),
    "ceil": Function(1, 1, to_whole, NUMBER),
    "upper": Function(1, 1, text(STRING), TEXT),
    "lower": Function(1, 1, text(STRING), TEXT),
    "trim": Function(1, 1, text(STRING), TEXT),
    "ltrim": Function(1, 1, text(STRING), TEXT),
    "rtrim": Function(1, 1, text(STRING), TEXT),
    "reverse": Function(1, 1, text(STRING), TEXT),
    "length": Function(1, 1, text(INT), TEXT),
    "replace": Function(3, 3, text(STRING, 3), "three STRINGs"),
    "startswith": Function(2, 2, text(BOOLEAN, 2), "two STRINGs"),
    "endswith": Function(2, 2, text(BOOLEAN, 2), "two STRINGs"),
    "contains": Function(2, 2, text(BOOLEAN, 2), "two STRINGs"),
    "substring": Function(2, 3, typed(STRING, STRING, INT, INT), "a STRING, a start and a length"),
    "left": Function(2, 2, left, "a STRING and a length"),
    "year": Function(1, 1, date_field, TIME),
    "month": Function(1, 1, date_field, TIME),
    "day": Function(1, 1, date_field, TIME),
    "hour": Function(1, 1, clock_field, TIME),
    "minute": Function(1, 1, clock_field, TIME),
    "second": Function(1, 1, clock_field, TIME),
    "concat": Function(1, None, concat, "anything"),
    "coalesce": Function(1, None, common, ALIKE),
    "least": Function(2, None, common, ALIKE),
    "greatest": Function(2, None, common, ALIKE),
    "nullif": Function(2, 2, nullif, ALIKE),
    "if": Function(3, 3, if_, "a BOOLEAN and two arguments of one type"),
    "isnull": Function(1, 1, isnull, "anything"),
    "isnotnull": Function(1, 1, isnull, "anything"),
}

SYNONYMS = {
    "ceiling": "ceil",
    "dayofmonth": "day",
    "char_length": "length",
    "character_length": "length",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "nvl": "coalesce",
    "pow": "power",
    "signum": "sign",
    "substr": "substring",
    "ucase": "upper",
}


def call(name: str, args: Args, node: exp.Expr, registered: Iterable[str] = ()) -> Expression:
    """The bound call of a scalar function, by the name as written; ``registered`` are others there are."""
    known = SYNONYMS.get(name.lower(), name.lower())
    function = FUNCTIONS.get(known)
    if function is None:
        names = [n.upper() for n in (*FUNCTIONS, *SYNONYMS, *AGGREGATES, *registered)]
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
