"""SELECT with all its clauses, set operations, and relation-to-stream operators over them."""

from __future__ import annotations

from dataclasses import dataclass

from strategies import budgets, orders, sources, subqueries, w_joins
from strategies.data import (
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    INT,
    LENGTH,
    NUMBER,
    NUMERIC,
    ROUGH,
    STRING,
    TIMES,
)
from strategies.expressions import (
    condition,
    constant,
    exact,
    length,
    link,
    moment,
    number,
    of_type,
    test,
    text,
)
from strategies.scope import Context, Scope

Columns = dict[str, str]
Typed = tuple[str, str]
"""An expression's text and type."""


@dataclass
class Select:
    """A SELECT in pieces, so that an operator can stand around its list."""

    items: str
    tail: str
    columns: Columns
    distinct: bool = False

    def __str__(self) -> str:
        return f"SELECT {'DISTINCT ' * self.distinct}{self.items}{self.tail}"


def query(ctx: Context, depth: int, static: bool = False) -> tuple[str, Columns]:
    """Any query that gives a relation."""
    if depth >= 0 and ctx.leaves > 1 and ctx.chance(5):
        inside, columns = set_operation(ctx, depth)
        inside = f"({inside})" if ctx.chance(3) else inside
        return inside + orders.first_rows(ctx, columns), columns
    found = select(ctx, depth, static=static)
    return str(found), found.columns


MOSTLY_I = ("I", "I", "I", "I", "D", "R")


def stream(ctx: Context, depth: int, operators: tuple[str, ...] = MOSTLY_I) -> tuple[str, Columns]:
    """A query under a relation-to-stream operator, in either spelling."""
    operator = f"{ctx.pick(*operators)}STREAM"
    every = ctx.pick("", "", " EVERY 2 SECONDS", " EVERY 3") if operator == "RSTREAM" else ""
    if depth >= 0 and ctx.leaves > 1 and ctx.chance(6):
        inside, columns = set_operation(ctx, depth)
        return f"{operator}({inside}{orders.first_rows(ctx, columns)}){every}", columns
    found = select(ctx, depth)
    if ctx.chance(2):
        return f"{operator}({found}){every}", found.columns
    distinct, outside = "DISTINCT " * found.distinct, ctx.chance(2)
    opening = f"{distinct}{operator}(" if outside else f"{operator}({distinct}"
    return f"SELECT {opening}{found.items}){every}{found.tail}", found.columns


def set_operation(ctx: Context, depth: int, types: tuple[str, ...] | None = None) -> tuple[str, Columns]:
    """UNION, EXCEPT or INTERSECT of two queries or a chain of three, with or without ALL."""
    types = types or tuple(ctx.pick(NUMBER, INT, STRING, BOOLEAN, DOUBLE) for _ in range(ctx.pick(1, 1, 2)))
    sides = [_side(ctx, depth, types) for _ in range(ctx.pick(2, 2, 2, 3))]
    word = ctx.pick("UNION", "EXCEPT", "INTERSECT") + ctx.pick("", " ALL")
    names = [f"c{n}" for n in range(len(types))]
    return f" {word} ".join(sides), dict(zip(names, types, strict=True))


def _side(ctx: Context, depth: int, types: tuple[str, ...]) -> str:
    if depth > 0 and ctx.leaves > 1 and ctx.chance(4):
        return f"({set_operation(ctx, depth - 1, types)[0]})"
    found = select(ctx, depth - 1, types)
    apart = " WITHIN " in found.tail or " LIMIT " in found.tail or ctx.chance(3)
    return f"({found})" if apart else str(found)


