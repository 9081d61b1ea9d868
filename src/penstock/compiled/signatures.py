"""The types of arguments that kernels are compiled for, as text.

``signatures.txt`` has a line for each, so that all can be compiled before a query needs them. For other types
a kernel is compiled when it is called. ``python tests/kernel_signatures.py`` adds what the file lacks.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numba import types

FILE = Path(__file__).with_name("signatures.txt")

_ARRAY = re.compile(r"(readonly )?array\((\w+), (\d)d, ([ACF])\)")
_TUPLE = re.compile(r"(\w+)\((.*) x (\d+)\)")


def lines() -> list[str]:
    """All lines of ``signatures.txt``."""
    return FILE.read_text().splitlines()


def kernel(line: str) -> tuple[Any, tuple[Any, ...]]:
    """The kernel of a line, such as ``penstock.x.f: int64; array(int64, 1d, C)``, and the types."""
    path, _, arguments = line.partition(": ")
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    return found, tuple(_type(text, found) for text in arguments.split("; ") if text)


def line(function: Any, arguments: Sequence[Any]) -> str | None:
    """The line of a kernel; None if a type is only met where a kernel calls another, with a constant."""
    if any(isinstance(argument, types.Literal) for argument in arguments):
        return None
    return f"{function.__module__}.{function.__qualname__}: " + "; ".join(map(str, arguments))


def _type(text: str, function: Any) -> Any:
    if array := _ARRAY.fullmatch(text):
        readonly, item, dimensions = array.groups()[:3]
        layout: Any = array[4]
        return types.Array(getattr(types, item), int(dimensions), layout, readonly=bool(readonly))
    if several := _TUPLE.fullmatch(text):
        name, item, count = several.groups()
        if name == "UniTuple":
            return types.UniTuple(_type(item, function), int(count))
        return types.NamedUniTuple(_type(item, function), int(count), function.py_func.__globals__[name])
    return getattr(types, {"bool": "boolean"}.get(text, text))
