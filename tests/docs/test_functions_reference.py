"""``docs/functions.md`` comes from the registry; ``PENSTOCK_REWRITE=1`` writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from penstock import functions
from penstock.cql.expressions.functions import REFUSED
from penstock.functions import FUNCTIONS, THEMES, Function
from penstock.functions.aggregates import AGGREGATES, ALIASES, EXAMPLE, Aggregate

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"

SPARK = Path(__file__).parent / "spark_functions.txt"
"""What SHOW SYSTEM FUNCTIONS lists."""
OTHERWISE = """! != == << >> >>> || between extract date_part datepart position when decimal bigint int
    smallint tinyint float double string boolean binary percentile_cont window session_window
    grouping grouping_id rank dense_rank row_number ilike""".split()
"""What CQL writes otherwise, or has as an operator or a construct."""
GROUPS = {
    "They take or return arrays, maps, structs, or other types that CQL does not have": r"""array|^map|struct|
        explode|inline|element_at|flatten|forall|exists|^filter|aggregate|reduce|transform|zip_with|slice|
        sequence|sort_array|split|^size|cardinality|^get$|stack|str_to_map|sentences|regexp_extract_all|
        collect_union|variant|parse_json|interval|time_|_time$|^time|^st_|vector|nanos|histogram_numeric|
        ^range$|approx_top_k|timestamp_nanos|localtime|collation|collate|json_object_keys|json_tuple""",
    "Formats, for which the source's reader is better": r"json|xml|xpath|csv|avro|protobuf|parse_url",
    "Sketches as values": r"hll_|kll_|theta_|tuple_|bitmap|count_min",
    "They rank rows or look at others": r"rank|ntile|nth_value|cume_dist|lag|lead|counter_diff",
    "Their value depends on when or where they are computed, or they have effects": r"""current_|session_user|
        ^user$|version|input_file|randstr|uniform|raise_error|assert_true|reflect|java_method|python_worker|
        sql_keywords|measure|aes_|hmac""",
    "Not done yet": r".",
}

HEAD = """# Functions and operators

All functions and operators of [CQL](cql.md), with Spark's names and Spark's results. This page is generated
from `src/penstock/functions`; its examples are tests, on the engine and on Spark.

A parameter is a type, which a narrower number is widened to, or a class of types: `number`, `integer`, `time`
(a DATE or TIMESTAMP), `bytes` (a BINARY or a STRING), `any`; arguments marked `T` become their common type. A
DATE or TIMESTAMP may be given as text. `[ ]` is optional, `...` is any number of further arguments. Unless
stated otherwise the result is NULL if an argument is.
"""


def page() -> str:
    parts = [HEAD]
    for theme in THEMES:
        parts.append(f"## {theme.title}\n\n{theme.note}\n\n{table([row(f) for f in theme.functions])}")
    values = ", ".join("NULL" if v is None else str(v) for v in EXAMPLE)
    note = f"NULLs are left out. In the examples v is {values}."
    parts.append(f"## Aggregates\n\n{note}\n\n{table([row(a) for a in AGGREGATES.values()])}")
    parts.append(left_out())
    return "\n".join(parts)


def left_out() -> str:
    """Spark's functions that CQL does not have, by reason."""
    known = {*map(str.lower, functions.names()), *FUNCTIONS, *AGGREGATES, *ALIASES, *REFUSED, *OTHERWISE}
    missing = [name for name in SPARK.read_text().split() if name not in known]
    lines = ["## Left out\n", "Functions of Spark 4.3 that CQL does not have.\n"]
    for reason, pattern in GROUPS.items():
        names = [n for n in missing if re.search(re.sub(r"\s", "", pattern), n)]
        missing = [n for n in missing if n not in names]
        lines.append(f"**{reason}**: {', '.join(f'`{n.upper()}`' for n in names)}.\n")
    return "\n".join(lines)


def row(function: Function | Aggregate) -> list[str]:
    operator = isinstance(function, Function) and function.operator
    written = f"`{function.word}`" if operator else f"`{function.name.upper()}({function.parameters})`"
    others = "".join(f", `{alias.upper()}`" for alias in function.aliases)
    call, result = function.example.split(" -> ")
    returns = function.signature.split("->")[1].strip()
    return [written + others, f"`{returns}`", function.doc, f"`{call}` → `{result}`"]


def table(rows: list[list[str]]) -> str:
    lines = [["function", "returns", "description", "example"], ["---"] * 4, *rows]
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)


@pytest.mark.spark
def test_the_list_of_sparks_functions_is_sparks(spark: Any) -> None:
    names = sorted(r[0] for r in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
    if "PENSTOCK_REWRITE" in os.environ:
        SPARK.write_text("\n".join(names) + "\n")
    assert SPARK.read_text().split() == names


def test_the_page_is_what_the_registry_says() -> None:
    if "PENSTOCK_REWRITE" in os.environ:
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "run PENSTOCK_REWRITE=1 pytest tests/docs"
