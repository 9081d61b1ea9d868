"""``docs/python_api.md`` has every public name, with its signature in the code and an example that runs.

``PENSTOCK_REWRITE=1`` writes the signatures anew. An example is a ``pycon`` block; one marked ``pycon spark``
needs Spark, and these run one after another in one session.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.measurement import Measurement, Measurements
from penstock.spark.driver.definitions import Definitions
from penstock.spark.driver.pipeline import Pipeline, PipelineQuery
from penstock.spark.driver.query import Query
from penstock.spark.driver.query_frame import QueryFrame
from penstock.spark.driver.session import Session
from penstock.streamon.advice import Skew

SOURCE = Path(penstock.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "python_api.md"
ENTRY = re.compile(r"^### (\S+)\n\n```\n(.*?)```\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```pycon( spark)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WIDTH = 100


def public() -> dict[str, str]:
    """What the page must have, by name: the members of a record or of a list of them are one entry."""
    found = {f"penstock.{name}": written(name, getattr(penstock, name)) for name in penstock.__all__}
    for owner in (Session, QueryFrame, Query):
        found |= {f"{owner.__name__}.{name}": written(name, member) for name, member in members(owner)}
    records = (Measurements, Measurement, Skew, Pipeline, PipelineQuery)
    return found | {kind.__name__: record(kind) for kind in records}


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, without those of other libraries' that it extends."""
    own = [c for c in reversed(owner.__mro__) if c.__module__.startswith("penstock")]
    for name, member in {n: m for c in own for n, m in vars(c).items()}.items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def record(kind: type) -> str:
    """The fields of a class, then its methods and properties with the first lines of their docstrings."""
    fields = [f"{name}: {hint_text(hint)}" for name, hint in vars(kind).get("__annotations__", {}).items()]
    methods = [
        f"{written(name, member)}\n    {(member.__doc__ or '').splitlines()[0]}"
        for name, member in members(kind)
    ]
    return "\n".join([*fields, *methods])


def written(name: str, what: Any) -> str:
    """The signature of a function, a property or an error, as its source has it."""
    if inspect.isclass(what):
        (base,) = what.__bases__
        return f"class {name}({base.__name__})"
    if isinstance(what, property):
        return f"{name}: {hint_text(inspect.signature(what.fget).return_annotation)}"
    signature = inspect.signature(what)
    parts = [parameter(p) for p in signature.parameters.values() if p.name != "self"]
    returns = f" -> {hint_text(signature.return_annotation)}"
    line = f"{name}({', '.join(parts)}){returns}"
    return (
        line if len(line) <= WIDTH else "\n".join([f"{name}(", *(f"    {p}," for p in parts), f"){returns}"])
    )


def parameter(given: inspect.Parameter) -> str:
    assert given.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, f"write {given} as Python does"
    default = "" if given.default is inspect.Parameter.empty else f" = {given.default!r}"
    return f"{given.name}: {hint_text(given.annotation)}{default}"


def hint_text(hint: Any) -> str:
    """An annotation, which is the text of the source; a named tuple makes references of it."""
    return hint if isinstance(hint, str) else str(getattr(hint, "__forward_arg__", hint))


def rewritten(page: str) -> str:
    names = public()
    return ENTRY.sub(
        lambda m: m[0].replace(f"```\n{m[2]}```", f"```\n{names.get(m[1], m[2].rstrip())}\n```", 1), page
    )


def test_every_public_name_is_there_with_its_signature() -> None:
    if "PENSTOCK_REWRITE" in os.environ:
        PAGE.write_text(rewritten(PAGE.read_text()))
    shown = {name: signature.rstrip("\n") for name, signature, _ in ENTRY.findall(PAGE.read_text())}
    assert shown == public(), (
        "add the entry to docs/python_api.md, or run PENSTOCK_REWRITE=1 pytest tests/docs"
    )


def test_the_attributes_of_a_session_are_there() -> None:
    attributes = re.findall(
        r"self\.([a-z]\w*) = ", "".join(inspect.getsource(c.__init__) for c in (Definitions, Session))
    )
    assert attributes
    for name in attributes:
        assert f"`ps.{name}`" in PAGE.read_text(), f"python_api.md lacks ps.{name}"


@pytest.mark.parametrize(("name", "text"), [(m[1], m[3]) for m in ENTRY.finditer(PAGE.read_text())])
def test_every_entry_has_a_sentence_and_an_example(name: str, text: str) -> None:
    assert re.match(r"\n[A-Z].*?\.(\n|\s)", text, re.DOTALL)
    examples = EXAMPLE.findall(text)
    assert examples
    for _, example in examples:
        for statement in doctest.DocTestParser().get_examples(example):
            ast.parse(statement.source)


def run(examples: list[str], **given: Any) -> None:
    """Run examples in order, each with the names that those before it have made."""
    test = doctest.DocTestParser().get_doctest("\n\n".join(examples), given, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append).failed
    assert not failed, "".join(report)


EXAMPLES = sorted(p for p in SOURCE.rglob("*.py") if ">>>" in p.read_text())
SPARK = ("spark/driver/session.py", "spark/driver/pipeline.py")
"""Modules whose docstrings use a session, in the order in which they are run."""


def in_docstrings(path: Path) -> doctest.TestResults:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return doctest.testmod(import_module(".".join(parts)), optionflags=FLAGS)


@pytest.mark.parametrize("path", [str(p.relative_to(SOURCE)) for p in EXAMPLES])
def test_examples_in_docstrings(path: str) -> None:
    if path not in SPARK:
        assert in_docstrings(SOURCE / path).failed == 0


def test_what_help_shows_of_a_public_function_or_class_has_an_example() -> None:
    for what in (penstock.connect, penstock.evaluate, Session, Pipeline):
        assert ">>>" in (what.__doc__ or ""), what


def test_examples_without_spark() -> None:
    run([text for needs_spark, text in EXAMPLE.findall(PAGE.read_text()) if not needs_spark])


@pytest.mark.spark
def test_examples_with_spark(spark: Any, tmp_path: Path) -> None:
    examples = [text for needs_spark, text in EXAMPLE.findall(PAGE.read_text()) if needs_spark]
    docstrings = [d for what in (penstock.connect, Session, Pipeline) if (d := inspect.getdoc(what))]
    try:
        run(docstrings, spark=spark, folder=str(tmp_path), connect=penstock.connect)
        run(examples, spark=spark, folder=str(tmp_path))
    finally:
        for query in spark.streams.active:
            query.stop()
