"""One entry per function and operator, with everything that Penstock needs of it.

The binder asks an entry for the bound call of arguments, the engine for its kernel, the plan whether it can
raise, the Spark side how Catalyst writes it; ``docs/functions.md`` shows signature, description and example.
To add a function, add one entry to the file of its theme.

A *signature* such as ``STRING, INT [, STRING] -> STRING`` says what a function takes and returns:

=====================  ================================================================================
``STRING``, ``INT``..  that type; a number may be narrower and is widened
``DATE, TIMESTAMP``    that type, or a STRING, DATE or TIMESTAMP that is converted
``number, integer``    any type of the class, or NULL; alike arguments become one type unless a rule decides
``number or interval`` either, as it is
``time``               a DATE or a TIMESTAMP as it is
``bytes``              a BINARY, or a STRING as one
``T``                  any type; all arguments marked T become their common type
other words            anything; the function's rule says what fits
``...``                any number of further arguments of the kind before it
=====================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from penstock.expression import INFIX, Call, Expression, Literal, walk
from penstock.functions import types
from penstock.functions.kernels import Kernel, by_row
from penstock.schema import INTERVAL, SQL_TYPES, TIMESTAMP

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[..., Expression | None]
"""From the arguments, each checked and coerced, to the bound call; None if it does not take them."""
Writer = Callable[[Call, list[str]], str]
"""From a call and its arguments as Spark SQL to Spark SQL."""

_CLASSES: dict[str, Callable[[pa.DataType], bool]] = {
    "number": types.is_numeric,
    "number or interval": types.is_amount,
    "integer": types.is_integer,
    "time": types.is_temporal,
}


def _take(argument: Expression, kind: str) -> Expression | None:
    """An argument converted for a parameter of the kind, None if it does not fit. Arrays fit only ``any``."""
    if pa.types.is_nested(argument.type) and kind != "any":
        return None
    if kind in ("DATE", "TIMESTAMP"):
        return types.as_time(argument, SQL_TYPES[kind])
    if kind == "bytes":
        fits = types.is_string(argument.type) or argument.type in (types.BINARY, types.NULL)
        return types.coerce(argument, types.BINARY) if fits else None
    if kind in SQL_TYPES:
        fits = types.common((argument.type, SQL_TYPES[kind])) == SQL_TYPES[kind]
        return types.coerce(argument, SQL_TYPES[kind]) if fits else None
    if kind not in _CLASSES or _CLASSES[kind](argument.type):
        return argument
    if argument.type != types.NULL:
        return None
    return Literal(None, TIMESTAMP) if kind == "time" else argument


@dataclass(frozen=True)
class Described:
    """What a query may call: its name, its signature, and its line of documentation."""

    name: str
    signature: str
    doc: str
    example: str
    """A constant expression, ``->`` and its value; both are CQL, and a test evaluates them."""

    @property
    def word(self) -> str:
        """Its name as a query writes it, in upper case."""
        return "-" if self.name == "negative" else self.name.upper()

    @cached_property
    def parameters(self) -> str:
        """Its parameters, from the signature."""
        return self.signature.split("->")[0].strip()

    @property
    def takes(self) -> str:
        """Its parameters, for a message."""
        return f"({self.parameters})" + (" of one type T" if "T" in self._kinds[0] else "")

    @cached_property
    def returns(self) -> str:
        """The type of its result, or the kind of the argument whose type it is."""
        return self.signature.split("->")[1].strip()

    @cached_property
    def _kinds(self) -> tuple[list[str], list[str]]:
        required, _, optional = self.parameters.partition("[")
        return _words(required), _words(optional.rstrip("]"))

    @property
    def least(self) -> int:
        """The least number of arguments."""
        return len([kind for kind in self._kinds[0] if kind != "..."])

    @property
    def most(self) -> int | None:
        """The largest number of arguments, None if there is none."""
        return None if "..." in self._kinds[0] else sum(map(len, self._kinds))

    def kinds(self, given: int) -> list[str]:
        """The kind of each of so many arguments."""
        required, optional = self._kinds
        kinds = [*required[: self.least], *optional]
        kinds += kinds[-1:] * (given - len(kinds))
        return kinds[:given]

    def taken(self, arguments: Sequence[Expression]) -> list[Expression] | None:
        """The arguments converted to what the signature says, None if one does not fit."""
        kinds = self.kinds(len(arguments))
        found = [e for e in map(_take, arguments, kinds) if e is not None]
        return found if len(found) == len(arguments) else None


@dataclass(frozen=True)
class Function(Described):
    """A function or operator."""

    kernel: Kernel | None = None
    """None: ``rule`` writes it in terms of others, or :mod:`penstock.engine.evaluate` has a form of it."""
    rule: Rule | None = None
    aliases: tuple[str, ...] = ()
    raises: bool | Callable[[Call], bool] = False
    """Whether some row of data can make the kernel fail."""
    spark: str | Writer | None = "{name}({args})"
    """How Catalyst writes it: a template, a function, or None where it must run in the engine."""
    operator: bool = False
    """Written with a syntax of its own, not called by name."""

    def bind(self, arguments: Sequence[Expression]) -> Expression | None:
        """The bound call, None if arguments of these types do not fit."""
        taken, kinds = self.taken(arguments), self.kinds(len(arguments))
        if taken is None:
            return None
        for kind in ("T",) if self.rule else ("T", *_CLASSES):
            type_ = types.common(e.type for e, k in zip(taken, kinds, strict=True) if k == kind)
            if type_ is None:
                return None
            taken = [types.coerce(e, type_) if k == kind else e for e, k in zip(taken, kinds, strict=True)]
        if self.rule:
            return self.rule(*taken)
        result = SQL_TYPES.get(self.returns) or taken[kinds.index(self.returns)].type
        return Call(self.name, tuple(taken), result)

    def spark_sql(self, call: Call, arguments: list[str]) -> str:
        """The call as Spark SQL, of arguments as Spark SQL."""
        if self.name in INFIX:
            return f"({f' {self.name.upper()} '.join(arguments)})"
        assert self.spark is not None, f"{self.name} is not for Catalyst"
        if callable(self.spark):
            return self.spark(call, arguments)
        return self.spark.format(*arguments, name=self.name, args=", ".join(arguments))


def _words(kinds: str) -> list[str]:
    return [kind.strip() for kind in kinds.split(",") if kind.strip()]


@dataclass(frozen=True)
class Theme:
    """A group of functions in the reference."""

    title: str
    note: str = ""
    functions: list[Function] = field(default_factory=list)

    def define(
        self, name: str, signature: str, doc: str, example: str, kernel: Kernel | None = None, **more: Any
    ) -> None:
        """Registers a function; ``more`` are further fields of :class:`Function`."""
        register(function := Function(name, signature, doc, example, kernel, **more))
        self.functions.append(function)

    def by_column(self, *description: str, **more: Any) -> Callable[[F], F]:
        """A decorator that registers a kernel."""
        return self._decorator(description, more, lambda kernel: {"kernel": kernel})

    def by_row(self, *description: str, **more: Any) -> Callable[[F], F]:
        """A decorator that registers a Python function of one row's values."""
        return self._decorator(description, more, lambda function: {"kernel": by_row(function)})

    def by_rule(self, *description: str, **more: Any) -> Callable[[F], F]:
        """A decorator that registers a rule: it rewrites a call by others, or types a kernel's call."""
        return self._decorator(description, more, lambda rule: {"rule": rule})

    def _decorator(
        self, description: tuple[str, ...], more: dict[str, Any], given: Callable[[F], dict[str, Any]]
    ) -> Callable[[F], F]:
        name, signature, doc, example = description

        def decorate(function: F) -> F:
            self.define(name, signature, doc, example, **more, **given(function))
            return function

        return decorate


