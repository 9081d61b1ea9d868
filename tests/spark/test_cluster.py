"""Spark clusters: each executor has its engines, and one that is lost is replaced by another."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from killing import World, residents
from standalone import standalone

pytestmark = pytest.mark.spark

CONF = {
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    "spark.pyspark.python": sys.executable,
}
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
def test_an_executor_of_a_local_cluster_is_killed(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    program = world.start(master="local-cluster[2,1,1024]", conf=CONF)
    assert program.wait_for_batches(2), program.said()
    executors = [p for p in program.family() if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline())]
    assert len(executors) == 2
    executors[0].kill()
    program.finish()
    world.check(spark)
