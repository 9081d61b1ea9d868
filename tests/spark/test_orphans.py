"""Nothing that Penstock starts outlives the program that started it, however that ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from waiting import until

from penstock.spark.resident.directory import Process

pytestmark = pytest.mark.spark
FAULTS = pytest.mark.skipif("PENSTOCK_KILLS" not in os.environ, reason="only by make faults")

PROGRAM = """
import json, sys, time
import penstock
from penstock.measurement import Property
ps = penstock.connect()
ps.sql(f"CREATE STREAM S (t BIGINT, k BIGINT) TIMESTAMP BY t FROM PARQUET '{sys.argv[1]}'")
query = ps.sql("SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k").writeStream.format("noop").start()
query.processAllAvailable()
jvm = ps.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
print(json.dumps({"jvm": jvm, "engines": [m.value for m in ps.metrics().of(Property.PID)]}), flush=True)
{end}
"""


@pytest.mark.apart
@pytest.mark.parametrize(
    ("end", "signals"),
    [
        pytest.param("time.sleep(600)", [signal.SIGKILL], id="killed"),
        pytest.param("query.stop()", [], id="left without a word", marks=FAULTS),
        pytest.param("ps.spark.stop(); time.sleep(600)", [], id="Spark stopped", marks=FAULTS),
    ],
)
def test_no_orphans(tmp_path: Path, end: str, signals: list[int]) -> None:
    pq.write_table(pa.table({"t": [1, 2, 3], "k": [1, 2, 1]}), tmp_path / "1.parquet")
    code = PROGRAM.replace("{end}", end)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        try:
            assert program.stdout is not None
            line = next(line for line in program.stdout if line.startswith("{"))
            engines = [Process.of(pid) for pid in json.loads(line)["engines"]]
            hosts = [Process.of(parent(e.pid)) for e in engines]
            assert engines
            for number in signals:
                program.send_signal(number)
            wait_for_the_end_of(engines + (hosts if "spark.stop" not in end else []))
        finally:
            program.kill()
    wait_for_the_end_of(hosts)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for_the_end_of(processes: list[Process]) -> None:
    until(lambda: not any(p.alive for p in processes), f"still there: {[p.pid for p in processes]}")


def test_the_check_itself() -> None:
    assert Process.of(os.getpid()).alive
    assert not Process(os.getpid(), "0").alive
