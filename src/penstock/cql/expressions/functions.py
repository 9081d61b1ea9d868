"""Calls of functions and operators: the registry's entry for a name, and errors where it does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from penstock import functions
from penstock.cql.expressions.coercion import FLATTEN, cast_hint
from penstock.cql.settings import FUNCTION_SIMILARITY
from penstock.cql.syntax.dialect import RELATION_TO_STREAM
from penstock.cql.syntax.errors import did_you_mean, error, unsupported
from penstock.errors import CQLError
from penstock.expression import Expression
from penstock.functions.aggregates import AGGREGATES
from penstock.functions.registry import Described
from penstock.plan.logical import RANKS
from penstock.schema import sql_name

CHANGING = "its value depends on when or where it is computed"
RECENT = f"{CHANGING}; for the rows of the last hour write FROM S [RANGE 1 HOUR]"
REFUSED = {
    **dict.fromkeys("now current_timestamp current_date current_time localtimestamp curdate".split(), RECENT),
    **dict.fromkeys(
        """rand random randn uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
        current_user""".split(),
        CHANGING,
    ),
}
_BEFORE = "no function reads the row before; a window has it beside the row, as in S [PARTITION BY k ROWS 2]"
ABSENT = {
    "proctime": "declare the stream with TIMESTAMP BY ARRIVAL",
    "split": "SPLIT_PART(text, ',', 1) returns one part",
    "arg_max": "write MAX_BY(value, key)",
    "arg_min": "write MIN_BY(value, key)",
    "group_concat": "write STRING_AGG(text, ',')",
    "quantile_cont": "write PERCENTILE(x, 0.5)",
    "grouping": "it needs GROUP BY with ROLLUP, CUBE or GROUPING SETS",
    "lag": _BEFORE,
    "lead": _BEFORE,
    **{rank: f"write {rank.upper()}() OVER (PARTITION BY k ORDER BY v)" for rank in RANKS},
    **dict.fromkeys(
        """struct named_struct array map explode posexplode inline from_json to_json get_json_object
        json_tuple json_extract json_value transform size element_at""".split(),
        f"nested columns are not supported; {FLATTEN}",
    ),
}
"""Functions of other systems that CQL does not have, and what to do instead."""

NOT_DONE = """product regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy""".split()
"""Aggregates of Spark and others that CQL does not have."""


def call(name: str, args: Sequence[Expression], node: exp.Expr, registered: Iterable[str] = ()) -> Expression:
    """The bound call of a scalar function, by the name as written; ``registered`` are the user's."""
    function = known(name, node, registered)
    check_count(name.upper(), function, len(args), node)
    bound = function.bind(args)
    if bound is None:
        raise mismatch(name.upper(), function, args, node)
    return bound


def known(name: str, node: exp.Expr, registered: Iterable[str] = ()) -> functions.Function:
    """The scalar function of a name; an error that says what to write if there is none."""
    function = functions.called(name)
    if name.lower() in REFUSED:
        raise unsupported(f"the function {name.upper()}", node, REFUSED[name.lower()])
    if name.lower() in NOT_DONE:
        raise unsupported(f"the aggregate {name.upper()}", node, "docs/functions.md lists those that are")
    if function is None:
        names = [n.upper() for n in (*functions.names(), *AGGREGATES, *RELATION_TO_STREAM, *registered)]
        listed = "docs/functions.md lists those there are"
        hint = ABSENT.get(name.lower()) or did_you_mean(name, names, listed, FUNCTION_SIMILARITY)
        raise error(f"unknown function '{name.upper()}'", node, hint)
    return function


def operator(name: str, args: Sequence[Expression], node: exp.Expr) -> Expression:
    """The bound call of an operator."""
    function = functions.FUNCTIONS[name]
    bound = function.bind(args)
    if bound is None:
        word = function.word
        raise mismatch(word if word.isalpha() else f"'{word}'", function, args, node)
    return bound


def mismatch(word: str, function: Described, args: Sequence[Expression], node: exp.Expr) -> CQLError:
    """The error for arguments of types that a function does not take."""
    given = ", ".join(sql_name(a.type) for a in args)
    alike = len({kind.strip(" [].") for kind in function.parameters.split(",")} - {""}) == 1
    hint = cast_hint(args) if alike and "STRING" not in function.parameters else "write CAST to convert it"
    return error(f"type mismatch: {word} takes {function.takes}, not ({given})", node, hint)


def check_count(name: str, function: Described, given: int, node: exp.Expr) -> None:
    """Reject a call with too few or too many arguments."""
    if function.least <= given and (function.most is None or given <= function.most):
        return
    wanted = str(function.least)
    if function.most is None:
        wanted += " or more"
    elif function.most != function.least:
        wanted += f" to {function.most}"
    plural = "" if wanted == "1" else "s"
    raise error(f"{name} takes {wanted} argument{plural}, not {given}", node)
