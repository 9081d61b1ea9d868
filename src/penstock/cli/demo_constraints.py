"""``penstock demo --constraints``: the query of thesis section 6.1.1 with constraints and without them.

The packets of three links are written to files first. Then the query reads them twice through Spark: once
with ``penstock.constraints`` off, once with what is declared. Both must return the same.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.demo import QUERY
from penstock.cli.output import Terminal
from penstock.cli.session import local_session
from penstock.cli.settings import DEMO_SLICE_ROWS, DEMO_TIMES_LESS
from penstock.measurement import Kind, Property
from penstock.workloads.files import write_slices
from penstock.workloads.hops import DDL, Hops

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONSTRAINTS = {
    "C": "PRIMARY KEY (pid) REFERENCES B (pid) WITHIN 1 SECOND",
    "B": "PRIMARY KEY (pid) REFERENCES C (pid) REFERENCES O (pid) WITHIN 1 SECOND",
    "O": "PRIMARY KEY (pid) REFERENCES B (pid)",
}


@dataclass
class Outcome:
    """What a run of the query showed: its changes, the most state after a batch, the seconds that it and its
    operators took.
    """

    changes: list[tuple[Any, ...]] = field(default_factory=list)
    rows: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    working: float = 0.0


def run_constraints_demo(seconds: int) -> bool:
    """Run the demo over so many seconds of packets; whether both runs returned the same."""
    console = Terminal(highlight=False)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as directory:
        root, hops = Path(directory), Hops()
        count = max(seconds // hops.slice_seconds, 2)
        write_slices(root, hops.slices(count))
        console.print(f"{QUERY}\n\n{count * hops.slice_seconds} seconds of packets", style="dim")
        with local_session() as session:
            for name, clauses in CONSTRAINTS.items():
                session.sql(
                    f"CREATE STREAM {name} ({DDL}) TIMESTAMP BY ts {clauses} "
                    f"FROM PARQUET '{root / name}' OPTIONS (maxFilesPerTrigger 1)"
                )
            session.sql(f"SET penstock.slice_rows = {DEMO_SLICE_ROWS}")
            found = {how: _run(session, how, root) for how in ("off", "declared")}
    return _tell(console, found)


def _run(session: Any, how: str, root: Path) -> Outcome:
    session.sql(f"SET penstock.constraints = '{how}'")
    outcome = Outcome()

    def take(batch: DataFrame, _: int) -> None:
        outcome.changes += [tuple(row) for row in batch.collect()]
        engines = session.metrics().of_kind(Kind.ENGINE)
        outcome.rows = max(outcome.rows, engines.total(Property.ROWS))
        outcome.bytes = max(outcome.bytes, engines.total(Property.BYTES))
        outcome.working = session.metrics().of_kind(Kind.OPERATOR).total(Property.SECONDS)

    writer = session.sql(QUERY).writeStream.foreachBatch(take)
    began = time.monotonic()
    query = writer.option("checkpointLocation", str(root / how)).trigger(availableNow=True).start()
    query.awaitTermination()
    outcome.seconds = time.monotonic() - began
    return outcome


def _tell(console: Console, found: dict[str, Outcome]) -> bool:
    for how, outcome in found.items():
        state = f"{outcome.rows:,.0f} rows and {outcome.bytes / 1e6:,.2f} MB of state at most after a batch"
        took = f"{outcome.seconds:.1f} s, of which the operators {outcome.working:.2f} s"
        console.print(f"constraints {how:8}: {state}; {took}")
    without, by = found["off"], found["declared"]
    same = sorted(map(str, without.changes)) == sorted(map(str, by.changes))
    rows, size = without.rows / max(by.rows, 1.0), without.bytes / max(by.bytes, 1.0)
    console.print(
        f"{rows:,.0f} times fewer rows, {size:,.0f} times fewer bytes; {len(by.changes):,} changes of the "
        f"result, {'the same' if same else 'NOT the same'} in both runs"
    )
    reached = {
        f"{DEMO_TIMES_LESS} times fewer rows": rows >= DEMO_TIMES_LESS,
        "and bytes": size >= DEMO_TIMES_LESS,
        "the same result": same,
        "no slower operators": by.working <= without.working,
    }
    verdicts = ", ".join(f"{what}: {'yes' if ok else 'NO'}" for what, ok in reached.items())
    console.print(f"what section 6.1.1 lets one expect: {verdicts}")
    return same
