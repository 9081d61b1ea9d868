"""Whatever is killed, whenever: nothing lost, nothing twice.

``make test`` kills a few times, everything at once; ``make faults`` kills often, one thing after another.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from killing import World, finish, kill_again_and_again, random_deaths

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
EVERYTHING = pytest.mark.skipif("PENSTOCK_KILLS" not in os.environ, reason="only by make faults")


def test_everything_killed(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 8, seed=SEED)
    draw = random.Random(SEED)
    kill_again_and_again(world, 1, draw)
    with random_deaths(world, draw) as killed:
        finish(world)
    assert killed
    world.check(spark)


@EVERYTHING
def test_a_driver_killed_again_and_again(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 4 * KILLS + 2, seed=SEED)
    kill_again_and_again(world, KILLS, random.Random(SEED))
    finish(world)
    world.check(spark)


@EVERYTHING
def test_workers_and_engines_killed_at_random(spark: Any, tmp_path: Path) -> None:
    world = World(tmp_path, 4 * KILLS, seed=SEED)
    with random_deaths(world, random.Random(SEED)) as killed:
        finish(world)
    assert {"resident", "worker"} <= set(killed), killed
    world.check(spark)
