"""Hypothesis strategies: small streams with ties, gaps, bursts, nulls and skewed keys, and CQL over them.

``cases()`` draws a whole :class:`Case`: a query of the language's subset and finite inputs for it. It only
draws what the language accepts and what has one answer everywhere: doubles are multiples of a quarter (sums
are exact in any order), nothing divides by zero, nothing overflows, every join is linked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

INT, BIGINT, DOUBLE, STRING, BOOLEAN = "INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN"
NUMERIC = {INT, BIGINT, DOUBLE}
COLUMNS = {"a": INT, "b": BIGINT, "c": INT, "s": STRING, "t": STRING, "x": DOUBLE, "y": DOUBLE, "p": BOOLEAN}
LAST_INSTANT = 15
TABLE = "D"
"""The name of the input that is a static table."""

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A query and finite inputs for it; prints as a call that runs."""

    cql: str
    inputs: dict[str, list[Any]]
    schemas: dict[str, str]
    until: int | None = None

    def __repr__(self) -> str:
        rows = ",\n".join(f"        {name!r}: {elements!r}" for name, elements in self.inputs.items())
        inputs = re.sub(r"\b(nan|inf)\b", r"float('\1')", "{\n" + rows + ",\n    }")
        return (
            f"penstock.evaluate(\n    {self.cql!r},\n    {inputs},\n"
            f"    schemas={self.schemas!r},\n    until={self.until!r},\n)"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True)
class Item:
    """A FROM item: its alias, and its columns with their types."""

    alias: str
    stream: str
    columns: dict[str, str]

    def of(self, types: set[str]) -> list[str]:
        """The columns of some types, qualified."""
        return [f"{self.alias}.{name}" for name, type_ in self.columns.items() if type_ in types]


@dataclass
class Shape:
    """What the clauses of a query share while it is drawn."""

    items: list[Item]
    conjuncts: list[str] = field(default_factory=list)
    from_text: str = ""

    def columns(self, types: set[str]) -> list[str]:
        return [name for item in self.items for name in item.of(types)]

    def type_of(self, column: str) -> str:
        alias, name = column.split(".")
        return next(i.columns[name] for i in self.items if i.alias == alias)


# Streams.

VALUES: dict[str, Sequence[Any]] = {
    INT: (1, 1, 1, 0, 0, 2, 3, -1, None),
    BIGINT: (1, 1, 0, 0, 2, 5, -7, 3_000_000_000, None),
    DOUBLE: (1.0, 1.0, 0.0, 0.0, 1.5, 2.0, -0.25, 0.0, 1.0, 3.75, None, -0.0, math.nan, math.inf),
    STRING: ("a", "a", "b", "", "ab", "B", "aé", None),
    BOOLEAN: (True, False, True, None),
}


@st.composite
def timestamps(draw: Draw, most: int) -> list[int]:
    """Instants in order, with ties, gaps and bursts."""
    size = draw(st.sampled_from((2, 4, most, most, most, most, most, most, 0)))
    gaps = draw(st.lists(st.sampled_from((0, 0, 1, 1, 2, 5)), min_size=size, max_size=size))
    instants, now = [], draw(st.sampled_from((0, 1, 4)))
    for gap in gaps:
        now = min(now + gap, LAST_INSTANT)
        instants.append(now)
    return instants


@st.composite
def elements(draw: Draw, columns: dict[str, str], most: int) -> list[tuple[int, dict[str, Any]]]:
    """A finite stream."""
    stamps = draw(timestamps(most))
    row = st.fixed_dictionaries({name: st.sampled_from(VALUES[type_]) for name, type_ in columns.items()})
    return [(ts, draw(row)) for ts in stamps]


