"""What may import what: the code agrees with the table of packages in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
FOLDERS = ("spark",)
"""Packages whose folders the table has one by one."""


def table() -> dict[str, set[str]]:
    """The packages and modules of the table, and what each may import."""
    section = (
        (ROOT / "docs" / "architecture.md").read_text().partition("## Packages")[2].partition("\n## ")[0]
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    found = {}
    for names, *_, imports in rows:
        for name in re.findall(r"`([\w.]+)`", names):
            found[name] = set(re.findall(r"`([\w.]+)`", imports))
    shared = set(re.findall(r"`([\w.]+)`", rows[0][0]))
    return {name: imports | shared for name, imports in found.items()}


TABLE = table()


def unit(module: str) -> str | None:
    """The row of the table that a module belongs to; None for what is no module of Penstock."""
    root, *parts = module.split(".")
    name = ".".join(parts[: 2 if parts[0] in FOLDERS else 1]) if parts else ""
    return name if root == "penstock" and name and any(path.exists() for path in files(name)) else None


def imports(path: Path) -> list[str]:
    """Every module that a file names in an import, also those within functions."""
    return imported(path.read_text())


@cache
def imported(text: str) -> list[str]:
    """As ``imports``, of a text."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return found


def files(name: str) -> list[Path]:
    path = PACKAGE / name.replace(".", "/")
    return list(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def test_the_table_has_every_package() -> None:
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    for folder in FOLDERS:
        there.remove(folder)
        below = (p for p in (PACKAGE / folder).iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())
        there |= {f"{folder}.{p.stem}" for p in below if p.stem != "__init__"}
    assert set(TABLE) == there - {"__init__"}


@pytest.mark.parametrize("name", TABLE)
def test_a_package_imports_what_the_table_says(name: str) -> None:
    for path in files(name):
        used = {u for m in imports(path) if (u := unit(m)) is not None} - {name, *FOLDERS}
        assert used <= TABLE[name], f"{path} imports {sorted(used - TABLE[name])}"


@pytest.mark.parametrize("name", [n for n in TABLE if not n.startswith(("spark", "cli"))])
def test_needs_no_spark(name: str) -> None:
    for path in files(name):
        assert not [m for m in imports(path) if m.split(".")[0] == "pyspark"], path


def test_the_engine_does_not_pickle():
    """Snapshots and headers are data that outlive a version; what is unpickled is code that does not."""
    found = {p.name for p in (PACKAGE / "engine").rglob("*.py") if "pickle" in imports(p)}
    assert found == {"registry.py"}  # the plans of registered queries, which come as a stage does


def test_names_of_test_files_differ() -> None:
    """Pytest imports test files by their names alone: of two with one name it collects neither."""
    names = Counter(p.name for p in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def private_imports(path: Path, module: str) -> list[str]:
    """Imports of a module (a file's own name is given) that name something private of another folder."""
    folder = module.rpartition(".")[0]
    found = [m for m in imports(path) if m.startswith("penstock.")]
    private = [m for m in found if re.search(r"\._[a-z]", m, re.IGNORECASE)]
    return [m for m in private if not m.partition("._")[0].startswith(folder)]


def test_what_is_private_stays_in_its_folder(tmp_path: Path) -> None:
    """Modules and names that begin with an underscore are imported by files beside them alone."""
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        assert not private_imports(path, module), path
    file = tmp_path / "f.py"
    for line in ("import penstock.engine._rows", "from penstock.engine.joins.k_mon import _Rows"):
        file.write_text(line)
        assert private_imports(file, "penstock.plan.build")
    assert not private_imports(file, "penstock.engine.joins.safe")
