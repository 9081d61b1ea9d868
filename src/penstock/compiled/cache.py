"""Compiled kernels on disk, found by the content of their source.

Numba's own cache lies beside the source, so every new checkout compiles everything anew; it does not see a
change of a module whose kernels are called; and two processes that compile one kernel for different types at
once may both write to one file. Here every compiled function has a file of its own, whose name is a digest of
all that its code depends on: nothing is ever out of date, and what two processes write to one name is
the same.

What this uses of Numba beside its public names is here: ``dispatcher._cache`` with the methods of
``numba.core.caching.NullCache``, and ``CompileResult._reduce`` and ``_rebuild``. ``tests/test_compiled.py``
fails if a version of Numba has others.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pickle
import secrets
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from penstock.compiled.places import cache_directory, prune
from penstock.compiled.settings import CHECK_SHARE

_SUFFIX = ".kernel"
_DIGEST = hashlib.sha256().digest_size


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """As Numba's ``njit``, cached by content."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if dispatcher is not function:  # as it is with NUMBA_DISABLE_JIT
            dispatcher._cache = KernelCache(function)
            if function.__module__ not in _imported:
                _imported[function.__module__] = _source(function.__module__)
        return dispatcher

    return compiled if function is None else compiled(function)


class KernelCache(NullCache):
    """The files of one kernel, one for each combination of types and each kind of machine."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str | None:
        directory = cache_directory()
        return None if directory is None else str(directory)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        path = self.path(sig, target_context.codegen())
        if path is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(_read(path)))
        except FileNotFoundError:
            return None
        except Exception:  # whatever a damaged file leads to: it is compiled again and written over
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        path = self.path(sig, data.codegen)
        if path is None or data.library.has_dynamic_globals or any(not x.can_cache for x in data.lifted):
            return
        with contextlib.suppress(OSError):  # a full disk: the kernel is compiled in every process
            _write(path, dumps(data._reduce()))

    def path(self, sig: Any, codegen: Any) -> Path | None:
        """The file of the kernel for some types of arguments; None if it cannot be kept."""
        directory = cache_directory()
        source = None if directory is None else fingerprint(self._function.__module__)
        if directory is None or source is None:
            return None
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        key = repr((source, name, sig, codegen.magic_tuple()))
        return directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
        raise ValueError(f"{path} is damaged")
    os.utime(path)  # used now: what was not used for longest is removed first
    return content[_DIGEST:]


def _write(path: Path, data: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    part = path.with_suffix(f".{secrets.token_hex(8)}")  # machines may share a home
    try:
        part.write_bytes(hashlib.sha256(data).digest() + data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if zlib.crc32(path.name.encode()) % CHECK_SHARE == 0:
        prune(path.parent)


@cache
def fingerprint(module: str) -> str | None:
    """A digest of all that the code of a module's kernels depends on; None if the source cannot be read.

    That is the module's source, constants that it imports, and the modules of functions and classes it uses.
    """
    digest = hashlib.sha256(repr(_VERSIONS).encode())
    for name in sorted(_used(module, set())):
        source = _imported[name] if name in _imported else _source(name)
        if source is None:
            return None
        digest.update(f"{name}\n{source}\n".encode() + _constants(vars(sys.modules[name])))
    return digest.hexdigest()


_imported: dict[str, str | None] = {}
"""The source of each module of kernels when it was imported: files may change while a program runs."""
_VERSIONS = sys.version, numba.__version__, llvmlite.__version__, np.__version__


def _used(module: str, found: set[str]) -> set[str]:
    """The module, and those of its project that its names come from, and those that theirs come from."""
    found.add(module)
    project = module.partition(".")[0], __name__.partition(".")[0]
    for name, value in list(vars(sys.modules[module]).items()):
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if name.startswith("__") or not isinstance(home, str) or home in found or home not in sys.modules:
            continue
        if home.partition(".")[0] in project and not home.startswith(__package__):
            _used(home, found)
    return found


def _constants(names: dict[str, Any]) -> bytes:
    """The values that a kernel may have compiled in: those that are imported have no module to look into."""
    plain = bool | int | float | str | bytes | tuple | np.generic
    found = {n: repr(v) for n, v in names.items() if isinstance(v, plain) and not n.startswith("__")}
    found |= {n: repr((v.dtype, v.tolist())) for n, v in names.items() if isinstance(v, np.ndarray)}
    return repr(sorted(found.items())).encode()


def _source(module: str) -> str | None:
    """The source of a module, also of one in an archive."""
    spec = sys.modules[module].__spec__ or importlib.util.find_spec(module)
    get_source = getattr(spec and spec.loader, "get_source", None)
    try:
        return get_source(spec.name) if get_source and spec else None
    except (OSError, ImportError):
        return None
