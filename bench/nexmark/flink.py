"""Flink as a peer: its SQL over the same rows as CSV files, in an environment of its own.

apache-flink needs other versions of pyarrow, pandas and py4j than PySpark and Penstock, so that it cannot be
in their environment; and of the formats that have columns its Python package has none.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from bench.nexmark.answers import BY_ARRIVAL, QUERIES, sections
from penstock.errors import PenstockError
from penstock.schema import TIMESTAMP
from penstock.workloads.nexmark import NexmarkWorkload

LOOKS_UP = "q13"
"""It needs a table of a connector that looks keys up, such as JDBC's."""
HOW = "make one (python -m venv flink; flink/bin/pip install apache-flink) and name its bin/python"
ABSENT = f"Flink is not measured: --flink is the Python of an environment with apache-flink; {HOW}"
RUNNER = Path(__file__).with_name("on_flink.py")


def queries(wanted: list[str]) -> dict[str, str]:
    """The queries in Flink SQL, of those that it can express over files."""
    known = sections("flink.sql")
    left_out = {BY_ARRIVAL, LOOKS_UP} | {q for q in QUERIES if known[q].startswith("--")}
    return {q: known[q] for q in wanted if q not in left_out}


def check(python: Path) -> None:
    """Raise an error if this Python has no Flink."""
    try:
        done = subprocess.run([python, "-c", "import pyflink"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PenstockError(f"--flink {python} cannot be run: {error.strerror}; {HOW}") from None
    if done.returncode:
        raise PenstockError(f"--flink {python} has no apache-flink; {HOW}")


def write(root: Path, workload: NexmarkWorkload, slices: int) -> None:
    """The rows of the streams as CSV files, a file per slice; times in milliseconds, as Flink takes them."""
    for number, tables in enumerate(workload.slices(slices)):
        for name, table in tables.items():
            (root / name).mkdir(parents=True, exist_ok=True)
            pc.write_csv(
                _in_millis(table), root / name / f"{number:06}.csv", pc.WriteOptions(include_header=False)
            )


def _in_millis(table: pa.Table) -> pa.Table:
    schema = pa.schema(
        [pa.field(f.name, pa.timestamp("ms") if f.type == TIMESTAMP else f.type) for f in table.schema]
    )
    return table.cast(schema, safe=False)


def run(python: Path, root: Path, wanted: list[str], events: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Run queries over the files below ``root``, which have so many events; what each took."""
    command = [str(python), str(RUNNER), str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(queries(wanted)))
        process.stdin.close()
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            found = json.loads(line)
            if "error" in found:
                raise PenstockError(f"{found['query']} on Flink: {found['error']}")
            yield (
                found["query"],
                {
                    "events_per_second": round(events / found["seconds"]),
                    "cpu_per_million": round(found["cpu_s"] / events * 1e6, 2),
                },
            )
    if process.returncode:
        raise PenstockError("Flink ended with an error: see above")
