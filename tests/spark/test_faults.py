"""Whatever is killed, whenever: nothing lost, nothing twice.

Only ``make faults`` runs this: each program starts a Spark of its own. ``test_pipeline``,
``test_command_stream`` and ``test_restarts`` also kill engines and restart queries.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from killing import World, finish, kill_again_and_again, random_deaths

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif("PENSTOCK_KILLS" not in os.environ, reason="only by make faults"),
]

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))


def test_everything_killed(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 8, seed=SEED)
    draw = random.Random(SEED)
    kill_again_and_again(world, 1, draw)
    with random_deaths(world, draw) as killed:
        finish(world)
    assert killed
    world.check(spark)


FILES_PER_KILL = 8
"""A program that is not killed yet must have something left: up to two batches and those of 1.5 seconds."""


def test_a_driver_killed_again_and_again(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, FILES_PER_KILL * KILLS, seed=SEED)
    kill_again_and_again(world, KILLS, random.Random(SEED))
    finish(world)
    world.check(spark)


def test_workers_and_engines_killed_at_random(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 4 * KILLS, seed=SEED)
    with random_deaths(world, random.Random(SEED)) as killed:
        finish(world)
    assert {"resident", "worker"} <= set(killed), killed
    world.check(spark)
