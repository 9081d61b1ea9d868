"""What starts and stops of queries leave behind: files, sockets and threads, beside plain Spark."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from longer import LONG, sized
from stage_on_spark import Files
from waiting import until

from penstock.spark.driver import local_spark
from penstock.spark.driver.session import Session
from penstock.spark.resident import connection
from penstock.spark.resident.directory import Process, ResidentDirectory
from penstock.spark.settings import LOG_KEPT_S, STOPPED_MARK_S

CYCLES = sized(3, 50)


def left(spark: Any) -> Counter[str]:
    """Sockets and pipes of this process and the JVM, and this one's threads."""
    gc.collect()
    spark.sparkContext._jvm.System.gc()
    own = os.getpid()
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    found = Counter({"threads": psutil.Process(own).num_threads()})
    for name, pid in (("own", own), ("jvm", jvm)):
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                kind = os.readlink(f"/proc/{pid}/fd/{number}").partition(":")[0]
            except OSError:
                continue  # the descriptor of the listing itself
            found[f"{name} {kind}"] += kind in ("socket", "pipe", "anon_inode")
    return found


def grown(spark: Any, cycle: Callable[[int], None]) -> Counter[str]:
    """What some cycles leave, after one that has made what is made once."""
    cycle(-1)
    before = left(spark)
    for number in range(CYCLES):
        cycle(number)
    time.sleep(1)  # the events of the last stop are under way
    return Counter({kind: n - before[kind] for kind, n in left(spark).items()})


@pytest.mark.spark
@pytest.mark.long
def test_starts_and_stops_leave_no_more_than_plain_spark(
    spark: Any, session: Session, files: Files, tmp_path: Path
) -> None:
    """py4j keeps a socket in both processes, and a thread, for each thread of the JVM that calls Python."""
    files.add([(k, k) for k in range(4)])
    declared = f"CREATE STREAM S (k BIGINT, t BIGINT) TIMESTAMP BY t FROM PARQUET '{files.root}'"
    session.sql(declared)

    def ours(number: int) -> None:
        df = session.sql("SELECT ISTREAM(k) FROM S [ROWS 2]")
        assert df is not None
        write(df, tmp_path / f"c{number}")

    def plain(number: int) -> None:
        df = spark.readStream.schema("k BIGINT, t BIGINT").parquet(str(files.root))
        write(df.groupBy("k").count().writeStream.outputMode("update"), tmp_path / f"plain{number}")

    found = grown(spark, ours)
    by_spark = grown(spark, plain) if LONG else Counter()
    # Spark itself leaves a server socket, with its selector, when it plans a stateful stage in Python.
    allowed = {"jvm socket": CYCLES, "jvm anon_inode": 2 * CYCLES}
    most = {kind: by_spark[kind] + allowed.get(kind, 0) + 1 for kind in found}
    assert {kind: n for kind, n in found.items() if n > most[kind]} == {}


def write(df: Any, checkpoint: Path) -> None:
    writer = df.writeStream if hasattr(df, "writeStream") else df
    query = writer.format("noop").option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    query.stop()


def test_marks_of_stopped_queries_go(tmp_path: Path) -> None:
    home = ResidentDirectory(Process.of(os.getpid()), tmp_path / "engines")
    home.make()
    for name in ("old", "new"):
        connection.quit_query(home.root, name)
    past = time.time() - STOPPED_MARK_S - 1
    os.utime(home.over("old"), (past, past))
    connection.quit_query(home.root, "newest")
    assert {m.name for m in home.marks()} == {home.over(n).name for n in ("new", "newest")}


def test_files_of_killed_programs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import os, tempfile\nfrom penstock.spark.driver import local_spark as s\n"
        "log, home = s.spark_log(), tempfile.mkdtemp(prefix=s._own_prefix())\n"
        "open(os.path.join(home, 'jars'), 'w')\nprint('made', flush=True)\nos.kill(os.getpid(), 9)"
    )
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=own, stdout=subprocess.PIPE, check=False)
    kept = Path(tempfile.mkdtemp(prefix=local_spark._own_prefix()))
    other = tmp_path / "penstock-spark-of-another-program"
    other.mkdir()
    log = next(tmp_path.glob("*.log"))
    assert len(list(tmp_path.iterdir())) == 4
    local_spark._remove_left_behind()
    assert set(tmp_path.iterdir()) == {kept, other, log}
    os.utime(log, (0, time.time() - LOG_KEPT_S - 1))
    local_spark._remove_left_behind()
    until(lambda: set(tmp_path.iterdir()) == {kept, other})
