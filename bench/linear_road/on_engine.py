"""The queries of ``examples/linear_road.cql`` as one pipeline in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from penstock import cql
from penstock.catalog import Catalog
from penstock.engine.stage import TS
from penstock.in_process import InProcessPipeline
from penstock.plan.logical import Query
from penstock.plan.pipeline import admit, plan_pipeline

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "linear_road.cql"
STREAM = "Road"


def queries_of(text: str) -> tuple[Catalog, dict[str, Query]]:
    """The definitions of a script, and the queries that it registers, bound."""
    catalog, found = Catalog(), {}
    for part in cql.split(text):
        for statement in cql.parse(part):
            match statement:
                case cql.CreateInput() | cql.CreateTable():
                    catalog.add(statement.definition(), statement.if_taken)
                case cql.CreateView():
                    catalog.add(cql.define_view(statement, catalog), statement.if_taken)
                case cql.RegisterQuery():
                    found[statement.name], _ = cql.bind_registration(statement, catalog)
    return catalog, found


class OnEngine:
    """``push`` rows in the benchmark's format; it returns the new results by query."""

    def __init__(self, history: pa.Table, partitions: int = 1, script: Path = SCRIPT) -> None:
        catalog, queries = queries_of(script.read_text())
        plan = plan_pipeline([catalog[STREAM]], queries, partitions)
        admitted = {name: admit(plan, name, query) for name, query in queries.items()}
        self.pipeline = InProcessPipeline(plan, admitted, {"History": history})
        self.plan, self.admitted = plan, admitted

    def push(self, rows: pa.RecordBatch) -> Mapping[str, list[pa.RecordBatch]]:
        """The results that these rows complete."""
        ts = rows.column("time").cast(pa.int64())
        schema = pa.schema([(TS, pa.int64()), *rows.schema])
        return self.pipeline.step({STREAM: pa.RecordBatch.from_arrays([ts, *rows.columns], schema=schema)})

    def end(self) -> Mapping[str, list[pa.RecordBatch]]:
        """The results of the last instant."""
        return self.pipeline.end()
