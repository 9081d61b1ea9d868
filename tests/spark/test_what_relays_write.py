"""What a relay writes at a version follows from the records alone, whoever takes the step and how often."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
import trials
from checking import Skip
from local_host import Manner, nodes, plan_of
from longer import longer
from relays import Twice, run_twice
from restless import planned_by
from strategies import Choices

from penstock.spark.relay import state_log
from penstock.spark.relay.state_log import StateLog, Wanted

DRAWS = (trials.hosted, trials.w_joined, trials.constrained, trials.long)
APART = ("monitored", "WITHIN", "SAMPLE", "identify", "antijoin")
"""Queries that learn from their rows when they come, which may lie in other places, and those that number
rows: an engine counts from its own beginning.
"""


def often(self: StateLog, needs_from: int, replay_from: int) -> Wanted | None:
    """A snapshot after two of three steps, now of the whole state and now of a part."""
    version = self.control.version
    return Wanted(version % 2 == 1, 1 << 60) if version % 3 else None


@pytest.mark.parametrize("seed", (*range(12), *longer(*range(12, 200))))
def test_an_engine_that_goes_on_and_one_just_rebuilt_write_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(StateLog, "wanted_snapshot", often)
    else:
        monkeypatch.setattr(state_log, "SNAPSHOT_LOG_BYTES", 300)
    choices = Choices(random=Random(seed))
    try:
        trial = DRAWS[seed % 4](choices)
    except Skip:
        pytest.skip("no such case")
    manner = trial.manner or Manner(trial.partitions, (0.3, 0.6))
    words = {n.name for n in nodes(plan_of(trial.case, manner))} | {trial.case.cql, manner.constraints}
    snapshots_too = not any(word in text for word in APART for text in words)
    with planned_by(trial.planner, trial.joins):
        for step, twice in run_twice(trial.case, manner):
            same(twice, snapshots_too, f"seed {seed}, step {step}, {twice.engine_id}: {trial.case}")


def same(twice: Twice, snapshots_too: bool, where: str) -> None:
    """All bytes are the same; those of snapshots, with their sizes, only where it is asked for."""
    one, other = twice.lasting.entries, twice.rebuilt.entries
    assert places(one) == places(other), where
    if snapshots_too:
        different = [key for key in one if one[key] != other[key]]
        assert not different, f"{different}, {where}"
    else:
        assert control_of(one) == control_of(other), where
        assert records(one) == records(other), where
        twice.rebuilt.entries = dict(one)
        twice.rebuilt.commit()


def places(entries: dict[Any, Any]) -> set[int]:
    return {step for step, _ in entries}


def records(entries: dict[Any, Any]) -> dict[Any, Any]:
    return {key: row for key, row in entries.items() if key[0] >= 0}


def control_of(entries: dict[Any, Any]) -> tuple[dict[str, Any], bytes]:
    """The control without the sizes of snapshots."""
    line, _, header = entries[state_log._CONTROL][0].partition(b"\n")
    fields = json.loads(line)
    snapshot = fields.pop("snapshot")
    return {**fields, "state_bytes": 0, "snapshot": snapshot and snapshot[0]}, header
