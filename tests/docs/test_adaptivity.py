"""What docs/adaptivity.md shows of explain is what explain says, and what may be set is listed."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import MagicMock, create_autospec

from penstock.cli.script import bound_queries
from penstock.plan import compile
from penstock.plan.explain import explain
from penstock.plan.explain_running import __doc__ as shown_running
from penstock.settings import CHOICES
from penstock.spark.driver.session import Session
from penstock.streamon.orderings import ALGORITHMS

TEXT = (Path(__file__).parent.parent.parent / "docs" / "adaptivity.md").read_text()


def test_the_plan_is_the_one_that_explain_prints() -> None:
    query, plan = re.search(r"```cql\n(.*?)```\n\n```\n(.*?)```", TEXT, re.DOTALL).groups()
    (bound,) = bound_queries(query)
    assert explain(compile(bound.query, 2, bound.settings), costs=False) == plan.rstrip("\n")


def test_every_algorithm_is_listed() -> None:
    section = TEXT.partition("## How to set it")[2]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(ALGORITHMS)


def test_every_plan_of_joins_is_listed() -> None:
    section = TEXT.partition("## Trees of joins")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(CHOICES["join"])


def test_every_algorithm_of_w_joins_is_listed() -> None:
    section = TEXT.partition("## The algorithm of a W-join")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(CHOICES["w_join"])


def test_the_running_plan_is_the_one_that_its_module_shows() -> None:
    (shown,) = re.findall(r"```\n(stage 1, partition 0.*?)```", TEXT, re.DOTALL)
    assert shown.rstrip("\n") in (shown_running or "")


def test_its_program_calls_what_a_session_has() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    session = create_autospec(Session, instance=True)
    exec(block, {"df": MagicMock(), "ps": session})
    session.explain.assert_called_once()