FUNCTIONS: dict[str, Function] = {}
"""Every function and operator by its name in bound calls."""
ALIASES: dict[str, str] = {}
"""Other names of functions."""


def register(function: Function) -> None:
    """Adds an entry."""
    FUNCTIONS[function.name] = function
    ALIASES.update(dict.fromkeys(function.aliases, function.name))


def called(name: str) -> Function | None:
    """The function that a query calls by a name, in any case."""
    function = FUNCTIONS.get(ALIASES.get(name.lower(), name.lower()))
    return None if function is None or function.operator else function


def names() -> list[str]:
    """All names by which functions can be called."""
    return [*(name for name, f in FUNCTIONS.items() if not f.operator), *ALIASES]


def _calls(expression: Expression) -> Iterator[Call]:
    return (e for e in walk(expression) if isinstance(e, Call))


def may_raise(expression: Expression) -> bool:
    """Whether evaluation may fail on some row; a user's function always may."""
    return any(_raises(call) for call in _calls(expression))


def _raises(call: Call) -> bool:
    function = FUNCTIONS.get(call.function)
    if function is None:
        return True
    return function.raises(call) if callable(function.raises) else function.raises


def for_catalyst(expression: Expression) -> bool:
    """Whether Catalyst can evaluate an expression; a user's function runs in the engine.

    So does what Catalyst would compute in the session's time zone: here all times are in UTC. Of intervals
    it has comparisons only.
    """
    found = ((FUNCTIONS.get(call.function), call) for call in _calls(expression))
    return all(f is not None and f.spark is not None and _in_any_zone(call) for f, call in found)


_IN_ANY_ZONE = frozenset(
    "= <> < <= > >= <=> in and or not isnull isnotnull case coalesce nullif if greatest least "
    "unix_seconds unix_millis unix_micros timestamp_seconds timestamp_millis timestamp_micros".split()
)
"""Functions whose result for a TIMESTAMP is the same in every time zone of a session."""


def _in_any_zone(call: Call) -> bool:
    found = {call.type, *(e.type for e in call.args)}
    return not found & {TIMESTAMP, INTERVAL} or call.function in _IN_ANY_ZONE