@st.composite
def schemas(draw: Draw, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Columns for each input; all have the key ``a``, so that every two can be joined."""
    others = st.lists(st.sampled_from([c for c in COLUMNS if c != "a"]), max_size=3, unique=True)
    return {name: {c: COLUMNS[c] for c in ["a", *draw(others)]} for name in names}


@st.composite
def windows(draw: Draw, columns: dict[str, str]) -> str:
    """Any window, or none."""
    size = draw(st.integers(1, 4))
    keys = ", ".join(draw(st.lists(st.sampled_from(list(columns)), min_size=1, max_size=2, unique=True)))
    forms = ("", "[ROWS UNBOUNDED]", "[NOW]", "[RANGE 0 SECONDS]", "[RANGE {n}]", "[RANGE 1 SECOND]",
             "[ROWS {n}]", "[ROWS {n}]", "[RANGE {n} SECONDS]", "[RANGE {n} SECONDS]",
             "[PARTITION BY {keys} ROWS {n}]", "[PARTITION BY {keys} ROWS 1]")  # fmt: skip
    return draw(st.sampled_from(forms)).format(n=size, keys=keys)


# Expressions.


@st.composite
def constants(draw: Draw, type_: str) -> str:
    """A constant as CQL writes it."""
    known = [v for v in VALUES[type_] if v is not None]
    value = draw(st.sampled_from([v for v in known if type_ != DOUBLE or math.isfinite(v)]))
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


@st.composite
def numbers(draw: Draw, shape: Shape, depth: int = 1) -> str:
    """A numeric expression that no row makes fail."""
    columns = shape.columns(NUMERIC)
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(columns) if columns else constants(INT))
    part = numbers(shape, depth - 1)
    return draw(
        st.one_of(
            st.builds("({} {} {})".format, part, st.sampled_from("+-"), part),
            st.builds("({} * {})".format, part, st.sampled_from(("2", "-1", "3"))),
            st.builds("({} % 3)".format, part),
            st.builds("({} / 4)".format, part),
            st.builds("-({})".format, part),
            st.builds("ABS({})".format, part),
            st.builds("COALESCE({}, {})".format, part, st.sampled_from(("0", "7"))),
            st.builds("CAST({} AS DOUBLE)".format, part),
            st.builds("CASE WHEN {} THEN {} ELSE {} END".format, simple_conditions(shape), part, part),
            st.builds("CASE WHEN {} THEN {} END".format, simple_conditions(shape), part),
            st.builds("NULLIF({}, 1)".format, part),
            st.builds("GREATEST({}, {})".format, part, part),
        )
    )


@st.composite
def texts(draw: Draw, shape: Shape) -> str:
    """A string expression."""
    columns = shape.columns({STRING})
    base = draw(st.sampled_from(columns) if columns else constants(STRING))
    forms = ("{}", "UPPER({})", "{} || '!'", "COALESCE({}, 'none')", "SUBSTRING({}, 1, 1)", "TRIM({})")
    return draw(st.sampled_from(forms)).format(base)


@st.composite
def simple_conditions(draw: Draw, shape: Shape) -> str:
    """One comparison of a column with a constant, or a test of it."""
    column = draw(st.sampled_from(shape.columns(set(VALUES))))
    type_ = shape.type_of(column)
    if type_ == BOOLEAN:
        return draw(st.sampled_from(("{}", "NOT {}", "{} IS NULL", "{} = TRUE"))).format(column)
    one, other = draw(constants(type_)), draw(constants(type_))
    forms = ["{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "{} IS NULL", "{} IS NOT NULL",
             "{} IN ({}, {})", "{} NOT IN ({}, {})", "{} IN ({}, NULL)",
             "{} BETWEEN {} AND {}", "{} NOT BETWEEN {} AND {}"]  # fmt: skip
    if type_ == STRING:
        forms += ["{} LIKE 'a%'", "NOT {} LIKE '%b'", "{} LIKE '_'"]
    return draw(st.sampled_from(forms)).format(column, one, other)


@st.composite
def conditions(draw: Draw, shape: Shape) -> str:
    """A condition over any items of the query."""
    simple = simple_conditions(shape)
    return draw(
        st.one_of(
            simple,
            st.builds("({} OR {})".format, simple, simple),
            st.builds("NOT ({} AND {})".format, simple, simple),
            st.builds(
                "{} {} {}".format, numbers(shape), st.sampled_from(("<", ">=", "<>", "=")), numbers(shape)
            ),
        )
    )


# Joins.


@st.composite
def links(draw: Draw, left: Item, right: Item) -> str:
    """A predicate that links two items, most often an equality."""
    pairs = [
        (f"{left.alias}.{m}", f"{right.alias}.{n}")
        for m, s in left.columns.items()
        for n, t in right.columns.items()
        if s == t or {s, t} <= NUMERIC
    ]
    one, other = draw(st.sampled_from(pairs))
    form = draw(st.sampled_from(("{} = {}",) * 8 + ("{} < {}", "{} <= {}", "{} <> {}")))
    return form.format(one, other)


@st.composite
def join_conjuncts(draw: Draw, items: list[Item]) -> list[str]:
    """A common key, a chain, a star or a cycle, with more predicates now and then."""
    if len(items) == 1:
        return []
    kind = draw(st.sampled_from(("key", "chain", "star", "cycle")))
    pairs = list(zip(items, items[1:], strict=False))
    if kind == "star":
        pairs = [(items[0], other) for other in items[1:]]
    if kind == "cycle" and len(items) > 2:
        pairs.append((items[-1], items[0]))
    if kind == "key":
        found = [f"{left.alias}.a = {right.alias}.a" for left, right in pairs]
    else:
        found = [draw(links(left, right)) for left, right in pairs]
    if draw(st.integers(0, 3)) == 0:
        found.append(draw(links(*draw(st.sampled_from(pairs)))))
    return found


@st.composite
def shapes(draw: Draw) -> tuple[Shape, dict[str, dict[str, str]]]:
    """FROM items with their windows, the last one a table now and then, and the predicates that link them."""
    count = draw(st.sampled_from((1, 1, 1, 2, 2, 2, 3, 3, 4)))
    streams = [draw(st.sampled_from("STU"[:count])) for _ in range(count)]
    if count > 1 and draw(st.integers(0, 5)) == 5:
        streams[-1] = TABLE
    columns = draw(schemas(sorted(set(streams))))
    shadowed = len(set(streams)) < count or draw(st.booleans())
    items = [Item(f"r{i}" if shadowed else name, name, columns[name]) for i, name in enumerate(streams)]
    shape = Shape(items, draw(join_conjuncts(items)))
    texts_ = [
        i.stream if i.stream == TABLE else f"{i.stream} {draw(windows(i.columns))}".rstrip() for i in items
    ]
    named = [f"{t} AS {i.alias}" if i.alias != i.stream else t for t, i in zip(texts_, items, strict=True)]
    shape.from_text = draw(from_texts(named, shape))
    return shape, columns


@st.composite
def from_texts(draw: Draw, named: list[str], shape: Shape) -> str:
    """The FROM list with commas, or two items with JOIN ... ON, or with CROSS JOIN."""
    form = draw(st.sampled_from(("comma", "comma", "on", "cross"))) if len(named) == 2 else "comma"
    if form == "on":
        on, shape.conjuncts = " AND ".join(shape.conjuncts), []
        return f"{named[0]} JOIN {named[1]} ON {on}"
    if form == "cross":
        shape.conjuncts = []
        return f"{named[0]} CROSS JOIN {named[1]}"
    return ", ".join(named)


# Queries.


@st.composite
def plain_lists(draw: Draw, shape: Shape) -> str:
    """A SELECT list without aggregates."""
    column = st.sampled_from(shape.columns(set(VALUES)))
    if draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(("*", f"{shape.items[-1].alias}.*")))
    item = st.one_of(column, column, numbers(shape, 2), texts(shape), simple_conditions(shape))
    items = draw(st.lists(item, min_size=1, max_size=3))
    return ", ".join(f"{text} AS c{n}" for n, text in enumerate(items))


@st.composite
def aggregates(draw: Draw, shape: Shape) -> str:
    """One aggregate call."""
    column = draw(st.sampled_from(shape.columns(set(VALUES))))
    number = draw(numbers(shape))
    forms = ("COUNT(*)", f"COUNT({column})", f"SUM({number})", f"AVG({number})", f"MIN({column})",
             f"MAX({column})", f"SUM({number}) + COUNT(*)", f"MAX({number}) - MIN({number})")  # fmt: skip
    return draw(st.sampled_from(forms))


@st.composite
def grouped(draw: Draw, shape: Shape) -> tuple[str, str]:
    """A SELECT list with aggregates, and the GROUP BY clause."""
    column = st.sampled_from(shape.columns(set(VALUES)))
    keys = draw(st.lists(st.one_of(column, column, texts(shape)), max_size=2, unique=True))
    keys = [k for k in keys if re.search(r"\w\.\w", k)]
    calls = draw(st.lists(aggregates(shape), min_size=0 if keys else 1, max_size=3))
    shown = [k for k in keys if draw(st.booleans())] + calls
    texts_ = shown or keys
    clause = f" GROUP BY {', '.join(keys)}" if keys else ""
    return ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts_)), clause


@st.composite
def queries(draw: Draw) -> tuple[str, dict[str, dict[str, str]]]:
    """A query, and the columns of the streams it reads."""
    shape, columns = draw(shapes())
    select, group = draw(st.one_of(plain_lists(shape).map(lambda s: (s, "")), grouped(shape)))
    filters = draw(st.lists(conditions(shape), max_size=draw(st.sampled_from((0, 0, 0, 1, 2)))))
    where = [*shape.conjuncts, *filters]
    tail = f" FROM {shape.from_text}" + (f" WHERE {' AND '.join(where)}" if where else "") + group
    operator = draw(st.sampled_from(("", "", "", "ISTREAM", "DSTREAM", "RSTREAM")))
    if not operator:
        return f"SELECT {select}{tail}", columns
    every = draw(st.sampled_from(("", "", " EVERY 2 SECONDS", " EVERY 3"))) if operator == "RSTREAM" else ""
    if draw(st.booleans()):
        return f"SELECT {operator}({select}){every}{tail}", columns
    return f"{operator}(SELECT {select}{tail}){every}", columns


@st.composite
def cases(draw: Draw) -> Case:
    """A query with inputs for it."""
    cql, columns = draw(queries())
    most = {1: 12, 2: 8}.get(cql.count("AS r") or len(columns), 6)
    inputs: dict[str, list[Any]] = {name: draw(elements(own, most)) for name, own in columns.items()}
    if TABLE in inputs:
        inputs[TABLE] = [row for _, row in inputs[TABLE]]
    texts_ = {name: ", ".join(f"{c} {t}" for c, t in own.items()) for name, own in columns.items()}
    until = draw(
        st.one_of(st.none(), st.integers(LAST_INSTANT, LAST_INSTANT + 6), st.integers(0, LAST_INSTANT))
    )
    return Case(cql, inputs, texts_, until)


@st.composite
def long_cases(draw: Draw) -> Case:
    """A query of one or two items over streams of hundreds of rows, to make stores grow and forget."""
    cql, columns = draw(
        queries().filter(lambda q: q[0].count("AS r") < 3 and len(q[1]) < 3 and "CROSS" not in q[0])
    )
    size = r"\[(ROWS|RANGE) (\d)( SECONDS)?\]"
    cql = re.sub(size, lambda m: f"[{m[1]} {int(m[2]) * 7}{m[3] or ''}]", cql)
    random = draw(st.randoms(use_true_random=False))
    inputs: dict[str, list[Any]] = {}
    for name, own in columns.items():
        stamps = sorted(random.randrange(150) for _ in range(300))
        inputs[name] = [(ts, {c: _wide(random, t) for c, t in own.items()}) for ts in stamps]
    if TABLE in inputs:
        inputs[TABLE] = [row for _, row in inputs[TABLE][:20]]
    texts_ = {name: ", ".join(f"{c} {t}" for c, t in own.items()) for name, own in columns.items()}
    return Case(cql, inputs, texts_, 200)


def _wide(random: Any, type_: str) -> Any:
    """A value from a domain wide enough that keys come and go."""
    value = random.choice(VALUES[type_])
    if type_ == STRING and value:
        return f"{value}{random.randrange(40)}"
    return value + random.randrange(60) if type_ in NUMERIC and value is not None else value
