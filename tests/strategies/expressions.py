"""Scalar expressions and conditions that no row makes fail."""

from __future__ import annotations

import datetime as dt
import math

from strategies.data import (
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INSTANT,
    INT,
    LENGTH,
    MOMENT,
    NUMBER,
    NUMERIC,
    ROUGH,
    STRING,
    TIMES,
    VALUES,
)
from strategies.scope import Context, Scope

NUMBERS = (
    "({} + {})", "({} - {})", "({} * 2)", "({} * -1)", "({} % 3)", "({} / 4)", "-({})", "ABS({})",
    "COALESCE({}, 0)", "COALESCE({}, 7)", "CAST({} AS DOUBLE)", "NULLIF({}, 1)", "GREATEST({}, {})",
    "LEAST({}, {})", "CASE WHEN {c} THEN {} ELSE {} END", "CASE WHEN {c} THEN {} END",
)  # fmt: skip
DECIMALS = ("({} + {})", "({} - {})", "({} * 2)", "-({})", "ABS({})", "COALESCE({}, 0.5)", "({} * {})",
            "CASE WHEN {c} THEN {} ELSE {} END", "CAST({} AS DECIMAL(12, 3))", "LEAST({}, {})")  # fmt: skip
LENGTHS = ("({} + {})", "({} - {})", "({} * 2)", "COALESCE({}, {})", "CASE WHEN {c} THEN {} END")
TEXTS = ("{}", "UPPER({})", "{} || '!'", "COALESCE({}, 'none')", "SUBSTRING({}, 1, 1)", "TRIM({})",
         "MD5({})", "SHA2({}, 256)")  # fmt: skip
TESTS = (
    "{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} IS NULL", "{} IS NOT NULL", "{} IN ({}, {})",
    "{} NOT IN ({}, {})", "{} IN ({}, NULL)", "{} BETWEEN {} AND {}", "{} NOT BETWEEN {} AND {}",
    "{} IS DISTINCT FROM {}", "{} IS NOT DISTINCT FROM {}",
)  # fmt: skip
PARTS = ("HOUR({})", "DAY({})", "MONTH({})", "MINUTE({})")
BAND = "band"
SIGNS = ("<", "<=", "<>", BAND, BAND)
PAIRS = ("({}, {}) IN (({}, {}), ({}, {}))", "({}, {}) NOT IN (({}, {}), ({}, {}))")
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata")
LIKES = ("{} LIKE ANY ('a%', '%b')", "{} NOT LIKE ANY ('a%', 'b')", "{} LIKE ALL ('a%', '%b%')",
         "{} NOT LIKE ALL ('b%', '')", "{} ILIKE 'b%'", "{} LIKE 'a%'", "NOT {} LIKE '%b'",
         "{} NOT LIKE '%b'", "{} LIKE '_'")  # fmt: skip


def constant(ctx: Context, type_: str) -> str:
    """A constant as CQL writes it."""
    known = [v for v in VALUES[type_] if v is not None and (type_ != DOUBLE or math.isfinite(v))]
    value = ctx.pick(*known)
    if isinstance(value, dt.datetime):
        return f"{ctx.pick('', 'TIMESTAMP_NTZ ', 'TIMESTAMP ')}'{value.replace(tzinfo=None)}'"
    if isinstance(value, dt.timedelta):
        return f"INTERVAL {value // dt.timedelta(seconds=1)} SECONDS"
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


def number(ctx: Context, scope: Scope, depth: int = 1) -> str:
    """A numeric expression."""
    columns, times = scope.columns(NUMERIC), scope.columns(TIMES)
    if times and ctx.chance(4):
        return ctx.pick(*PARTS).format(ctx.pick(*times))
    if depth == 0 or ctx.chance(2):
        return ctx.pick(*columns) if columns else constant(ctx, INT)
    form = ctx.pick(*NUMBERS)
    parts = [number(ctx, scope, depth - 1) for _ in range(form.count("{}"))]
    return form.format(*parts, c=test(ctx, scope) if "{c}" in form else "")


def exact(ctx: Context, scope: Scope, depth: int = 1) -> str:
    """A DECIMAL, where there is a column of one."""
    columns = scope.columns({DECIMAL})
    if depth == 0 or ctx.chance(2):
        return ctx.pick(*columns)
    form = ctx.pick(*DECIMALS)
    parts = [exact(ctx, scope, depth - 1) for _ in range(form.count("{}"))]
    return form.format(*parts, c=test(ctx, scope) if "{c}" in form else "")


def moment(ctx: Context, scope: Scope) -> tuple[str, str]:
    """A time and its type, where there is a column of one."""
    column = ctx.pick(*scope.columns(TIMES))
    type_ = scope.types[column]
    other = INSTANT if type_ == MOMENT else MOMENT
    forms = [
        (column, type_), (f"({column} + {length(ctx, scope, 0)})", type_),
        (f"({column} - INTERVAL 1 DAY)", type_), (f"CAST({column} AS {other})", other),
    ]  # fmt: skip
    what = "an instant" if type_ == INSTANT else "a clock"
    forms += [(f"({column} AT TIME ZONE '{ctx.pick(*ZONES)}' /* of {what} */)", other)] * 2
    if type_ == INSTANT:
        forms += [(f"DATE_TRUNC('{part}', {column})", INSTANT) for part in ("HOUR", "DAY", "MONTH")]
    return ctx.pick(*forms)


