"""One name for every stream of a query, so that queries which differ in aliases alone have equal plans.

``FROM C AS x`` and ``FROM C AS y`` name columns ``x.pid`` and ``y.pid`` inside a plan. Under the canonical
alias both are ``C.pid``; of a stream that a query reads more than once, the second is ``C~2.pid``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from penstock.expression import Column, Literal
from penstock.plan import logical
from penstock.plan.physical import SourceInput
from penstock.plan.sharing import named

T = TypeVar("T")


def aliases(root: logical.Logical) -> dict[str, str]:
    """The canonical alias of every stream's alias; none if a name could be mistaken for a column."""
    sources = logical.sources(root)
    own = [s.alias for s in sources]
    others = {n.alias for n in logical.walk(root) if isinstance(n, logical.Source)} - set(own)
    found: dict[str, str] = {}
    for source in sources:
        name, number = source.definition.name, 1
        while name in found.values() or name in others:
            number += 1
            name = f"{source.definition.name}~{number}"
        found[source.alias] = name
    ambiguous = len(set(own)) < len(own) or any("." in n for n in root.schema.names)
    return {} if ambiguous else {old: new for old, new in found.items() if old != new}


def renamed_source(source: SourceInput, names: Mapping[str, str]) -> SourceInput:
    """A source under its canonical alias."""
    rename = _rename(names)
    columns = tuple((rename(n), in_plan(e, names)) for n, e in source.columns)
    alias = names.get(source.alias, source.alias)
    return replace(source, alias=alias, columns=columns, route=named(source.route, rename))


def in_plan(value: T, names: Mapping[str, str]) -> T:
    """A node or expression with other aliases."""
    found: T = _in(value, _rename(names), names) if names else value
    return found


def _rename(names: Mapping[str, str]) -> Callable[[str], str]:
    def rename(name: str) -> str:
        alias, dot, column = name.partition(".")
        return f"{names[alias]}.{column}" if dot and alias in names else name

    return rename


def _in(value: Any, rename: Callable[[str], str], names: Mapping[str, str]) -> Any:
    if isinstance(value, Literal):
        return value
    if isinstance(value, Column):
        return Column(rename(value.name), value.type)
    if isinstance(value, str):
        return rename(value)
    if isinstance(value, pa.Schema):
        return pa.schema([f.with_name(rename(f.name)) for f in value])
    if isinstance(value, tuple):
        return tuple(_in(v, rename, names) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        new = {f.name: _field(f.name, getattr(value, f.name), rename, names) for f in fields(value) if f.init}
        return replace(value, **new)
    return value


def _field(name: str, value: Any, rename: Callable[[str], str], names: Mapping[str, str]) -> Any:
    """A field of a node; the labels of a join's inputs are aliases themselves."""
    if name == "labels" and isinstance(value, Sequence):
        return tuple(names.get(label, label) for label in value)
    return _in(value, rename, names)