def select(ctx: Context, depth: int, types: tuple[str, ...] | None = None, static: bool = False) -> Select:
    """A SELECT; ``types``: what its columns must be."""
    outermost, ctx.outermost = ctx.outermost, False
    if types is None and ctx.leaves > 1 and ctx.chance(25):
        return _of_rows_with_partners(ctx, lists=outermost)
    within = ""
    if ctx.leaves > 1 and ctx.chance(12):
        found, within = budgets.from_clause(ctx)
    elif ctx.leaves > 1 and ctx.chance(10):
        found = w_joins.from_clause(ctx, depth)
    else:
        found = sources.from_clause(ctx, depth, static=static)
    scope, where = found.scope, list(found.conjuncts)
    where += [condition(ctx, scope) for _ in range(ctx.pick(0, 0, 0, 0, 1, 1, 2))]
    if depth > 0 and ctx.leaves > 0 and ctx.chance(2):
        where.append(subqueries.subquery_condition(ctx, scope, depth))
    beside = scope
    if types is None and ctx.chance(3):
        (items, group), beside = _grouped(ctx, scope, depth), Scope()
        if ctx.chance(2):
            items.append(_of_rows(ctx, scope, found.timed, lists=outermost))
    elif types is None and ctx.chance(4):
        return _star(ctx, found, _tail(found.text, where) + within, static)
    else:
        items, group = _plain(ctx, scope, depth, types), ""
    ranked, qualify = ([], "") if types else orders.rank(ctx, items, beside)
    names = [*(f"c{n}" for n in range(len(items))), *(name for name, _ in ranked)]
    items = [*items, *(typed for _, typed in ranked)]
    shown = ", ".join(f"{text} AS {name}" for name, (text, _) in zip(names, items, strict=True))
    columns = {name: type_ for name, (_, type_) in zip(names, items, strict=True)}
    distinct = ctx.chance(6)
    first = orders.first_rows(ctx, columns, Scope() if distinct else beside)
    tail = _tail(found.text, where) + group + qualify + first + within
    return Select(shown, tail, columns, distinct)


def _tail(text: str, where: list[str]) -> str:
    return f" FROM {text}" + (f" WHERE {' AND '.join(where)}" if where else "")


def _star(ctx: Context, found: sources.From, tail: str, static: bool) -> Select:
    """``*`` or ``r.*``; of several items only where nobody asks for the columns by name."""
    last = found.items[-1]
    star, columns = "*" if len(found.items) == 1 else f"{last.alias}.*", last.columns
    plain = [name for name in columns if not name.startswith("window_")]
    if len(columns) > 1 and plain and ctx.chance(3):
        left_out = ctx.pick(*plain)
        columns = {name: type_ for name, type_ in columns.items() if name != left_out}
        star = f"{star} EXCEPT ({left_out})"
    return Select(star, tail, columns, ctx.chance(6))


def _plain(ctx: Context, scope: Scope, depth: int, types: tuple[str, ...] | None) -> list[Typed]:
    """A SELECT list without aggregates."""
    if types is not None:
        return [(of_type(ctx, scope, t), t) for t in types]
    return [_item(ctx, scope, depth) for _ in range(ctx.pick(1, 2, 3))]


def _item(ctx: Context, scope: Scope, depth: int) -> Typed:
    kinds = ["column", "column", "column", "column", "number", "number", "text", "text", "test", "null"]
    if depth > 0 and ctx.leaves > 0:
        kinds += ["scalar", "scalar", "truth", "truth"]
    if scope.columns({DECIMAL}):
        kinds += ["exact"] * 3
    if scope.columns(TIMES):
        kinds += ["moment", "moment", "length", "length"]
    kind = ctx.pick(*kinds)
    if kind == "column":
        column = ctx.pick(*scope.columns())
        return column, scope.types[column]
    if kind == "scalar":
        return subqueries.scalar(ctx, scope, depth), NUMBER
    if kind == "truth":
        return f"({subqueries.truth(ctx, scope, depth)})", BOOLEAN
    return {
        "number": lambda: (number(ctx, scope, 2), NUMBER),
        "text": lambda: (text(ctx, scope), STRING),
        "test": lambda: (f"({test(ctx, scope)})", BOOLEAN),
        "null": lambda: ("NULL", NUMBER),
        "exact": lambda: (exact(ctx, scope), DECIMAL),
        "moment": lambda: moment(ctx, scope),
        "length": lambda: (length(ctx, scope), LENGTH),
    }[kind]()


# Grouping.


