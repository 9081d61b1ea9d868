"""Cases for the functions of numbers, strings and times beside the basic ones, as in ``expression_cases``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
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
    SAMPLE,
    STRING,
    C,
    call,
    cast,
    lit,
    num,
    text,
)

from penstock.engine.evaluate import evaluate
from penstock.errors import DataError
from penstock.expression import Expression
from penstock.functions import FUNCTIONS, for_catalyst
from penstock.schema import TIMESTAMP

MATH_OF_ONE = """cbrt expm1 log1p log2 sin cos tan asin acos atan sinh cosh tanh degrees radians
    rint""".split()
J = cast(C["j"], BIGINT)
SMALL = [lit(v, DOUBLE) for v in (0.5, -0.5, 2.5, 3.5, 1.0, None, NAN, INF, -1.0, 0.0)]

SIGNED = [lit(v, DOUBLE) for v in (0.0, -0.0, 1.0, -1.0, -0.3, INF, -INF, NAN, None)]
TINY = (5e-324, 2e-323, -5e-324, 1e-320, 1e22, 2.0**-1022)

_MATH: list[Expression] = [
    *(call(f, C[c], type=DOUBLE) for f, c in product(MATH_OF_ONE, "xy")),
    *(call(f, v, type=DOUBLE) for f, v in product(MATH_OF_ONE, SMALL)),
    *(call(f, C["x"], C["y"], type=DOUBLE) for f in ("log", "atan2", "hypot", "nanvl")),
    *(call(f, a, b, type=DOUBLE) for f, a, b in product(("atan2", "power"), SIGNED, SIGNED)),
    *(call("round", v, num(n), type=DOUBLE) for v, n in product(SIGNED, (0, 1))),
    *(cast(lit(v, t), STRING) for t, v in (*product((DOUBLE,), TINY), (pa.float32(), 1e-45))),
    *(call("log", lit(b, DOUBLE), C["y"], type=DOUBLE) for b in (2.0, 1.0, 0.0, -3.0)),
    call("isnan", C["x"]), call("isnan", C["y"]),
    call("div", C["b"], J, type=BIGINT), call("div", lit(-7, BIGINT), J, type=BIGINT),
    *(call("pmod", lit(a, t), lit(b, t), type=t) for t in (pa.int8(), pa.int16())
      for a, b in [(-1, -128), (-128, -1), (-7, 3), (7, -3)]),
    *(call(f, lit(v, pa.decimal128(38, 10)), type=pa.decimal128(29, 0))
      for f, v in product(("floor", "ceil"), (Decimal("-" + "9" * 28 + ".9999999999"), Decimal("1.5")))),
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
    call("initcap", C["s"], type=STRING),
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
    *(call("make_timestamp", *[num(1)] * 5, lit(v, DOUBLE), type=TIMESTAMP) for v in (NAN, INF, -INF, 1.5)),
    call("make_timestamp", num(2024), call("abs", C["j"], type=INT), num(5), num(23), num(59), num(60),
         type=TIMESTAMP),
    *(call("timestampdiff", text(u), *pair, type=BIGINT) for u in UNITS for pair in
      ((C["ts"], call("timestamp_seconds", J, type=TIMESTAMP)), (cast(C["a"], TIMESTAMP), C["ts"]))),
    *(call(f, C["ts"], text(z), type=TIMESTAMP) for f, z in
      product(("from_utc_timestamp", "to_utc_timestamp"), ("Europe/Berlin", "America/New_York"))),
    call("case", lit(False, BOOL), call("raise_error", text("no"), type=INT), C["i"], type=INT),
]  # fmt: skip

VALUES: dict[str, list[Expression]] = {
    "STRING": [C["s"], C["t"], text("Aé1-z,b9"), text("")],
    "bytes": [C["s"], C["t"], cast(C["s"], pa.binary())],
    "INT": [C["j"], num(2), num(-1), num(40)],
    "BIGINT": [C["b"], lit(-1, BIGINT), J],
    "DOUBLE": [C["y"], C["x"], lit(0.5, DOUBLE), lit(-3.25, DOUBLE)],
    "BOOLEAN": [C["p"], C["q"]],
    "DATE": [C["a"], cast(C["ts"], DATE)],
    "TIMESTAMP": [C["ts"], lit(dt.datetime(2023, 1, 31, 5, 6, 7, tzinfo=dt.UTC), TIMESTAMP)],
    "time": [C["a"], C["ts"]],
    "number": [C["i"], C["x"], C["d"], C["b"]],
    "integer": [C["i"], C["b"]],
}
ANY = [C["s"], C["i"], C["x"], C["b"], C["p"], C["d"], C["a"], C["ts"]]


def generated() -> Iterator[Expression]:
    """Calls of every function by its signature, over the sample and constants, that no row makes fail."""
    for function in FUNCTIONS.values():
        if function.operator or function.spark is None:
            continue
        for given in {function.least, function.least + 1 if function.most is None else function.most}:
            kinds = function.kinds(given)
            for turn in range(5):
                choices = [VALUES.get(kind, ANY) for kind in kinds]
                shifted = (turn // (n + 1) if n else turn for n in range(given))
                bound = function.bind([c[s % len(c)] for c, s in zip(choices, shifted, strict=True)])
                if bound is not None and for_catalyst(bound) and _holds(bound):
                    yield bound


def _holds(expression: Expression) -> bool:
    columns = {name: SAMPLE[name].combine_chunks() for name in SAMPLE.column_names}
    try:
        evaluate(expression, columns, SAMPLE.num_rows).to_pylist()
    except (DataError, OverflowError):
        return False
    return True


FORMATS = (
    "yyyy-MM-dd HH:mm:ss.SSSSSS", "y yy M MM MMM MMMM d dd D DDD", "Q QQ QQQ QQQQ q",
    "E EEE EEEE a h hh K KK k",
    "S SSS SSSSSSSSS", "G GGGG z zzz X XXX x xx xxx Z ZZZZ", "'at' H''mm 'o''clock'", "L LL LLL LLLL, s ss m",
)  # fmt: skip
_FORMATS: list[Expression] = [
    *(call("date_format", C["ts"], text(f), type=STRING) for f in FORMATS),
    call("date_format", cast(C["a"], TIMESTAMP), text("d/M/y"), type=STRING),
    *(call(name, call("date_format", C["ts"], text(f), type=STRING), text(f), type=TIMESTAMP)
      for name in ("to_timestamp", "try_to_timestamp")
      for f in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "MMM d yyyy h:m a")),
    call("try_to_timestamp", C["s"], text("yyyy-MM-dd"), type=TIMESTAMP),
    *(call("from_unixtime", J, text(f), type=STRING) for f in FORMATS[:2]),
    *(call("next_day", cast(C["ts"], DATE), text(d), type=DATE) for d in ("Mo", "SUN", "thursday")),
    *(call("months_between", C["ts"], lit(dt.datetime(2023, m, 28, 5, 6, 7, tzinfo=dt.UTC), TIMESTAMP),
           lit(r, BOOL), type=DOUBLE) for m, r in product((2, 7), (True, False))),
    *(call("sha2", cast(C["s"], pa.binary()), num(n), type=STRING) for n in (0, 1, 224, 256, 384, 512)),
    *(call("mask", C["s"], *map(text, m), type=STRING)
      for m in (("X", "x", "n", None), (None, "l", None, "-"))),
    *(call("overlay", C["s"], text("_é"), num(p), num(n), type=STRING) for p, n in
      product((-2, 0, 1, 2, 9), (-1, 0, 2))),
    call("elt", num(2), C["s"], C["t"], type=STRING), call("elt", num(1), C["s"], C["t"], type=STRING),
    *(call("soundex", text(v), type=STRING)
      for v in ("Miller", "Ashcraft", "Tymczak", "Pfister", "ß", "1a", "")),
    *(call("width_bucket", C["y"], lit(a, DOUBLE), lit(b, DOUBLE), lit(n, BIGINT), type=BIGINT)
      for a, b, n in ((0.0, 4.0, 8), (4.0, 0.0, 3), (1.0, 1.0, 3), (0.0, 1.0, 0))),
    *(call("factorial", num(n), type=BIGINT) for n in (-1, 0, 20, 21)),
    *(call("getbit", C["b"], num(n), type=pa.int8()) for n in (0, 3, 63)),
    *(call(f, C[c], num(n), type=t) for f, (c, t), n in product(
        ("shiftleft", "shiftright", "shiftrightunsigned"), (("i", INT), ("b", BIGINT)), (-1, 0, 1, 33, 64))),
    call("~", C["i"], type=INT), call("~", C["b"], type=BIGINT),
]  # fmt: skip

FUNCTIONS_EXPRESSIONS: list[Expression] = [*_MATH, *_STRINGS, *_TIMES, *_FORMATS, *dict.fromkeys(generated())]

FUNCTIONS_FAILING: list[tuple[Expression, str]] = [
    (call("div", C["b"], lit(0, BIGINT), type=BIGINT), "division by zero"),
    (call("div", lit(-(2**63), BIGINT), lit(-1, BIGINT), type=BIGINT), "overflow"),
    (call("pmod", C["i"], num(0), type=INT), "division by zero"),
    (call("split_part", C["s"], text("b"), num(0), type=STRING), "0 is not a part"),
    (call("regexp_extract", C["s"], text("(a)"), num(2), type=STRING), "has no group 2"),
    (call("make_date", num(2023), num(2), num(29), type=DATE), "not a date"),
    (call("make_timestamp", num(2023), num(1), num(1), num(24), num(0), num(0), type=TIMESTAMP), "not a"),
    (call("from_utc_timestamp", C["ts"], text("Nowhere"), type=TIMESTAMP), "unknown time zone 'Nowhere'"),
    (call("raise_error", C["s"], type=INT), "a"),
    (call("timestamp_seconds", lit(2**62, BIGINT), type=TIMESTAMP), "overflow"),
]
