"""How long a session takes to start, and the first batch of each of its queries.

python -m bench.peers.start [--sessions 3] [--json]

Each session is a process of its own with a JVM of its own, and starts the queries below one after another, of
which the earlier ones go on. Sessions begin with another query in turn, so that each place has all of them.
Kernels are compiled before, in a session that does not count. Two times of a first batch are told: from
``start()`` until its results are out, and Spark's own of the batch alone. The CPU time is that of all
processes from ``start()`` on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers.processes import cpu_seconds, mark

QUERIES = (
    "SELECT SUM(A.v) AS total FROM A [RANGE 10 MINUTES], B [RANGE 10 MINUTES], C [RANGE 10 MINUTES] "
    "WHERE A.k = B.k AND B.k = C.k",
    "SELECT A.k, B.v FROM A [RANGE 5 MINUTES], B [RANGE 5 MINUTES] WHERE A.k = B.k",
    "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM C [RANGE 5 MINUTES] GROUP BY k",
)
PLACES = ("first", "second", "third")
POLL_S = 0.01
LIMIT_S = 120.0


def session(begin: int, rows: int) -> dict[str, list[float]]:
    """One session in this process; ``begin``: the number of its first query."""
    mark()
    began = time.monotonic()
    import penstock

    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        ps = penstock.connect()
        spent = time.monotonic() - began
        for name in "ABC":
            _write(Path(folder) / name, rows)
            ps.sql(
                f"CREATE STREAM {name} (k BIGINT, v INT, ts TIMESTAMP) TIMESTAMP BY ts "
                f"FROM PARQUET '{folder}/{name}'"
            )
        order = [QUERIES[(begin + n) % len(QUERIES)] for n in range(len(QUERIES))]
        found = [_first_batch(ps, cql, f"q{n}") for n, cql in enumerate(order)]
        ps.spark.stop()
    return {"session": [spent], **dict(zip(PLACES, found, strict=True))}


def _write(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    number = np.arange(rows)
    ts = pa.array(number * 1_000, pa.timestamp("us"))
    keys, values = pa.array(number), pa.array(number.astype(np.int32))
    pq.write_table(pa.table({"k": keys, "v": values, "ts": ts}), folder / "0.parquet")


def _first_batch(ps: Any, cql: str, name: str) -> list[float]:
    """Seconds until the results of its first batch are out, of that batch, and of CPU."""
    spent, began = cpu_seconds(), time.monotonic()
    query = ps.sql(cql).writeStream.format("noop").queryName(name).start()
    while not query.recentProgress:
        if not query.isActive or time.monotonic() - began > LIMIT_S:
            raise SystemExit(f"query {name} has no first batch: {query.exception()}")
        time.sleep(POLL_S)
    took = time.monotonic() - began
    return [took, query.recentProgress[0].durationMs["triggerExecution"] / 1e3, cpu_seconds() - spent]


def _told(line: str, sessions: list[list[float]]) -> str:
    columns = ["  ".join(f"{value:6.2f}" for value in column) for column in zip(*sessions, strict=True)]
    middle = [median(column) for column in zip(*sessions, strict=True)]
    if line == "session":
        return f"penstock.connect()  {middle[0]:.2f} s   ({columns[0].strip()})"
    out, batch, cpu = middle
    times = f"{out:.2f} s until results, batch {batch:.2f} s, CPU {cpu:.2f} s"
    return f"{line:6} query        {times}   ({columns[0].strip()})"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="penstock bench start", description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000, help="rows of each stream (default 1000)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--begin", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.begin is not None:
        print(json.dumps(session(options.begin, options.rows)))
        return
    own = [sys.executable, "-m", "bench.peers.start", "--rows", str(options.rows), "--begin"]
    sessions: list[dict[str, list[float]]] = []
    for number in range(-1, options.sessions):
        ran = subprocess.run(
            [*own, str(max(number, 0))], stdout=subprocess.PIPE, text=True, check=True, env=os.environ,
            cwd=Path(__file__).resolve().parents[2],
        )  # fmt: skip
        found = json.loads(ran.stdout.splitlines()[-1])
        print(f"session {number + 1}{'' if number >= 0 else ' (not counted)'}: {found}", file=sys.stderr)
        sessions += [found] if number >= 0 else []
    if options.json:
        print(json.dumps(sessions))
        return
    print(f"medians of {len(sessions)} sessions, and each of them")
    for line in ("session", *PLACES):
        print(_told(line, [s[line] for s in sessions]))


if __name__ == "__main__":
    main()
