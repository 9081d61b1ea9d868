"""Pages of ``docs/`` whose CQL runs: what their fenced blocks say, and what the engine answers.

* ``input`` gives the inputs of all that follows, a line each: ``S (a INT, b STRING): (1, x)@5 (2, y)@7``
  is a stream, ``R (a INT): +1@1 -1@4`` a relation, ``T (a INT): 1 2`` a table; ``until: 9`` lets time run on.
* ``cql`` is examples: definitions and at most one query, and in comments after them what the query gives: the
  columns, then the elements, or an error. Without comments it only has to bind.
* ``python`` is run with a ``ps`` that registers functions.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

import penstock
from penstock import cql, evaluation, sysstream
from penstock.catalog import FunctionDef
from penstock.plan import compile
from penstock.plan.logical import ToStream
from penstock.schema import TimeDomain
from penstock.server.examples import PART, Inputs, read_inputs

WIDTH = 105
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A query of a ``cql`` block; ``span`` is where in the page its comments are."""

    line: int
    text: str
    inputs: Inputs
    functions: dict[str, FunctionDef]
    expected: str
    span: tuple[int, int]

    def answer(self) -> str:
        """What the engine gives, as comments: the result, or the message where the page shows one."""
        if not self.expected.startswith("-- error:"):
            return commented(outcome(self))
        with pytest.raises(penstock.PenstockError) as refused:
            outcome(self)
        return commented([f"error: {refused.value}"])


class Functions(dict[str, FunctionDef]):
    """What stands for the session in a ``python`` block."""

    def create_function(
        self, name: str, function: Callable[..., Any], returns: str, scalar: bool = False
    ) -> None:
        self[name] = cql.define_function(name, function, returns, scalar)

    def create_aggregate(self, name: str, *parts: Any, **more: Any) -> None:
        self[name] = cql.define_aggregate(name, *parts, **more)


def examples(page: str) -> Iterator[Example]:
    """The examples of a page, in order."""
    inputs, functions = Inputs(), Functions()
    for block in FENCE.finditer(page):
        kind, text = block[1], block[2]
        if kind == "input":
            inputs = read_inputs(text)
        elif kind == "python":
            exec(text, {"ps": functions})
        elif kind == "cql":
            for part in PART.finditer(text):
                start, end = (block.start(2) + place for place in part.span(2))
                line = page.count("\n", 0, block.start(2) + part.start(1)) + 1
                yield Example(line, part[1], inputs, dict(functions), part[2], (start, end))


def outcome(example: Example) -> list[str]:
    """The result of an example's query: its columns and its elements, a text each."""
    given = example.inputs
    finite = evaluation.read_inputs(given.rows, given.schemas, TimeDomain("integer", "seconds"))
    catalog: dict[str, Any] = {**finite.catalog(), **example.functions}
    catalog.setdefault(sysstream.NAME, sysstream.definition())
    query = None
    for statement in cql.parse(example.text):
        if isinstance(statement, cql.CreateView):
            catalog[statement.name] = cql.define_view(statement, catalog)
        elif isinstance(statement, cql.CreateInput | cql.CreateTable):
            catalog[statement.name] = statement.definition()
        elif isinstance(statement, cql.CreateSink):
            catalog[statement.name] = statement.sink
        elif isinstance(statement, cql.Insert):
            compile(cql.bind_insert(statement, catalog)[0], 1)
        elif isinstance(statement, cql.SelectStatement):
            query = statement
    if query is None:
        return []
    bound = cql.bind(query, catalog)
    plan = compile(bound, 1)
    if not example.expected:
        return []
    if "CREATE" in example.text or example.functions:
        changes = evaluation._run(plan, finite, given.until, 3)
    else:
        changes = penstock.evaluate(example.text, given.rows, given.schemas, until=given.until)
    return written(changes, plan.schema.names, isinstance(bound.root, ToStream))


def written(changes: list[evaluation.Change], names: list[str], stream: bool) -> list[str]:
    """The columns of a result and its elements, of an instant those that leave first."""
    lines = [", ".join(names) + ":"]
    for _, instant in groupby(changes, lambda change: change[0]):
        elements = sorted((sign == "+", element(tuple(row.values())), ts) for ts, sign, row in instant)
        signs = {True: "" if stream else "+", False: "-"}
        lines += [f"{signs[plus]}{text}@{ts}" for plus, text, ts in elements]
    return lines


def commented(parts: list[str]) -> str:
    """Parts in comments as wide as the page."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) < WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return "".join(f"-- {line}\n" for line in lines)


def element(row: tuple[Any, ...]) -> str:
    values = [value(v) for v in row]
    plain = len(values) == 1 and re.fullmatch(r"[\w.]+", values[0])
    return values[0] if plain else f"({', '.join(values)})"


def value(given: Any) -> str:
    if given is None or isinstance(given, bool):
        return {None: "NULL", True: "true", False: "false"}[given]
    if isinstance(given, dt.datetime):
        return given.replace(tzinfo=None).isoformat(" ")
    if isinstance(given, str):
        return given if re.fullmatch(r"\w+", given) else f"'{given}'"
    return str(given)
