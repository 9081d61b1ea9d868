"""The queries of ``examples/linear_road.cql`` as one pipeline in this process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.cli.script import bound_queries
from penstock.engine.stage import TS
from penstock.in_process import InProcessPipeline
from penstock.plan.admission import admit
from penstock.plan.pipeline import plan_pipeline

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "linear_road.cql"
STREAM = "Road"


class OnEngine:
    """``push`` rows in the benchmark's format; it returns the new results by query."""

    def __init__(self, history: pa.Table, partitions: int = 1, script: Path = SCRIPT) -> None:
        catalog = Catalog()
        queries = {q.name: q.query for q in bound_queries(script.read_text(), catalog) if q.name}
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