def _grouped(ctx: Context, scope: Scope, depth: int) -> tuple[list[Typed], str]:
    """A SELECT list with aggregates, and the GROUP BY and HAVING clauses."""
    keys = list({_key(ctx, scope): None for _ in range(ctx.pick(0, 1, 1, 2))})
    calls = [aggregate(ctx, scope) for _ in range(ctx.pick(*range(0 if keys else 1, 4)))]
    if depth > 0 and ctx.leaves > 0 and ctx.chance(8):
        test = subqueries.truth(ctx, scope, depth)
        calls.append((f"SUM(CASE WHEN {test} THEN 1 ELSE 2 END)", NUMBER))
    items = [k for k in keys if ctx.chance(2)] + calls or list(keys)
    by_key = Scope({k: t for k, t in keys if k in scope.types})
    if depth > 0 and ctx.leaves > 0 and ctx.chance(8):
        items.append((subqueries.scalar(ctx, by_key, depth), NUMBER))
    if not keys or not ctx.chance(5):
        clause = f" GROUP BY {', '.join(k for k, _ in keys)}" if keys else ""
        return items, clause + (f" HAVING {_having(ctx, scope, by_key, depth)}" if ctx.chance(3) else "")
    if ctx.chance(3):
        items.append((f"{ctx.pick('GROUPING', 'GROUPING_ID')}({ctx.pick(*keys)[0]})", INT))
    # Of no rows there is no group, as in Spark; DuckDB has one for the set without keys.
    having = f" AND {_having(ctx, scope, by_key, depth)}" if ctx.chance(3) else ""
    return items, f" GROUP BY {_grouping_sets(ctx, [k for k, _ in keys])} HAVING COUNT(*) > 0{having}"


def _grouping_sets(ctx: Context, keys: list[str]) -> str:
    every, first, last = ", ".join(keys), keys[0], keys[-1]
    forms = ("ROLLUP ({0})", "CUBE ({0})", "GROUPING SETS (({0}), {1}, ())", "{1}, ROLLUP ({2})",
             "GROUPING SETS (({0}), ({0}))", "GROUPING SETS (CUBE ({0}), {2})", "ROLLUP (({0}), {1})",
             "CUBE ({1}), ROLLUP ({0})")  # fmt: skip
    return ctx.pick(*forms).format(every, first, last)


def _key(ctx: Context, scope: Scope) -> Typed:
    """A column, or an expression of one."""
    column = ctx.pick(*scope.columns())
    type_ = scope.types[column]
    forms = {STRING: ("UPPER({})", "SUBSTRING({}, 1, 1)"), INT: ("({} % 2)", "({} + 1)")}.get(type_, ())
    if not ctx.chance(3) or not forms:
        return column, type_
    return ctx.pick(*forms).format(column), STRING if type_ == STRING else NUMBER


def aggregate(ctx: Context, scope: Scope) -> Typed:
    """One aggregate call."""
    column = ctx.pick(*scope.columns())
    if ctx.chance(3):
        call, type_ = _one_aggregate(ctx, scope, column)
        return f"{call} FILTER (WHERE {condition(ctx, scope)})", type_
    if ctx.chance(3):
        return _one_aggregate(ctx, scope, column)
    n, whole = number(ctx, scope), scope.columns({INT})
    rough = f"ROUND({ctx.pick('STDDEV', 'VARIANCE', 'STDDEV_POP', 'VAR_POP')}({ctx.pick('', 'DISTINCT ')}"
    forms = [
        ("COUNT(*)", BIGINT), (f"COUNT({column})", BIGINT), (f"COUNT(DISTINCT {column})", BIGINT),
        (f"SUM({n})", NUMBER), (f"SUM(DISTINCT {n})", NUMBER), (f"AVG({n})", ROUGH),
        (f"AVG(DISTINCT {n})", ROUGH), (f"MIN({column})", scope.types[column]),
        (f"MAX({column})", scope.types[column]), (f"SUM({n}) + COUNT(*)", NUMBER),
        (f"MAX({n}) - MIN({n})", NUMBER), (f"MAX(DISTINCT {column})", scope.types[column]),
    ]  # fmt: skip
    if scope.columns({DECIMAL}):
        forms += [(f"SUM({ctx.pick('', 'DISTINCT ')}{exact(ctx, scope)})", DECIMAL)] * 3
        forms += [(f"{ctx.pick('MIN', 'MAX')}({exact(ctx, scope)})", DECIMAL)]
    if scope.columns(TIMES):
        forms += [(f"{ctx.pick('MIN', 'MAX')}({length(ctx, scope)})", LENGTH)] * 3  # DuckDB has no SUM
    if whole:
        forms += [(f"{rough}{ctx.pick(*whole)}), 6)", ROUGH)] * 2
    if ctx.chance(20):
        forms = [(f"{name}(NULL)", NUMBER) for name in ("SUM", "MAX", "MIN", "AVG", "COUNT")]
    return ctx.pick(*forms)


