"""What the documents point at is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "src" / "penstock"
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_headings_that_are_linked_to(document):
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", document.read_text()):
        assert anchor in anchors(document.parent / target if target else document), f"there is no #{anchor}"


def anchors(document: Path) -> set[str]:
    """What GitHub calls the headings of a document."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_files_named_in_the_text(document):
    """A path such as ``plan/build.py`` is one below ``src/penstock``, ``tests/...`` one from the root."""
    for name in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.(?:py|txt|md))?/?)`", document.read_text()):
        assert (SOURCES / name).exists() or (ROOT / name).exists(), f"{document.name} names {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_classes_named_in_the_text(document):
    """Such as ``Store``, ``Clock.share`` or ``catalog.Input``."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for name in re.findall(r"`(?:[a-z_./]+[./])?([A-Z][a-z]\w*(?:\.\w+)?)`", text):
        assert name in all_names(), f"{document.name} names {name}"


@cache
def names_in(file: Path) -> set[str]:
    """What a file defines: ``f``, ``Class``, ``Class.member``, and members alone."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef):
            members = {name for statement in node.body for name in defined(statement)}
            found |= {node.name, *members, *(f"{node.name}.{m}" for m in members)}
        found.update(defined(node))
    return found


def defined(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [t.id for t in targets if isinstance(t, ast.Name)]
    return []


@cache
def all_names() -> set[str]:
    return set().union(*(names_in(file) for file in SOURCES.rglob("*.py")))


def test_make_targets():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for document in DOCUMENTS:
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE):
            assert target in targets, f"{document.name} says make {target}"


def test_the_code_shown_for_a_new_operator_is_that_of_the_files():
    """Docstrings and lines may be left out, none may differ."""
    text = (ROOT / "docs" / "adding_an_operator.md").read_text()
    files = [*SOURCES.rglob("*.py"), ROOT / "tests" / "engine" / "test_laws.py"]
    there = {line.strip() for file in files for line in file.read_text().splitlines()}
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for line in filter(None, map(str.strip, block.splitlines())):
            assert line.removesuffix(" ...") in there, f"adding_an_operator.md shows {line!r}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_tests_named_in_the_text(document):
    named = re.findall(r"`(test_\w+)`", document.read_text())
    known = named and "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    for name in named:
        assert f"def {name}(" in known, f"{document.name} names {name}"


RUN_BY = {
    "README.md": "tests/test_examples.py",
    "adaptivity.md": "tests/docs/test_adaptivity.py",
    "cql.md": "tests/docs/reference.py",
    "nexmark.md": "bench/nexmark/document.py",
    "operations.md": "tests/spark/test_changelog_recipe.py",
    "pipelines.md": "tests/docs/test_pipelines_page.py",
    "python_api.md": "tests/docs/test_python_api.py",
}
"""Who runs the programs of a page, or writes them from what runs."""


def test_programs_are_run():
    """A program that nothing runs is soon wrong: give a page with a new one a test, and add it above."""
    with_programs = {d.name for d in DOCUMENTS if re.search(r"^```py", d.read_text(), re.MULTILINE)}
    assert with_programs == set(RUN_BY)
    for page, program in RUN_BY.items():
        assert Path(page).stem in (ROOT / program).read_text(), f"{program} does not read {page}"
