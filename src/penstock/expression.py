"""Scalar expressions after binding: columns, literals and calls, every one with its type.

The binder makes them (all coercions explicit as ``cast`` calls), the engine evaluates them over Arrow
columns, and the Spark side writes them as Spark SQL. A column is named once and for all by
``qualified name`` (``"C.pid"``), which is its field name in the schema of whatever it is evaluated over.

Functions are named as Spark names them, in lower case; operators by these words::

    = <> < <= > >= <=>   + - * / % negative   and or not   isnull isnotnull   in   like   case   cast
    coalesce  ...

``between`` is bound to two comparisons, ``<>`` and ``not in`` keep three-valued logic.
``and`` and ``or`` take two or more arguments: a chain of thousands of them is one call (:func:`connected`).
``case`` takes condition, value, condition, value, ..., else (always present, a null literal if need be).
``in`` takes the value and then literals. ``like`` takes value, pattern.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import pyarrow as pa

from penstock.schema import sql_name


@dataclass(frozen=True)
class Column:
    """A column of the input, by its qualified name."""

    name: str
    type: pa.DataType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    """A constant; ``None`` is NULL of the given type."""

    value: Any
    type: pa.DataType

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        return repr(self.value) if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Call:
    """A function or operator applied to arguments."""

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType

    def __str__(self) -> str:
        return _show(self)


@dataclass(frozen=True)
class PythonCall(Call):
    """A call of a registered function: Arrow arrays in, something Arrow can make an array of out."""

    implementation: Callable[..., Any] = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes with the function's code: it may be a lambda or live in a notebook."""
        return _python_call, (self.function, self.args, self.type, cloudpickle.dumps(self.implementation))


@dataclass(frozen=True)
class RowByRow:
    """A function of single values as a vectorised one; NULLs are None.

    >>> RowByRow(max)(pa.array([1, 5]), pa.array([3, 4]))
    [3, 5]
    """

    function: Callable[..., Any]

    def __call__(self, *columns: pa.Array) -> list[Any]:
        """A value per row."""
        return [self.function(*row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@dataclass(frozen=True)
class OwnAggregate:
    """A registered aggregate: functions over whole columns of states, which are dicts of arrays by name.

    ``add`` makes the state of each row from its arguments, ``merge`` the state of two sets of rows together,
    ``remove`` that of a set without another that is part of it, ``finish`` the value of a state. Without
    ``remove``, a group that rows leave is merged again from the rows that stay.
    """

    name: str
    returns: pa.DataType
    state: pa.Schema
    add: Callable[..., Any] = field(compare=False, repr=False)
    merge: Callable[..., Any] = field(compare=False, repr=False)
    finish: Callable[..., Any] = field(compare=False, repr=False)
    remove: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes with the functions' code."""
        functions = cloudpickle.dumps((self.add, self.merge, self.finish, self.remove))
        return _own_aggregate, (self.name, self.returns, self.state, functions)


def _own_aggregate(name: str, returns: pa.DataType, state: pa.Schema, code: bytes) -> OwnAggregate:
    return OwnAggregate(name, returns, state, *cloudpickle.loads(code))


def _python_call(function: str, args: tuple[Expression, ...], kind: pa.DataType, code: bytes) -> PythonCall:
    return PythonCall(function, args, kind, cloudpickle.loads(code))


Expression = Column | Literal | Call

INFIX = frozenset("= <> < <= > >= <=> + - * / % & | ^ div and or like".split())
"""Functions written between their two arguments, here and in Spark."""


def _show(call: Call) -> str:
    args = [f"({a})" if isinstance(a, Call) and a.function in INFIX else str(a) for a in call.args]
    if call.function in INFIX:
        return f" {call.function.upper()} ".join(args)
    if call.function in ("cast", "try_cast"):
        return f"{call.function.upper()}({args[0]} AS {sql_name(call.type)})"
    if call.function == "in":
        return f"{args[0]} IN ({', '.join(args[1:])})"
    if call.function in ("isnull", "isnotnull"):
        return f"{args[0]} IS {'NOT ' if call.function == 'isnotnull' else ''}NULL"
    return f"{call.function.upper()}({', '.join(args)})"


def shown(expression: Expression) -> str:
    """An expression for an error, without generated aliases of subqueries, which the user never wrote."""
    return re.sub(r"#\d+\.", "", str(expression))


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    left = [expression]
    while left:
        part = left.pop()
        yield part
        if isinstance(part, Call):
            left.extend(reversed(part.args))


def columns(expression: Expression) -> set[str]:
    """Names of the columns an expression reads."""
    return {e.name for e in walk(expression) if isinstance(e, Column)}


def transform(expression: Expression, replace: Callable[[Expression], Expression | None]) -> Expression:
    """A copy in which each node for which ``replace`` returns an expression is replaced by it."""
    new = replace(expression)
    if new is not None:
        return new
    if isinstance(expression, Call):
        return with_args(expression, tuple(transform(a, replace) for a in expression.args))
    return expression


def with_args(call: Call, args: tuple[Expression, ...]) -> Call:
    """The same call with other arguments."""
    return dataclasses.replace(call, args=args)


def connected(function: str, args: Iterable[Expression]) -> Expression:
    """Conditions connected by ``and`` or ``or`` as one call, without calls of the same inside.

    >>> a, b, c = (Column(name, pa.bool_()) for name in "abc")
    >>> print(connected("or", [connected("or", [a, b]), c]))
    a OR b OR c
    """
    flat = [part for arg in args for part in _parts(function, arg)]
    return flat[0] if len(flat) == 1 else Call(function, tuple(flat), pa.bool_())


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts of a conjunction, flattened."""
    return _parts("and", expression)


def _parts(function: str, expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.function == function:
        return [part for arg in expression.args for part in _parts(function, arg)]
    return [expression]