def length(ctx: Context, scope: Scope, depth: int = 1) -> str:
    """An interval: of a column, a difference of times, a constant."""
    if depth > 0 and ctx.chance(2):
        form = ctx.pick(*LENGTHS)
        parts = [length(ctx, scope, depth - 1) for _ in range(form.count("{}"))]
        return form.format(*parts, c=test(ctx, scope) if "{c}" in form else "")
    columns, times = scope.columns({LENGTH}), scope.columns(TIMES)
    forms = [*columns, constant(ctx, LENGTH)]
    if times:
        forms += [f"({ctx.pick(*times)} - {ctx.pick(*times)})"] * 2
    return ctx.pick(*forms)


def text(ctx: Context, scope: Scope) -> str:
    """A string expression."""
    columns, times = scope.columns({STRING}), scope.columns(TIMES)
    if times and ctx.chance(3):
        return ctx.pick("CAST({} AS STRING)", "DATE_FORMAT({}, 'yyyy-MM-dd')").format(ctx.pick(*times))
    return ctx.pick(*TEXTS).format(ctx.pick(*columns) if columns else constant(ctx, STRING))


def test(ctx: Context, scope: Scope) -> str:
    """One comparison of a column with a constant, or a test of it."""
    column = ctx.pick(*scope.columns())
    type_ = scope.types[column]
    if type_ == BOOLEAN:
        return ctx.pick("{}", "NOT {}", "{} IS NULL", "{} = TRUE").format(column)
    if ctx.chance(12):
        other = ctx.pick(*scope.columns())
        types = (type_, scope.types[other])
        values = [ctx.pick(constant(ctx, t), "NULL") for t in types * 2]
        return ctx.pick(*PAIRS).format(column, other, *values)
    forms = TESTS + LIKES if type_ == STRING else TESTS
    return ctx.pick(*forms).format(column, constant(ctx, type_), constant(ctx, type_))


def condition(ctx: Context, scope: Scope) -> str:
    """A condition over any columns in sight."""
    form = ctx.pick("test", "or", "or", "not", "not", "compare")
    if form == "test":
        return test(ctx, scope)
    if form == "compare" and scope.columns(TIMES) and ctx.chance(2):
        return f"{length(ctx, scope)} {ctx.pick('<', '>=', '<>', '=')} {length(ctx, scope)}"
    if form == "compare":
        sign = ctx.pick("<", ">=", "<>", "=")
        return f"{number(ctx, scope)} {sign} {number(ctx, scope)}"
    parts = [test(ctx, scope) for _ in range(ctx.pick(2, 2, 2, 3))]
    return f"({' OR '.join(parts)})" if form == "or" else f"NOT ({' AND '.join(parts)})"


def of_type(ctx: Context, scope: Scope, type_: str) -> str:
    """An expression of a type, or for numbers of any numeric one."""
    if type_ == NUMBER:
        return number(ctx, scope)
    if type_ == STRING:
        return text(ctx, scope)
    columns = scope.columns({type_})
    if columns and ctx.chance(2):
        return ctx.pick(*columns)
    if type_ == BOOLEAN:
        return test(ctx, scope)
    # No double is cast to an integer: it may be infinite.
    return constant(ctx, INT) if type_ == INT else f"CAST({number(ctx, scope)} AS {type_})"


def pairs(left: Scope, right: Scope) -> list[tuple[str, str]]:
    """Columns of two scopes that can be compared."""
    return [
        (m, n)
        for m, s in left.types.items()
        for n, t in right.types.items()
        if s == t != ROUGH or {s, t} <= NUMERIC or {s, t} <= TIMES
    ]


def link(ctx: Context, left: Scope, right: Scope, signs: tuple[str, ...] = SIGNS) -> str:
    """A predicate between two scopes, most often an equality, most often of the keys."""
    found = pairs(left, right)
    if not found:
        return f"({ctx.pick(*left.columns())} IS NULL) = ({ctx.pick(*right.columns())} IS NULL)"
    keys = [p for p in found if p[0].endswith(".a") and p[1].endswith(".a")]
    one, other = ctx.pick(*(keys or found)) if ctx.chance(2) else ctx.pick(*found)
    sign = ctx.pick(*("=",) * 8, *signs)
    if sign == BAND:
        return (
            band(ctx, one, other) if {left.types[one], right.types[other]} <= NUMERIC else f"{one} = {other}"
        )
    return f"{one} {sign} {other}"


def band(ctx: Context, one: str, other: str) -> str:
    """Two numbers near each other, or one before the other, with something added."""
    form = ctx.pick(
        "{0} BETWEEN {1} - {2} AND {1} + {2}",
        "{0} BETWEEN {1} - 1 AND {1} + {2}",
        "ABS({0} - {1}) <= {2}",
        "{0} - {1} < {2}",
        "{2} >= {0} - {1}",
        "{0} + {2} > {1} - 1",
        "{0} >= {1}",
        "{0} > {1} + {2}",
    )
    return form.format(one, other, ctx.pick("1", "2", "0", "1.5"))
