"""The meaning of a query: what of it does not depend on how it was written.

Two queries mean the same if their optimized plans differ in nothing but the spelling of windows, the names
and the order of the result's columns, the order of conjuncts, of the keys and aggregates of a GROUP BY and of
the values of IN, the side of a comparison on which an operand is, conjuncts that are TRUE or there twice,
aliases, and the names of columns of subqueries. A column is known by what it is made of. What is not known to
be the same is taken to differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import singledispatchmethod
from typing import Any, NamedTuple

from penstock.catalog import Input, TableDef
from penstock.expression import Call, Column, Literal
from penstock.functions.aggregate_call import AggregateCall
from penstock.plan import logical
from penstock.plan.compile import optimized

_TURNED = {">": "<", ">=": "<="}
_SYMMETRIC = frozenset({"=", "<>", "<=>", "and", "or"})
_SPELLING = frozenset({"input", "left", "right", "parts", "text", "number", "schema"})
"""Fields that say nothing beside the inputs of a node and what else it has."""


@dataclass(frozen=True)
class Meaning:
    """``text`` is equal for queries of one meaning; ``columns`` says what each column of the result is."""

    text: str
    columns: tuple[str, ...]

    def places_in(self, other: Meaning) -> list[int] | None:
        """For each column its place in the result of another query; None if that means something else."""
        if self.text != other.text:
            return None
        free = list(enumerate(other.columns))
        found = []
        for column in self.columns:
            place = next(n for n, (_, made_of) in enumerate(free) if made_of == column)
            found.append(free.pop(place)[0])
        return found


def meaning(query: logical.Query) -> Meaning:
    """The meaning of a bound query."""
    root = optimized(query)
    names: dict[str, str] = {}
    for source in logical.walk(root):
        if isinstance(source, logical.Leaf):
            names[source.alias] = _free(_kind(source), names.values())
    text, made_of = Reader(names).meant(root)
    columns = tuple(made_of[name] for name in root.schema.names)
    kinds = sorted(f"{c} {f.type}" for c, f in zip(columns, root.schema, strict=True))
    return Meaning(f"{query.time!r} {text} {kinds}", columns)


def _kind(leaf: logical.Leaf) -> str:
    """The name of what a leaf reads."""
    definition = getattr(leaf, "definition", None)
    return type(leaf).__name__ if definition is None else str(definition.name)


def _free(name: str, taken: Iterable[str]) -> str:
    number, used = 1, set(taken)
    while f"{name}~{number}" in used:
        number += 1
    return f"{name}~{number}"


class Meant(NamedTuple):
    """A relation as text, and what each of its columns is made of."""

    text: str
    made_of: dict[str, str]


class Reader:
    """Reads plans from the leaves up; ``names`` are the names of streams in place of their aliases."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def meant(self, node: logical.Logical) -> Meant:
        """The meaning of a relation."""
        return node.meant(self, [self.meant(i) for i in node.inputs])

    def by_fields(self, node: logical.Logical, below: Sequence[Meant]) -> Meant:
        """By the fields of an operator, which passes on columns and may make others."""
        inputs = [meant.text for meant in below]
        if node.counts_columns:
            parts = zip(node.inputs, below, strict=True)
            inputs = [f"{list(dict.fromkeys(self.columns(part, m)))} of {m.text}" for part, m in parts]
        passed = {name: text for meant in below for name, text in meant.made_of.items()}
        text = f"{type(node).__name__} {self.fields(node, passed)} of {inputs}"
        made = {name for variant in getattr(node, "variants", ()) for name, _ in variant}
        passed = {name: text for name, text in passed.items() if name not in made}
        new = {name: self.name(name) for name in node.schema.names if name not in passed}
        columns = {**passed, **self.made_by(text, new).made_of}
        return Meant(text, {name: columns[name] for name in node.schema.names})

    def made_by(self, text: str, columns: Mapping[str, str]) -> Meant:
        """A relation whose columns are all its own."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Meant(text, {name: f"{own} of #{digest}" for name, own in columns.items()})

    def columns(self, node: logical.Logical, meant: Meant) -> list[str]:
        """What the columns of a relation are made of, in order."""
        return [meant.made_of[name] for name in node.schema.names]

    def name(self, name: str) -> str:
        """A name without an alias in it."""
        alias, dot, column = name.partition(".")
        return f"{self._names[alias]}.{column}" if dot and alias in self._names else name

    def fields(self, node: Any, made_of: Mapping[str, str]) -> str:
        """The fields of a node or another dataclass, which the rest of it does not follow from."""
        shown = [f.name for f in fields(node) if f.compare and f.name not in _SPELLING]
        own = ((name, getattr(node, name)) for name in shown)
        return ", ".join(f"{name}={self._field(name, value, made_of)}" for name, value in own)

    def _field(self, name: str, value: Any, made_of: Mapping[str, str]) -> str:
        if name in ("alias", "labels"):
            return ""
        if name in ("conjuncts", "keep"):
            return str(self.conjuncts(value, made_of))
        if name == "partition_by":
            return str(sorted(self.text(v, made_of) for v in value))
        return self.text(value, made_of)

    def conjuncts(self, conjuncts: Iterable[Any], made_of: Mapping[str, str]) -> list[str]:
        """Predicates that all hold, each once."""
        parts = [p for c in conjuncts for p in _flat(c)]
        return sorted({self.text(p, made_of) for p in parts if not _is_true(p)})

    @singledispatchmethod
    def text(self, value: Any, made_of: Mapping[str, str]) -> str:
        """A value of a field; a string may name a column."""
        if is_dataclass(value) and not isinstance(value, type):
            return f"{type(value).__name__}({self.fields(value, made_of)})"
        if isinstance(value, list | tuple):
            return f"[{', '.join(self.text(v, made_of) for v in value)}]"
        if isinstance(value, set | frozenset):
            return str(sorted(self.text(v, made_of) for v in value))
        if isinstance(value, dict):
            return str(sorted((self.text(k, made_of), self.text(v, made_of)) for k, v in value.items()))
        if isinstance(value, str):
            return made_of.get(value, self.name(value))
        return getattr(value, "__qualname__", None) or repr(value)

    @text.register(Input)
    @text.register(TableDef)
    def _(self, value: Input | TableDef, made_of: Mapping[str, str]) -> str:
        """Both queries are of one catalog, where a name says all."""
        return value.name

    @text.register
    def _(self, value: AggregateCall, made_of: Mapping[str, str]) -> str:
        args = [self.text(a, made_of) for a in value.arguments]
        own = "" if value.own is None else f" own {value.own.name}"
        return f"{value.function}({args}, {value.constants!r}){value.distinct}:{value.type}{own}"

    @text.register
    def _(self, value: Literal, made_of: Mapping[str, str]) -> str:
        return f"{value.value!r}:{value.type}"

    @text.register
    def _(self, value: Column, made_of: Mapping[str, str]) -> str:
        return made_of.get(value.name) or f"{self.name(value.name)}:{value.type}"

    @text.register
    def _(self, value: Call, made_of: Mapping[str, str]) -> str:
        function, args = value.function, [self.text(a, made_of) for a in value.args]
        if function == "and":
            args = self.conjuncts(value.args, made_of)
            if len(args) == 1:
                return args[0]
        elif function in _TURNED:
            function, args = _TURNED[function], args[::-1]
        elif function in _SYMMETRIC:
            args = sorted(args)
        elif function == "in":
            args = [args[0], *sorted(set(args[1:]))]
        return f"{function}({', '.join(args)}):{value.type}"


def _flat(conjunct: Any) -> Iterable[Any]:
    if isinstance(conjunct, Call) and conjunct.function == "and":
        return [p for a in conjunct.args for p in _flat(a)]
    return [conjunct]


def _is_true(value: Any) -> bool:
    return isinstance(value, Literal) and value.value is True
