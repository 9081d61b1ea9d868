"""What may import what: most of Penstock runs without Spark, and stays so."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "penstock"
WITHOUT_SPARK = [
    "catalog.py",
    "cost",
    "cql",
    "engine",
    "errors.py",
    "expression.py",
    "plan",
    "schema.py",
    "workloads",
]


def imports(path):
    """Every module that a file names in an import, also those within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)


@pytest.mark.parametrize("part", WITHOUT_SPARK)
def test_needs_no_spark(part):
    root = PACKAGE / part
    files = [root] if root.is_file() else list(root.rglob("*.py"))
    assert files
    for path in files:
        wrong = [m for m in imports(path) if m.split(".")[0] == "pyspark" or m.startswith("penstock.spark")]
        assert not wrong, f"{path} imports {wrong}"


@pytest.mark.parametrize(
    ("part", "not_these"),
    [
        ("engine", ["cql", "plan", "catalog"]),
        ("approx", ["cql", "plan", "catalog"]),
        ("cost", ["cql", "plan", "catalog", "streamon", "approx"]),
        ("streamon", ["cql", "plan", "catalog"]),
        ("plan", ["cql"]),
        ("cql", ["engine"]),
        ("workloads", ["engine"]),
    ],
)
def test_layers(part, not_these):
    for path in (PACKAGE / part).rglob("*.py"):
        wrong = [m for m in imports(path) for n in not_these if m.startswith(f"penstock.{n}")]
        assert not wrong, f"{path} imports {wrong}"
