"""Cases for the functions of numbers, strings and times beside the basic ones, as in ``expression_cases``."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
from expression_cases import (
    BIGINT,
    BOOL,
    DATE,
    DEC,
    DOUBLE,
    INF,
    INT,
    NAN,
    STRING,
    C,
    call,
    cast,
    lit,
    num,
    text,
)

from penstock.expression import Expression
from penstock.schema import TIMESTAMP

MATH_OF_ONE = """cbrt expm1 log1p log2 sin cos tan asin acos atan sinh cosh tanh degrees radians
    rint""".split()
J = cast(C["j"], BIGINT)
SMALL = [lit(v, DOUBLE) for v in (0.5, -0.5, 2.5, 3.5, 1.0, None, NAN, INF, -1.0, 0.0)]

_MATH: list[Expression] = [
    *(call(f, C[c], type=DOUBLE) for f, c in product(MATH_OF_ONE, "xy")),
    *(call(f, v, type=DOUBLE) for f, v in product(MATH_OF_ONE, SMALL)),
    *(call(f, C["x"], C["y"], type=DOUBLE) for f in ("log", "atan2", "hypot", "nanvl")),
    *(call("log", lit(b, DOUBLE), C["y"], type=DOUBLE) for b in (2.0, 1.0, 0.0, -3.0)),
    call("isnan", C["x"]), call("isnan", C["y"]),
    call("div", C["b"], J, type=BIGINT), call("div", lit(-7, BIGINT), J, type=BIGINT),
    call("pmod", C["i"], C["j"], type=INT), call("pmod", C["b"], lit(-7, BIGINT), type=BIGINT),
    call("pmod", C["y"], lit(2.5, DOUBLE), type=DOUBLE), call("pmod", C["y"], lit(-2.5, DOUBLE), type=DOUBLE),
    *(call(op, C["i"], C["j"], type=INT) for op in "&|^"), call("&", C["b"], lit(255, BIGINT), type=BIGINT),
    *(cast(text(v), DOUBLE) for v in ("1", "2")),
    *(call("try_cast", C["s"], type=t) for t in (INT, BIGINT, DOUBLE, BOOL, DATE, TIMESTAMP, DEC)),
    call("try_cast", C["x"], type=INT), call("try_cast", C["b"], type=INT),
    call("try_cast", C["d"], type=pa.decimal128(3, 1)),
]  # fmt: skip

WORDS = text("a.b..c.D dé")
_STRINGS: list[Expression] = [
    *(call("rlike", C["s"], text(p)) for p in ("b", "^a.*c$", "[A-Z]", "\\d+", "(a|h)", "", "ß$")),
    call("rlike", C["s"], C["t"]), call("rlike", C["s"], text(None)),
    *(call("regexp_replace", C["s"], text(p), text(r), type=STRING)
      for p, r in [("b", "XY"), ("(a)(b)", "$2$1"), ("[a-c]+", "<$0>"), ("z", "-"), ("b", "\\$1")]),
    *(call("regexp_extract", C["s"], text(p), num(g), type=STRING)
      for p, g in [("(a)(b)", 1), ("(a)(b)", 2), ("(a)(b)", 0), ("(z)?a", 1), ("q(.)", 1)]),
    *(call("translate", C["s"], text(a), text(b), type=STRING)
      for a, b in [("abc", "xy"), ("aa", "xy"), ("", "x")]),
    *(call(f, C["s"], type=STRING) for f in ("initcap", "md5")),
    call("initcap", text("o'neil  mc-x y"), type=STRING),
    *(call(f, C["s"], type=INT) for f in ("octet_length", "bit_length", "ascii")),
    *(call("chr", lit(n, BIGINT), type=STRING) for n in (65, 0, -1, 300, 233, None)),
    call("levenshtein", C["s"], C["t"], type=INT), call("btrim", C["s"], text("a c"), type=STRING),
    call("btrim", C["s"], text(""), type=STRING),
    *(call("substring_index", WORDS, text(d), num(n), type=STRING)
      for d, n in product((".", "..", "", "é", "zz"), (-9, -2, -1, 0, 1, 2, 9))),
    *(call("split_part", WORDS, text(d), num(n), type=STRING)
      for d, n in product((".", "..", "", "zz"), (-9, -2, -1, 1, 2, 9))),
    *(call(f, C["s"], num(n), text(p), type=STRING)
      for f, n, p in product(("lpad", "rpad"), (-1, 0, 2, 8), ("-*", "", "é"))),
    *(call("repeat", C["s"], num(n), type=STRING) for n in (-1, 0, 1, 2)),
    call("repeat", C["t"], C["j"], type=STRING),
    *(call("locate", text(p), C["s"], num(n), type=INT)
      for p, n in product(("b", "", "c", "zz"), (-1, 0, 1, 2, 9))),
    call("locate", C["t"], C["s"], num(1), type=INT),
    call("concat_ws", text("-"), C["s"], C["t"], type=STRING),
    call("concat_ws", C["t"], C["s"], text("x"), type=STRING),
    call("concat_ws", text(","), type=STRING),
]  # fmt: skip

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_TIMES: list[Expression] = [
    *(call(f, C[c], type=INT) for f, c in
      product(("quarter", "weekofyear", "dayofyear", "dayofweek", "weekday"), ("a", "ts"))),
    *(call("date_trunc", text(u), C["ts"], type=TIMESTAMP) for u in UNITS),
    *(call("trunc", C["a"], text(u), type=DATE) for u in UNITS[:4]),
    *(call(f, C["ts"], type=BIGINT) for f in ("unix_seconds", "unix_millis", "unix_micros")),
    *(call(f, C["b"], type=TIMESTAMP) for f in ("timestamp_millis", "timestamp_micros")),
    call("timestamp_seconds", J, type=TIMESTAMP),
    call("unix_date", C["a"], type=INT), call("date_from_unix_date", C["j"], type=DATE),
    call("date_add", cast(C["ts"], DATE), C["j"], type=DATE),
    call("datediff", cast(C["ts"], DATE), C["a"], type=INT),
    *(call("add_months", cast(C["ts"], DATE), num(n), type=DATE) for n in (-13, -1, 0, 1, 12)),
    call("last_day", C["a"], type=DATE),
    call("make_date", num(2024), call("abs", C["j"], type=INT), num(5), type=DATE),
]  # fmt: skip

FUNCTIONS_EXPRESSIONS: list[Expression] = [*_MATH, *_STRINGS, *_TIMES]

FUNCTIONS_FAILING: list[tuple[Expression, str]] = [
    (call("div", C["b"], lit(0, BIGINT), type=BIGINT), "division by zero"),
    (call("div", lit(-(2**63), BIGINT), lit(-1, BIGINT), type=BIGINT), "overflow"),
    (call("pmod", C["i"], num(0), type=INT), "division by zero"),
    (call("split_part", C["s"], text("b"), num(0), type=STRING), "0 is not a part"),
    (call("regexp_extract", C["s"], text("(a)"), num(2), type=STRING), "has no group 2"),
    (call("make_date", num(2023), num(2), num(29), type=DATE), "not a date"),
    (call("timestamp_seconds", lit(2**62, BIGINT), type=TIMESTAMP), "overflow"),
]
