"""Spark clusters: each executor has its engines, and one that is lost is replaced by another."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from killing import World, command_line, residents
from standalone import HOME, standalone

pytestmark = pytest.mark.spark

CONF = {
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    "spark.pyspark.python": sys.executable,
}
REPOSITORY = Path(__file__).parent.parent.parent
EVERYTHING = pytest.mark.skipif("PENSTOCK_KILLS" not in os.environ, reason="only by make faults")


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
