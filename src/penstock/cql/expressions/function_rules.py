"""How a scalar function's arguments become its bound call: one rule a kind of function.

A rule takes the function's name and its bound arguments; it gives None for types the function does not take.
Some functions are spelled out in terms of others here, so that the engine has fewer to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.cql.expressions import types
from penstock.cql.expressions.coercion import coerce
from penstock.cql.expressions.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING
from penstock.expression import Call, Expression, Literal

Args = Sequence[Expression]
Rule = Callable[[str, Args], Expression | None]
Test = Callable[[pa.DataType], bool]


def fits(type_: pa.DataType, test: Test) -> bool:
    """Whether a type is NULL's or passes a test."""
    return type_ == types.NULL or test(type_)


def same(test: Test) -> Rule:
    """One argument, whose type is the result's."""

    def rule(name: str, args: Args) -> Expression | None:
        return Call(name, tuple(args), args[0].type) if fits(args[0].type, test) else None

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
    if not all(fits(a.type, types.is_numeric) for a in args):
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
    return coerce(arg, BIGINT) if fits(arg.type, types.is_integer) else None


def round_(name: str, args: Args) -> Expression | None:
    """ROUND(x[, digits]): the type of x, a DECIMAL with as many digits as are left."""
    value, digits = args[0], args[1] if len(args) > 1 else Literal(0, INT)
    if (
        not fits(value.type, types.is_numeric)
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
    if type_ is None or not fits(args[0].type, pa.types.is_boolean):
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


def isnull(name: str, args: Args) -> Expression | None:
    """ISNULL(x), ISNOTNULL(x)."""
    return Call(name, tuple(args), BOOLEAN)


def constant(value: object, type_: pa.DataType) -> Rule:
    """No arguments, and always the same."""
    return lambda name, args: Literal(value, type_)


def renamed(rule: Rule, name: str) -> Rule:
    """The same function under another name."""
    return lambda _, args: rule(name, args)


def padded(name: str, args: Args) -> Expression | None:
    """LPAD(s, n[, pad]) and RPAD: blanks if it does not say with what."""
    pad = args[2] if len(args) > 2 else Literal(" ", STRING)
    return typed(STRING, STRING, INT, STRING)(name, (args[0], args[1], pad))


def right(name: str, args: Args) -> Expression | None:
    """RIGHT(s, n): the last n characters, none if n is not positive."""
    bound = typed(STRING, STRING, INT)("substring", args)
    if bound is None or not isinstance(bound, Call):
        return None
    text_, count = bound.args
    last = Call("substring", (text_, Call("negative", (count,), INT)), STRING)
    empty = Call("<=", (count, Literal(0, INT)), BOOLEAN)
    either = Call("or", (Call("isnull", (text_,), BOOLEAN), Call("isnull", (count,), BOOLEAN)), BOOLEAN)
    return Call("case", (either, Literal(None, STRING), empty, Literal("", STRING), last), STRING)


def space(name: str, args: Args) -> Expression | None:
    """SPACE(n) is REPEAT(' ', n)."""
    return typed(STRING, STRING, INT)("repeat", (Literal(" ", STRING), *args))


def locate(name: str, args: Args) -> Expression | None:
    """LOCATE(part, s[, from]) and INSTR(s, part), from 1; 0 if it is not there."""
    part, whole = (args[1], args[0]) if name == "instr" else (args[0], args[1])
    start = args[2] if len(args) > 2 else Literal(1, INT)
    return typed(INT, STRING, STRING, INT)("locate", (part, whole, start))


def concat_ws(name: str, args: Args) -> Expression | None:
    """Everything as text with a separator between, without what is NULL."""
    return Call(name, tuple(coerce(a, STRING) for a in args), STRING)


def regexp_extract(name: str, args: Args) -> Expression | None:
    """REGEXP_EXTRACT(s, pattern[, group]): the first group if it does not say which."""
    group = args[2] if len(args) > 2 else Literal(1, INT)
    return typed(STRING, STRING, STRING, INT)(name, (args[0], args[1], group))


def logarithm(name: str, args: Args) -> Expression | None:
    """LOG(x) is LN(x); LOG(base, x)."""
    return number_to_double("ln" if len(args) == 1 else "log", args)


def modulo(name: str, args: Args) -> Expression | None:
    """PMOD(a, b): the remainder, never negative for a positive b."""
    if not all(fits(a.type, types.is_numeric) for a in args) or any(types.is_decimal(a.type) for a in args):
        return None
    return common(name, args)


def nvl2(name: str, args: Args) -> Expression | None:
    """NVL2(x, a, b) is CASE WHEN x IS NOT NULL THEN a ELSE b END."""
    return if_(name, (Call("isnotnull", (args[0],), BOOLEAN), *args[1:]))


def zeroifnull(name: str, args: Args) -> Expression | None:
    """ZEROIFNULL(x) is COALESCE(x, 0)."""
    return common("coalesce", (*args, Literal(0, INT))) if fits(args[0].type, types.is_numeric) else None


def nullifzero(name: str, args: Args) -> Expression | None:
    """NULLIFZERO(x) is NULLIF(x, 0)."""
    return nullif(name, (*args, Literal(0, INT))) if fits(args[0].type, types.is_numeric) else None


def equal_null(name: str, args: Args) -> Expression | None:
    """EQUAL_NULL(a, b) is a <=> b."""
    type_ = types.common(a.type for a in args)
    return None if type_ is None else Call("<=>", tuple(coerce(a, type_) for a in args), BOOLEAN)
