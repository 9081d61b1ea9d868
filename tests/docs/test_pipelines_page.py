"""The programs of docs/pipelines.md on two partitions: each query finds the rows that it needs."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from penstock import cql
from penstock.catalog import Input, SinkDef
from penstock.plan.admission import Admitted, admit
from penstock.plan.pipeline import PipelinePlan, plan_pipeline
from penstock.settings import Settings
from penstock.spark.driver.registrations import splits

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ROW = pa.schema([("pid", pa.int64()), ("link", pa.int32()), ("size", pa.int32()), ("ts", pa.timestamp("us"))])
OPTIONS = cql.input_options("stream", "C", ROW, timestamp="ts")
CATALOG: dict[str, Any] = {name: Input(name, ROW, OPTIONS) for name in "CBO"}


class Planned:
    """A pipeline that plans its queries, and answers anything else."""

    def __getattr__(self, name: str) -> Any:
        return MagicMock()

    def __getitem__(self, name: str) -> Any:
        return MagicMock()

    def begin(self, streams: list[str], split: Any = None, stages: int | None = None, **_: Any) -> Planned:
        self.inputs, self.waiting, self.plan = [CATALOG[s] for s in streams], {}, None
        self.how, self.admitted = (splits(split), stages), dict[str, Admitted]()
        return self

    def planned(self) -> PipelinePlan:
        split, stages = self.how
        return plan_pipeline(self.inputs, self.waiting, 2, split, Settings(), False, stages, {})

    def register(self, name: str, text: str, sink: Any = None, history: bool = False) -> None:
        query = cql.bind(text, CATALOG)
        if self.plan is None:
            self.waiting[name] = query
        self.admitted[name] = admit(self.plan or self.planned(), name, query, Settings(), history)

    def start(self) -> None:
        self.plan = self.planned()


def test_every_query_is_admitted() -> None:
    pipeline, found = Planned(), dict[str, Admitted]()
    for block in BLOCKS:
        ps = SimpleNamespace(pipeline=lambda name, checkpoint, **how: pipeline.begin(**how))
        scope = {"ps": ps, "pipeline": pipeline, "Path": MagicMock()}
        exec(block, scope)
        found |= pipeline.admitted
    assert set(found) == {"by_link", "alerts", "sizes"} and len(BLOCKS) == 3


def test_the_statements_are_planned() -> None:
    (block,) = re.findall(r"^```cql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    catalog = {**CATALOG, "alerts": SinkDef("alerts", "parquet", "out")}
    statements = cql.parse(block)
    (made,) = (s for s in statements if isinstance(s, cql.CreatePipeline))
    cql.check_pipeline(made, catalog)
    queries = {s.name: s for s in statements if isinstance(s, cql.RegisterQuery)}
    assert set(queries) == {"by_link", "large"}
    bound = {name: cql.bind_registration(statement, catalog)[0] for name, statement in queries.items()}
    how = (2, splits(made.split), Settings(), False, made.stages, made.columns or {})
    plan = plan_pipeline([CATALOG["C"]], bound, *how)
    for name, query in bound.items():
        admit(plan, name, query, Settings())


def test_the_example_before_it_was_mended_is_refused() -> None:
    pipeline = Planned().begin(["C"], split={"C": "link"}, stages=1)
    pipeline.start()
    with pytest.raises(Exception, match="sizes"):
        pipeline.register("sizes", "SELECT ISTREAM(AVG(size) AS a) FROM C [RANGE 10 SECONDS]")
