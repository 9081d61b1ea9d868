"""Writes ``src/penstock/compiled/signatures.txt`` anew: what kernels are called with that compiles.

Runs the test of all kernels; what other tests call them with is taken from the file if it still compiles.
"""

from __future__ import annotations

import importlib

import pytest
from numba.core.registry import CPUDispatcher
from test_kernels import MODULES

from penstock.compiled import signatures
from penstock.compiled.warm import failed, warm


def compiled() -> set[str]:
    """The lines of what this process has compiled or loaded."""
    found = set()
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, CPUDispatcher) and value.__module__ == name:
                found |= {line for types in value.overloads if (line := signatures.line(value, types))}
    return found


if __name__ == "__main__":
    pytest.main(["tests/test_kernels.py", "-p", "no:cacheprovider", "-W", "ignore"])
    warm()
    kept = (set(signatures.lines()) | compiled()) - set(failed())
    signatures.FILE.write_text("".join(f"{line}\n" for line in sorted(kept)))
    print(len(kept), "signatures")
