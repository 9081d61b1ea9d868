"""A join under constraints, run row by row, whose stores can be looked into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.catalog import Catalog, Input, InputOptions
from penstock.cql import constraints_of, schema_of
from penstock.engine.joins.operator import JoinOperator
from penstock.engine.stage import TS
from penstock.evaluation import changes, plan_of
from penstock.in_process import InProcessRun
from penstock.schema import TimeDomain

SECONDS = TimeDomain("integer", "seconds")


class Run:
    """A query over streams of integers; rows come one by one, each a tick after the one before."""

    def __init__(self, cql: str, schemas: Mapping[str, str], constraints: Mapping[str, str]) -> None:
        self.schemas = {name: schema_of(columns) for name, columns in schemas.items()}
        catalog = Catalog()
        for name, schema in self.schemas.items():
            obeyed = constraints_of(constraints.get(name, ""), name, schema, SECONDS, "stream")
            catalog.add(Input(name, schema, InputOptions(SECONDS, constraints=obeyed)))
        self.plan = plan_of(cql, catalog, [], 1)
        self._run, self.now = InProcessRun(self.plan, {}), 0

    def put(self, stream: str, *row: int | None) -> list[tuple[Any, ...]]:
        """One row of a stream; returns the values of the results that enter."""
        return self.put_many(stream, row)

    def put_many(self, stream: str, *rows: tuple[int | None, ...]) -> list[tuple[Any, ...]]:
        """Rows of a stream, a tick each, in one step."""
        schema, times = self.schemas[stream], range(self.now + 1, self.now + 1 + len(rows))
        self.now += len(rows)
        columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
        batch = pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), *columns], [TS, *schema.names])
        parts = [*self._run.step({stream: batch}), *self._run.end(self.now)]
        found = [c for part in parts for c in changes(part, self.plan.schema.names)]
        return [tuple(values.values()) for _, sign, values in found if sign == "+"]

    @property
    def join(self) -> JoinOperator:
        """The running join."""
        engines = [e for stage in self._run.engines for e in stage]
        operators = [e.operator for engine in engines for e in engine.entities]
        return next(o for o in operators if isinstance(o, JoinOperator))

    def kept(self, label: str, *columns: str) -> set[tuple[int, ...]]:
        """The rows that the join has of an input, by columns that it stores or joins."""
        inputs, number = self.join._inputs, self.join._node.labels.index(label)
        stub = inputs.stubs[number]
        rows = stub.store.alive(self.now - stub.longer)
        by_name = {inputs.column[c][number]: c for c in inputs.classes_of[number]}
        values = [
            inputs.key(number, by_name[f"{label}.{c}"], rows)[0].tolist()
            if f"{label}.{c}" in by_name
            else stub.gather(f"{label}.{c}", rows).to_pylist()
            for c in columns
        ]
        return set(zip(*values, strict=True))

    def no(self, label: str) -> set[tuple[int, ...]]:
        """The keys of an input's No component."""
        no = self.join.retention._no[self.join._node.labels.index(label)]
        return set(map(tuple, no.keys.tolist())) if no.is_kept else set()
