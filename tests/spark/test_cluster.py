"""Spark clusters: each executor has its engines, and one that is lost is replaced by another.

One test on a local cluster is part of ``make test``; the others kill, and are part of ``make faults``.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killing import World, command_line, residents
from standalone import HOME, standalone

pytestmark = pytest.mark.spark

CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    "spark.pyspark.python": sys.executable,
}
REPOSITORY = Path(__file__).parent.parent.parent
EVERYTHING = pytest.mark.skipif("PENSTOCK_KILLS" not in os.environ, reason="only by make faults")


MEASURED = """
import json, sys
from pyspark.sql import SparkSession
import penstock
from penstock.measurement import Property
from penstock.spark.driver.local_spark import LOCAL

root, conf = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in {**LOCAL, **conf, "spark.sql.shuffle.partitions": "2"}.items():
    builder = builder.config(key, value)
ps = penstock.connect(builder.getOrCreate(), 2)
for name in "AB":
    ps.sql(f"CREATE STREAM {name} (t BIGINT, k BIGINT) TIMESTAMP BY t FROM PARQUET '{root}/{name}'")
ps.sql("SET penstock.memory = '64 KB'")
df = ps.sql("SELECT ISTREAM ALL(A.k) FROM A [RANGE 50], B [RANGE 50] WHERE A.k = B.k MAXIMIZE RESULTS")
query = df.writeStream.format("noop").option("checkpointLocation", f"{root}/checkpoint").start()
query.processAllAvailable()
found = ps.metrics()
print(json.dumps({
    "engines": [place[1:] for place in found.by_engine()],
    "pids": [m.value for m in found.of(Property.PID)],
    "received": found.total(Property.RECEIVED),
    "memory": [m.value for m in found.of(Property.SHARED_MEMORY)],
    "explained": ps.explain(query),
}), flush=True)
sys.stdin.readline()
query.stop()
"""


@pytest.mark.apart
def test_measurements_come_from_every_executor(tmp_path: Path) -> None:
    for name in "AB":
        (tmp_path / name).mkdir()
        pq.write_table(
            pa.table({"t": range(400), "k": [n % 50 for n in range(400)]}), tmp_path / name / "1.parquet"
        )
    command = [sys.executable, "-c", MEASURED, str(tmp_path), json.dumps(CONF)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        found = json.loads(program.stdout.readline())
        family = psutil.Process(program.pid).children(recursive=True)
        executors = [p for p in family if "CoarseGrainedExecutorBackend" in " ".join(command_line(p))]
        engines = [{e.pid for e in residents(executor.pid)} for executor in executors]
        program.stdin.write("\n")
    assert len(engines) == 2
    assert found["engines"] == [[1, 0], [1, 1]]
    assert all(own & set(found["pids"]) for own in engines), "an engine of each executor"
    assert found["received"] == 800
    assert found["memory"] == [64 << 10] * 2
    assert "stage 1, partition 1: " in found["explained"]
    assert list((tmp_path / "checkpoint" / "commands").glob("*.json")), "the driver sent a part of the memory"


@EVERYTHING
def test_an_executor_of_a_standalone_cluster_is_killed(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path / "world", 8)
    with standalone(tmp_path / "cluster") as cluster:
        program = world.start(master=cluster.master, conf=CONF)
        assert program.wait_for_batches(2), program.said()
        executors = cluster.executors()
        assert len(executors) == 2
        assert all(residents(e.pid) for e in executors), "each executor has engines of its own"
        victim = random.Random(1).choice(executors)
        engines = residents(victim.pid)
        victim.kill()
        program.finish()
        assert not psutil.wait_procs(engines, 10)[1], "engines end with their executor"
    world.check(spark)


OFTEN = """
from penstock.spark import settings
settings.SNAPSHOT_LOG_BYTES, settings.SNAPSHOT_LOG_PER_STATE = 500, 0.25
"""
"""For the Python workers of executors: snapshots every few steps."""


@EVERYTHING
@pytest.mark.parametrize("version", (1, 2))
def test_every_step_is_taken_twice_on_a_standalone_cluster(spark: Any, tmp_path: Path, version: int) -> None:
    """``batch.count()``, then the write: the second action may run on the other executor, and so may a
    speculative task. Snapshots are frequent. Whatever Spark keeps of both, restarts go on from it.
    """
    # All rows of L are kept, as in a snapshot.
    query = "SELECT L.k, COUNT(*) AS n, SUM(R.v) AS s FROM L, R [ROWS 25] WHERE L.k = R.k GROUP BY L.k"
    world = World(tmp_path / "world", 12, query)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(OFTEN)
    twice = {
        "spark.executorEnv.PYTHONPATH": f"{site}{os.pathsep}{CONF['spark.executorEnv.PYTHONPATH']}",
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": str(version),
    }
    with standalone(tmp_path / "cluster") as cluster:
        for restart in range(3):
            program = world.start(master=cluster.master, conf={**CONF, **twice}, counts=True)
            if restart < 2:
                assert program.wait_for_batches(3), program.said()
                program.kill("driver")
        program.finish()
    world.check(spark)


@EVERYTHING
def test_the_environment_comes_in_an_archive(spark: Any, tmp_path: Path) -> None:
    """As docs/operations.md has it: machines have Spark and a Python; Penstock is in the archive alone."""
    archive, unpacked = tmp_path / "environment.tar.gz", tmp_path / "environment"
    subprocess.run(["scripts/environment.sh", str(archive)], cwd=REPOSITORY, check=True)
    unpacked.mkdir()
    subprocess.run(["tar", "xzf", str(archive), "-C", str(unpacked)], check=True)
    python = "./environment/bin/python"
    with standalone(tmp_path / "cluster", python=python) as cluster:
        submit = (str(HOME / "bin" / "spark-submit"), "--archives", "environment.tar.gz#environment")
        world = World(
            tmp_path / "world", 4, command=(*submit, "--master", cluster.master), directory=tmp_path
        )
        world.environment |= {
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_HOME": str(HOME),
        }
        world.environment.pop("PYTHONPATH", None)
        program = world.start(master=cluster.master, conf={"spark.executor.memory": "512m"})
        assert program.wait_for_batches(2), program.said()
        engines = [engine for executor in cluster.executors() for engine in residents(executor.pid)]
        assert len(engines) >= 2
        for engine in engines:
            used = {m.path for m in engine.memory_maps() if "site-packages" in m.path}
            assert used and all("/work/app-" in p and "/environment/lib/" in p for p in used), used
        program.finish()
    world.check(spark)


@EVERYTHING
def test_an_executor_of_a_local_cluster_is_killed(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    program = world.start(master="local-cluster[2,1,1024]", conf=CONF)
    assert program.wait_for_batches(2), program.said()
    executors = [p for p in program.family() if "CoarseGrainedExecutorBackend" in " ".join(command_line(p))]
    assert len(executors) == 2
    executors[0].kill()
    program.finish()
    world.check(spark)
