"""CASE and the functions that return one of their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DataError
from penstock.expression import Call, Expression, Literal
from penstock.functions import types
from penstock.functions.kernels import Datum, Kernel, arrow
from penstock.functions.operators import less
from penstock.functions.registry import Theme
from penstock.functions.types import BOOLEAN, INT, coerce

CONDITIONALS = Theme("Conditionals", "CASE, COALESCE and IF compute only what they choose.")


def _extreme(greatest: bool) -> Kernel:
    """The least or greatest argument that is not NULL."""

    def apply(call: Call, args: Sequence[Datum]) -> pa.Array:
        result, *others = args
        for other in others:
            ahead = less(call, (result, other) if greatest else (other, result))
            takes_other = pc.or_(pc.fill_null(ahead, False), pc.is_null(result))
            result = pc.if_else(pc.and_(takes_other, pc.is_valid(other)), other, result)
        return result

    return apply


def _spark_case(call: Call, args: list[str]) -> str:
    *pairs, default = args
    branches = "".join(f" WHEN {c} THEN {v}" for c, v in zip(pairs[0::2], pairs[1::2], strict=True))
    return f"CASE{branches} ELSE {default} END"


CONDITIONALS.define("case", "BOOLEAN, T, ... -> T",
                    "`CASE WHEN c THEN a ... ELSE b END`: the first value whose condition is true",
                    "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END -> 'b'",
                    operator=True, spark=_spark_case)  # fmt: skip
CONDITIONALS.define("coalesce", "T, ... -> T", "the first that is not NULL", "COALESCE(NULL, 2, 3) -> 2",
                    aliases=("ifnull", "nvl"))  # fmt: skip
CONDITIONALS.define("least", "T, T, ... -> T", "the least that is not NULL", "LEAST(3, NULL, 2) -> 2",
                    _extreme(greatest=False))  # fmt: skip
CONDITIONALS.define("greatest", "T, T, ... -> T", "the greatest that is not NULL",
                    "GREATEST(3, NULL, 2.5) -> 3.0",
                    _extreme(greatest=True))  # fmt: skip


@CONDITIONALS.by_rule("if", "BOOLEAN, T, T -> T", "the second where the first is true, otherwise the third",
                      "IF(2 > 1, 'more', 'less') -> 'more'")  # fmt: skip
def _if(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    return Call("case", (condition, then, otherwise), then.type)


@CONDITIONALS.by_rule("nullif", "comparable, comparable -> comparable",
                      "NULL where both are equal, otherwise the first",
                      "NULLIF(3, 3) -> CAST(NULL AS INT)")  # fmt: skip
def _nullif(value: Expression, other: Expression) -> Expression | None:
    type_ = types.common((value.type, other.type))
    if type_ is None:
        return None
    same = Call("=", (coerce(value, type_), coerce(other, type_)), BOOLEAN)
    return Call("case", (same, Literal(None, value.type), value), value.type)


@CONDITIONALS.by_rule("nvl2", "any, T, T -> T", "the second where the first is not NULL, otherwise the third",
                      "NVL2(NULL, 1, 2) -> 2")  # fmt: skip
def _nvl2(value: Expression, known: Expression, unknown: Expression) -> Expression:
    return _if(Call("isnotnull", (value,), BOOLEAN), known, unknown)


@CONDITIONALS.by_rule("zeroifnull", "number -> number", "0 for NULL", "ZEROIFNULL(NULL) -> 0")
def _zeroifnull(value: Expression) -> Expression:
    type_ = types.common((value.type, INT)) or INT
    return Call("coalesce", (coerce(value, type_), coerce(Literal(0, INT), type_)), type_)


@CONDITIONALS.by_rule("nullifzero", "number -> number", "NULL for 0", "NULLIFZERO(0) -> CAST(NULL AS INT)")
def _nullifzero(value: Expression) -> Expression | None:
    return _nullif(value, Literal(0, INT))


CONDITIONALS.define("isnull", "any -> BOOLEAN", "whether it is NULL; also written `x IS NULL`",
                    "ISNULL(NULL) -> TRUE", arrow(pc.is_null), spark="({0} IS NULL)")  # fmt: skip
CONDITIONALS.define("isnotnull", "any -> BOOLEAN", "whether it is not NULL; also written `x IS NOT NULL`",
                    "ISNOTNULL(NULL) -> FALSE", arrow(pc.is_valid), spark="({0} IS NOT NULL)")  # fmt: skip


@CONDITIONALS.by_rule("equal_null", "T, T -> BOOLEAN", "`a <=> b`", "EQUAL_NULL(NULL, 1) -> FALSE")
def _equal_null(left: Expression, right: Expression) -> Expression:
    return Call("<=>", (left, right), BOOLEAN)


CONDITIONALS.define("isnan", "DOUBLE -> BOOLEAN", "whether it is NaN, which NULL is not",
                    "ISNAN(CAST('NaN' AS DOUBLE)) -> TRUE",
                    lambda call, args: pc.fill_null(pc.is_nan(args[0]), False))  # fmt: skip
CONDITIONALS.define("nanvl", "DOUBLE, DOUBLE -> DOUBLE",
                    "the second where the first is NaN, otherwise the first",
                    "NANVL(CAST('NaN' AS DOUBLE), 1) -> 1e0",
                    lambda call, args: pc.if_else(pc.is_nan(args[0]), args[1], args[0]))  # fmt: skip


@CONDITIONALS.by_column("raise_error", "STRING -> NULL", "fails the query with this text, if computed",
                        "IF(1 > 2, RAISE_ERROR('greater'), 3) -> 3", raises=True)  # fmt: skip
def _raise_error(call: Call, args: Sequence[Datum]) -> pa.Array:
    raise DataError(str(args[0][0].as_py()))
