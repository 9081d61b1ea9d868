"""The goldens of ``fixtures/``: each query has its plan and its output, and the oracle's.

``pytest tests/test_fixtures.py --complete`` writes plans and outputs anew; read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pytest
from fixture_files import FOLDER, Fixture, read_file, write_file, write_table

from penstock import cql
from penstock.catalog import FunctionDef
from penstock.evaluation import _run, read_inputs
from penstock.plan import compile, explain
from penstock.schema import TimeDomain

FILES = sorted(FOLDER.glob("*.cql"))


def _lookup(address: pa.Array, prefix: pa.Array) -> list[bool]:
    """Whether each address begins with its prefix."""
    return [a.startswith(p) for a, p in zip(address.to_pylist(), prefix.to_pylist(), strict=True)]


def _match(data: pa.Array, sequence: pa.Array) -> list[bool]:
    """Whether each packet contains its sequence."""
    return [s in d for d, s in zip(data.to_pylist(), sequence.to_pylist(), strict=True)]


FUNCTIONS = {f.name: f for f in (
    FunctionDef("lookup", pa.bool_(), _lookup), FunctionDef("match", pa.bool_(), _match)
)}  # fmt: skip


def run(fixture: Fixture) -> tuple[str, str, list[Any]]:
    """The plan and the output of a case, as its file has them, and the changes."""
    finite = read_inputs(fixture.elements(), fixture.schemas(), TimeDomain())
    catalog = {**finite.catalog(), **{name: FUNCTIONS[name] for name in fixture.functions}}
    plan = compile(cql.bind(fixture.query, catalog))
    changes = _run(plan, finite, fixture.until, batches=2)
    return (
        explain(plan, costs=False),
        write_table(changes, plan.schema.names, plan.kind == "relation"),
        changes,
    )


CASES = [pytest.param(f, id=f"{path.stem}: {f.title}") for path in FILES for f in read_file(path)]


@pytest.mark.parametrize("fixture", CASES)
def test_golden(fixture: Fixture, complete: bool) -> None:
    plan, output, changes = run(fixture)
    if not fixture.functions:
        expected = oracle.evaluate(
            fixture.sql or fixture.query,
            fixture.elements(),
            fixture.schemas(),
            until=fixture.until,
            at_once=False,
        )
        oracle.assert_same(changes, expected, fixture.title)
    if not complete:
        assert (plan, output) == (fixture.plan, fixture.output)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_files_read_as_they_were_written(path: Path, complete: bool) -> None:
    fixtures = read_file(path)
    if complete:
        for fixture in fixtures:
            fixture.plan, fixture.output, _ = run(fixture)
        write_file(path, fixtures)
    assert "\n".join(map(str, read_file(path))) == path.read_text()
