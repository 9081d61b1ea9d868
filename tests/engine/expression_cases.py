"""A sample table full of awkward values, and expressions over it that cover every function.

``EXPRESSIONS`` are safe on every row of the sample: they are compared with Spark whole. ``EXPECTED`` are
single values worked out by hand. ``FAILING`` must raise.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

from penstock.expression import Call, Column, Expression, Literal
from penstock.schema import TIMESTAMP

INT, BIGINT, DOUBLE, STRING, BOOL, DATE = (
    pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(),
)  # fmt: skip
DEC = pa.decimal128(10, 2)
NAN, INF = float("nan"), float("inf")
NULL = pa.null()


def _moment(*args: int) -> dt.datetime:
    return dt.datetime(*args, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]


SAMPLE = pa.table(
    {
        "S.i": pa.array([1, -7, 0, 7, None, 3, 2147483647, -2147483648], INT),
        "S.j": pa.array([3, 3, -3, -3, 2, None, -1, 5], INT),
        "S.b": pa.array([10, -20, 0, None, 5, 5, 1 << 40, -3], BIGINT),
        "S.x": pa.array([1.5, -2.5, NAN, None, -0.0, INF, 0.0, 1e-5], DOUBLE),
        "S.y": pa.array([1.5, 3.5, NAN, 1.0, 0.0, NAN, -1.25, 123456789.0], DOUBLE),
        "S.s": pa.array(["abc", "", None, "  héLLo ß ", "a%b", "a_b\nc", "10", "Abcabc"], STRING),
        "S.t": pa.array(["abd", "x", "a", "é", None, "a_b\nc", "9", "abc"], STRING),
        "S.p": pa.array([True, False, None, True, False, None, True, False], BOOL),
        "S.q": pa.array([True, True, True, None, None, None, False, False], BOOL),
        "S.d": pa.array([Decimal(v) if v else None for v in
                         ("1.25", "-1.25", "0.00", None, "99999999.99", "2.50", "-0.01", "3.35")], DEC),
        "S.a": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1970, 1, 1), None,
                         dt.date(2000, 6, 5), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 3, 1)]),
        "S.ts": pa.array([_moment(2024, 2, 29, 23, 59, 59, 999999), _moment(1969, 12, 31, 23, 59, 59, 500000),
                          _moment(1970, 1, 1), None, _moment(2000, 6, 5, 4, 3, 2, 100), _moment(1900, 1, 1),
                          _moment(2100, 12, 31, 12, 0), _moment(2024, 3, 1, 0, 0, 1)], TIMESTAMP),
    }
)  # fmt: skip

C = {name.split(".")[1]: Column(name, SAMPLE.schema.field(name).type) for name in SAMPLE.column_names}


def lit(value: Any, type_: pa.DataType) -> Literal:
    return Literal(value, type_)


def call(function: str, *args: Expression, type: pa.DataType = BOOL) -> Call:
    return Call(function, tuple(args), type)


def cast(expression: Expression, type_: pa.DataType) -> Call:
    return Call("cast", (expression,), type_)


def text(value: str | None) -> Literal:
    return lit(value, STRING)


def num(value: int | None) -> Literal:
    return lit(value, INT)


ZERO = num(0)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
COMPARED = [
    (C["i"], C["j"]), (C["i"], num(3)), (num(None), C["i"]), (C["x"], C["y"]), (C["x"], lit(NAN, DOUBLE)),
    (C["s"], C["t"]), (C["p"], C["q"]), (C["d"], lit(Decimal("1.25"), DEC)),
    (C["a"], lit(dt.date(2000, 6, 5), DATE)),
    (C["ts"], lit(_moment(1970, 1, 1), TIMESTAMP)),
]  # fmt: skip

_LOGIC: list[Expression] = [
    *(call(op, C["p"], C["q"]) for op in ("and", "or")),
    *(call(op, C["p"], lit(None, BOOL)) for op in ("and", "or")),
    call("not", C["p"]), call("isnull", C["s"]), call("isnotnull", C["x"]),
    call("in", C["i"], num(1), num(7)), call("in", C["i"], num(1), num(None)),
    call("in", C["x"], lit(0.0, DOUBLE), lit(NAN, DOUBLE)), call("in", C["s"], text("abc"), text("10")),
    *(call(op, lit(None, NULL), lit(None, NULL)) for op in ("=", "<=>")), call("isnull", lit(None, NULL)),
    call("coalesce", lit(None, NULL), lit(None, NULL), type=NULL),
    call("in", C["i"], C["j"], num(7)), call("not", call("in", C["i"], num(1), num(None))),
]  # fmt: skip

_SAFE_DIVISION = call(
    "case", call("<>", C["i"], ZERO), call("/", cast(C["b"], DOUBLE), cast(C["i"], DOUBLE), type=DOUBLE),
    lit(None, DOUBLE), type=DOUBLE,
)  # fmt: skip
_NONZERO = call("case", call("=", C["b"], lit(0, BIGINT)), lit(None, BIGINT), C["b"], type=BIGINT)
_RATIO = call("/", lit(1.0, DOUBLE), cast(C["b"], DOUBLE), type=DOUBLE)

_CONDITIONAL: list[Expression] = [
    _SAFE_DIVISION,
    call("case", C["p"], num(1), C["q"], num(2), num(None), type=INT),
    call("case", C["p"], C["s"], call("=", C["i"], num(3)), text("three"), C["t"], type=STRING),
    call("case", C["p"], C["i"], C["j"], type=INT),
    call("case", call("=", C["b"], lit(0, BIGINT)), lit(0.0, DOUBLE), _RATIO, type=DOUBLE),
    call("coalesce", C["i"], C["j"], num(5), type=INT),
    call("coalesce", C["s"], text("none"), type=STRING),
    call("coalesce", lit(2.0, DOUBLE), _RATIO, type=DOUBLE),
    call("and", call("<>", C["b"], lit(0, BIGINT)), call(">", _RATIO, lit(0.0, DOUBLE))),
    call("or", call("=", C["b"], lit(0, BIGINT)), call(">", _RATIO, lit(0.0, DOUBLE))),
    *(call(f, C["i"], C["j"], type=INT) for f in ("least", "greatest")),
    *(call(f, C["x"], C["y"], lit(1.0, DOUBLE), type=DOUBLE) for f in ("least", "greatest")),
    *(call(f, C["s"], C["t"], type=STRING) for f in ("least", "greatest")),
    *(call(f, C["p"], C["q"], type=BOOL) for f in ("least", "greatest")),
    *(call(f, C["d"], lit(Decimal("2.00"), DEC), type=DEC) for f in ("least", "greatest")),
    *(call(f, C["a"], lit(dt.date(2000, 1, 1), DATE), type=DATE) for f in ("least", "greatest")),
]  # fmt: skip

_WIDE_I = cast(C["i"], BIGINT)
_ARITHMETIC: list[Expression] = [
    *(call(op, _WIDE_I, C["b"], type=BIGINT) for op in "+-"),
    call("*", _WIDE_I, cast(C["j"], BIGINT), type=BIGINT),
    *(call(op, C["x"], C["y"], type=DOUBLE) for op in "+-*"),
    call("/", C["x"], lit(3.0, DOUBLE), type=DOUBLE),
    call("/", _RATIO.args[0], cast(_NONZERO, DOUBLE), type=DOUBLE),
    call("%", C["i"], C["j"], type=INT), call("%", C["i"], num(-4), type=INT),
    call("%", C["b"], _NONZERO, type=BIGINT),
    call("%", C["x"], lit(0.4, DOUBLE), type=DOUBLE), call("%", C["y"], lit(-2.0, DOUBLE), type=DOUBLE),
    call("negative", C["b"], type=BIGINT), call("negative", C["x"], type=DOUBLE),
    call("negative", C["d"], type=DEC),
    call("abs", C["b"], type=BIGINT), call("abs", C["x"], type=DOUBLE), call("abs", C["d"], type=DEC),
    call("+", C["d"], C["d"], type=pa.decimal128(11, 2)),
    call("-", C["d"], C["d"], type=pa.decimal128(11, 2)),
    call("*", C["d"], C["d"], type=pa.decimal128(21, 4)),
    call("/", C["d"], lit(Decimal("3.00"), DEC), type=pa.decimal128(23, 13)),
    call("%", C["d"], lit(Decimal("-0.70"), DEC), type=DEC),
    call("*", cast(C["b"], pa.decimal128(20, 0)), lit(Decimal("1.5"), pa.decimal128(2, 1)),
         type=pa.decimal128(23, 1)),
    call("*", cast(C["b"], pa.decimal128(30, 10)), lit(Decimal("1.5"), pa.decimal128(30, 20)),
         type=pa.decimal128(38, 7)),
]  # fmt: skip

_MATH: list[Expression] = [
    *(call("round", C[c], *more, type=DOUBLE)
      for c, more in product("xy", [(ZERO,), (num(1),), (num(-1),)])),
    *(call("round", lit(v, DOUBLE), num(n), type=DOUBLE)
      for v, n in [(2.675, 2), (1.005, 2), (-2.5, 0), (0.5, 0), (1e20, 3), (123456.789, -2), (1.45, 1)]),
    call("round", C["j"], num(-1), type=INT), call("round", C["d"], num(1), type=pa.decimal128(10, 1)),
    *(call(f, cast(C["d"], DOUBLE), type=BIGINT) for f in ("floor", "ceil")),
    call("floor", lit(NAN, DOUBLE), type=BIGINT),
    *(call(f, C["d"], type=pa.decimal128(9, 0)) for f in ("floor", "ceil")),
    *(call(f, C["b"], type=BIGINT) for f in ("floor", "ceil")),
    *(call(f, C[c], type=DOUBLE) for f, c in product(("sqrt", "exp", "ln", "log10", "sign"), "xy")),
    call("power", C["y"], lit(2.0, DOUBLE), type=DOUBLE),
    call("power", C["y"], lit(0.5, DOUBLE), type=DOUBLE),
]  # fmt: skip

_STRINGS: list[Expression] = [
    *(call(f, C["s"], type=STRING) for f in ("upper", "lower", "trim", "ltrim", "rtrim")),
    call("length", C["s"], type=INT),
    call("concat", C["s"], text("-"), C["t"], type=STRING),
    *(call("substring", C["s"], num(p), num(n), type=STRING)
      for p, n in product((-5, -2, 0, 1, 2, 9), (-1, 0, 1, 3))),
    call("substring", C["s"], num(2), type=STRING), call("substring", C["s"], num(-2), type=STRING),
    call("substring", C["s"], C["j"], num(2), type=STRING),
    call("substring", C["s"], num(None), num(2), type=STRING),
    call("substring", text("abcdef"), C["j"], type=STRING),
    call("replace", C["s"], text("b"), text("XY"), type=STRING),
    call("replace", C["s"], text(""), text("-"), type=STRING),
    call("replace", C["s"], C["t"], text("!"), type=STRING), call("replace", C["s"], text("a"), type=STRING),
    *(call("like", C["s"], text(p)) for p in
      ("a%", "%c", "%b%", "_bc", "a\\%b", "a\\_b%", "abc", "", "%", "__%__", "%é_L%", "a_b_c")),
    call("like", C["s"], C["t"]), call("like", C["s"], text(None)), call("reverse", C["s"], type=STRING),
    *(call(f, C["s"], part) for f, part in
      product(("startswith", "endswith", "contains"), (text("bc"), text(""), text(None), C["t"]))),
    cast(cast(C["s"], pa.binary()), STRING),
]  # fmt: skip

_TIMES: list[Expression] = [
    *(call(f, C[c], type=INT) for f, c in product(("year", "month", "day"), ("a", "ts"))),
    *(call(f, C["ts"], type=INT) for f in ("hour", "minute", "second")),
]

DIGITS = call("case", call("=", C["i"], num(7)), text(" 12 "), text("-3"), type=STRING)
_CASTS: list[Expression] = [
    *(cast(C[c], STRING) for c in ("i", "b", "x", "y", "p", "d", "a", "ts")),
    *(cast(lit(v, DOUBLE), STRING) for v in (1e7, 9999999.0, 1e-3, 9.99e-4, -1.5e300, 100.0, 0.1 + 0.2)),
    cast(C["i"], BIGINT), cast(C["i"], DOUBLE), cast(C["i"], BOOL), cast(C["j"], pa.decimal128(5, 1)),
    cast(C["x"], BOOL), cast(C["y"], pa.decimal128(20, 1)), cast(C["d"], DOUBLE), cast(C["d"], INT),
    cast(C["d"], pa.decimal128(12, 1)), cast(C["d"], BOOL), cast(C["d"], BIGINT),
    cast(C["p"], INT), cast(C["p"], BIGINT), cast(C["p"], DOUBLE), cast(C["p"], DEC),
    cast(DIGITS, INT), cast(DIGITS, BIGINT), cast(DIGITS, DOUBLE), cast(DIGITS, DEC),
    *(cast(text(v), DOUBLE) for v in ("1e3", " .5", "-Infinity", "NaN", "inf", "1.", "+2.5", "3d")),
    *(cast(text(v), INT) for v in ("+5", "\t7\n", "-0", "007")),
    *(cast(text(v), BOOL) for v in ("t", "YES", " true ", "0", "n", "False")),
    *(cast(text(v), DEC) for v in ("1.005", "-1.005", "1e2", " 7 ")),
    *(cast(text(v), DATE) for v in ("2024-02-29", "2024-2-9", "2024", "2024-07", " 2024-07-01T10:00")),
    *(cast(text(v), TIMESTAMP) for v in (
        "2024-02-29 01:02:03.5", "2024-02-29", "2024-02-29T01:02", "2024-02-29 01:02:03Z",
        "2024-02-29 01:02:03+02:00", "2024-02-29 01:02:03.123456789")),
    cast(C["a"], TIMESTAMP), cast(C["ts"], DATE), cast(C["ts"], BIGINT), cast(C["ts"], DOUBLE),
    cast(C["j"], TIMESTAMP), cast(lit(-1.5, DOUBLE), TIMESTAMP), cast(lit(None, INT), STRING),
    cast(call("coalesce", C["y"], lit(0.0, DOUBLE), type=DOUBLE), STRING),
    cast(lit(-1.9, DOUBLE), INT), cast(lit(2147483647.9, DOUBLE), INT),
]  # fmt: skip

EXPRESSIONS: list[Expression] = [
    *(call(op, a, b) for op, (a, b) in product(COMPARISONS, COMPARED)),
    *_LOGIC, *_CONDITIONAL, *_ARITHMETIC, *_MATH, *_STRINGS, *_TIMES, *_CASTS,
]  # fmt: skip

FAILING: list[tuple[Expression, str]] = [
    (call("+", C["i"], num(1), type=INT), "overflow"),
    (call("-", C["i"], num(1), type=INT), "overflow"),
    (call("*", C["i"], C["j"], type=INT), "overflow"),
    (call("negative", C["i"], type=INT), "overflow"),
    (call("abs", C["i"], type=INT), "overflow"),
    (call("/", C["x"], C["x"], type=DOUBLE), "division by zero"),
    (call("%", C["j"], C["i"], type=INT), "division by zero"),
    (call("/", C["d"], C["d"], type=pa.decimal128(23, 13)), "division by zero"),
    (cast(C["s"], INT), "cannot cast 'abc' to INT"),
    (cast(C["s"], DOUBLE), "cannot cast 'abc' to DOUBLE"),
    (cast(C["s"], BOOL), "cannot cast 'abc' to BOOLEAN"),
    (cast(C["s"], DATE), "cannot cast 'abc' to DATE"),
    (cast(C["s"], TIMESTAMP), "cannot cast 'abc' to TIMESTAMP"),
    (cast(C["s"], DEC), "cannot cast 'abc' to DECIMAL"),
    (cast(text("1.5"), INT), "cannot cast '1.5' to INT"),
    (cast(text("2147483648"), INT), "cannot cast '2147483648' to INT"),
    (cast(text("0x1F"), INT), "cannot cast '0x1F' to INT"),
    (cast(text("2024-02-30"), DATE), "cannot cast '2024-02-30' to DATE"),
    (cast(text("2024-02-20 25:00:00"), TIMESTAMP), "cannot cast"),
    (cast(C["x"], INT), "cannot cast nan to INT"),
    (cast(lit(1e10, DOUBLE), INT), "cannot cast 10000000000.0 to INT"),
    (cast(C["b"], INT), "cannot cast 1099511627776 to INT"),
    (call("ceil", lit(INF, DOUBLE), type=BIGINT), "cannot cast inf to BIGINT"),
    (call("floor", lit(1e19, DOUBLE), type=BIGINT), "to BIGINT"),
    (cast(C["i"], pa.decimal128(3, 1)), "to DECIMAL"),
    (cast(C["d"], pa.decimal128(4, 2)), "to DECIMAL"),
    (call("like", C["s"], text("a\\bc")), "LIKE pattern"),
]
