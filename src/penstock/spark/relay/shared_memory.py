"""The memory that the queries of a session share: what is an engine's part of it now (ALLOC, section 5).

Every engine under ``SET penstock.memory`` publishes what recall it would have with how much
memory. Before a step its relay reads what all engines of this JVM told, shares the memory out so that all
have the same recall by their weights, and sends the engine its part with the step's rows. So it is logged
with them, and an engine that is rebuilt decides as it did before.
"""

from __future__ import annotations

from pathlib import Path

from penstock.approx.recall import Told, alloc
from penstock.engine.command import Command
from penstock.measurement import Measurements, Property, decode, measured
from penstock.spark.resident.directory import EngineId, ResidentDirectory, engine_socket


def allotment(total: int, partitions: int, home: ResidentDirectory, engine_id: EngineId) -> Command:
    """What an engine may use of ``total`` bytes, as a command of its step; ``partitions`` start at once."""
    own = engine_socket(home.run(engine_id.run_id), engine_id.stage, engine_id.partition).with_suffix(".json")
    told = {file: demand for file in home.path.glob("*/s*p*.json") if (demand := _demand(file, total))}
    return Command(0, "memory", {"bytes": _part(total, partitions, told, own)})


def _part(total: int, partitions: int, told: dict[Path, Told], own: Path) -> int:
    """Equal recall by weight; what nobody needs goes to all alike, since streams may grow."""
    if own not in told:
        return total // max(len(told) + 1, partitions)
    files = sorted(told)
    given = alloc([told[f] for f in files], total)
    spare = max(total - sum(given), 0.0) / len(files)
    return int(given[files.index(own)] + spare)


def _demand(file: Path, total: int) -> Told | None:
    """What an engine last published, if it shares the memory."""
    try:
        return demand(measured(decode(file.read_bytes())), total)
    except (OSError, ValueError):
        return None


def demand(engine: Measurements, total: int) -> Told | None:
    """What an engine can do with how much of a memory of ``total`` bytes, if it shares that."""
    if engine.value(Property.SHARED_MEMORY) != total:
        return None
    recall = {float(at): value for at, value in engine.values(Property.RECALL_AT_BYTES).items()}
    return Told(tuple(recall), tuple(recall.values()), engine.value(Property.WEIGHT))