def _one_aggregate(ctx: Context, scope: Scope, column: str) -> Typed:
    """A call by itself, which FILTER may follow."""
    n, type_ = number(ctx, scope), scope.types[column]
    return ctx.pick(
        ("COUNT(*)", BIGINT), (f"COUNT(DISTINCT {column})", BIGINT), (f"SUM({n})", NUMBER),
        (f"AVG(DISTINCT {n})", ROUGH), (f"MIN({column})", type_), (f"COUNT({column}, {n})", BIGINT),
        (f"COUNT_IF({test(ctx, scope)})", BIGINT), (f"BOOL_AND({test(ctx, scope)})", BOOLEAN),
        (f"EVERY({test(ctx, scope)})", BOOLEAN), (f"SOME({test(ctx, scope)})", BOOLEAN),
        (f"COUNT(DISTINCT {column}, {ctx.pick(*scope.columns())})", BIGINT),
    )  # fmt: skip


ROUNDED = ("COVAR", "CORR", "SKEWNESS", "KURTOSIS")
"""Aggregates that DuckDB's doubles tell from zero where they are zero."""


def _of_rows(ctx: Context, scope: Scope, timed: bool, lists: bool) -> Typed:
    """An aggregate of rows in an order; by time only if rows have one, arrays only if nothing reads them."""
    column, other, n = ctx.pick(*scope.columns()), ctx.pick(*scope.columns()), ctx.pick(0, 0.25, 0.5, 1)
    type_, whole, texts = scope.types[column], scope.columns({INT}), scope.columns({STRING})
    forms = [(f"MIN_BY({column}, {other})", type_), (f"MAX_BY({column}, {other})", type_)]
    forms += [(f"MODE({column})", type_), (f"ANY_VALUE({column})", type_)]
    forms += [(f"APPROX_COUNT_DISTINCT({column})", BIGINT)]  # of few values it is exact
    if whole:
        bits = ctx.pick(*whole)
        forms += [(f"BIT_{ctx.pick('AND', 'OR', 'XOR')}({ctx.pick('', 'DISTINCT ')}{bits})", INT)]
        forms += [(f"PERCENTILE_DISC({n}) WITHIN GROUP (ORDER BY {ctx.pick(*whole)})", INT)]
        cont = f"PERCENTILE_CONT({n}) WITHIN GROUP (ORDER BY {ctx.pick(*whole)}{ctx.pick('', ' DESC')})"
        forms += [(cont, ROUGH), (f"own_sum({ctx.pick('', 'DISTINCT ')}{ctx.pick(*whole)})", BIGINT)]
        forms += [(f"own_dot({ctx.pick(*whole)}, {ctx.pick(*whole)})", BIGINT)]
        forms += [(f"own_span({ctx.pick(*whole)})", INT)]
        forms += [(f"MEDIAN({ctx.pick('', 'DISTINCT ')}{ctx.pick(*whole)})", ROUGH)]
        forms += [(f"PERCENTILE({ctx.pick(*whole)}, {n})", ROUGH)]
        forms += [(f"APPROX_PERCENTILE({ctx.pick(*whole)}, {n})", ROUGH)]
        shape = ctx.pick("SKEWNESS", "KURTOSIS")
        forms += [(f"{shape}({ctx.pick('', 'DISTINCT ')}{ctx.pick(*whole)})", ROUGH)]
        pair = f"({ctx.pick(*whole)}, {ctx.pick(*whole)})"
        forms += [(f"{ctx.pick('COVAR_POP', 'COVAR_SAMP', 'CORR')}{pair}", ROUGH)]
    by = f"ORDER BY {other}{ctx.pick('', ' DESC')}"
    if texts:
        forms += [(f"STRING_AGG(DISTINCT {ctx.pick(*texts)}, '-')", STRING)]
        forms += [(f"STRING_AGG({ctx.pick(*texts)}, '-' {by})", STRING)]
    if timed:
        forms += [(f"FIRST({column})", type_), (f"LAST({column})", type_), (f"FIRST({column}, TRUE)", type_)]
        forms += [(f"{ctx.pick('FIRST', 'LAST')}({column}) IGNORE NULLS", type_)]
        forms += [(f"STRING_AGG({t}, '')", STRING) for t in texts]
    if lists:
        forms += [(f"COLLECT_SET({column})", ROUGH)] + [(f"COLLECT_LIST({column})", ROUGH)] * (3 * timed)
        forms += [(f"COLLECT_LIST({column} {by})", ROUGH)] * 3
    call, type_ = ctx.pick(*forms)
    filtered = not call.endswith("NULLS") and ctx.chance(3)
    call = f"{call} FILTER (WHERE {condition(ctx, scope)})" if filtered else call
    digits = 1 if call.startswith("APPROX_PERCENTILE") else 6 if call.startswith(ROUNDED) else None
    return call if digits is None else f"ROUND({call}, {digits})", type_


def _of_rows_with_partners(ctx: Context, lists: bool) -> Select:
    """Aggregates without GROUP BY, also by time, of a stream's rows that have a partner, or have none."""
    part, other = sources.named(ctx, ctx.pick(*"STU")), sources.named(ctx, ctx.pick(*"DDDSTU"))
    pair, negated = link(ctx, part.scope, other.scope, ()), ctx.pick("", "", "NOT ")
    form = ctx.pick("in", "in", "exists", "join")
    if form == "join":
        tail = f" {'ANTI' if negated else 'SEMI'} JOIN {other.text} ON {pair}"
    elif form == "exists":
        tail = f" WHERE {negated}EXISTS (SELECT 1 FROM {other.text} WHERE {pair})"
    else:
        tail = (
            f" WHERE {part.items[0].alias}.a {negated}IN (SELECT {other.items[0].alias}.a FROM {other.text})"
        )
    items = [_of_rows(ctx, part.scope, timed=True, lists=lists) for _ in range(ctx.pick(1, 2))]
    if ctx.chance(3):
        tail += f" HAVING {_having(ctx, part.scope, Scope(), 0)}"
    shown = ", ".join(f"{text} AS c{n}" for n, (text, _) in enumerate(items))
    return Select(shown, f" FROM {part.text}{tail}", {f"c{n}": t for n, (_, t) in enumerate(items)})


def _having(ctx: Context, scope: Scope, keys: Scope, depth: int) -> str:
    kinds = ["count", "aggregate"] + (["key"] if keys.types else [])
    if depth > 0 and ctx.leaves > 0:
        kinds.append("subquery")
    kind = ctx.pick(*kinds)
    if kind == "count":
        return f"COUNT(*) {ctx.pick('>', '<=', '<>')} {ctx.pick(1, 2)}"
    if kind == "key":
        return condition(ctx, keys)
    if kind == "subquery" and keys.types:
        return subqueries.subquery_condition(ctx, keys, depth)
    call, type_ = aggregate(ctx, scope)
    if kind == "subquery":
        return f"COUNT(*) >= {subqueries.scalar(ctx, Scope(), depth)}"
    if type_ in NUMERIC and ctx.chance(2):
        return f"{call} >= {constant(ctx, INT)}"
    return f"{call} IS {ctx.pick('', 'NOT ')}NULL"
