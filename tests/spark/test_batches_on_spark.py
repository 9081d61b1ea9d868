"""A share of ``test_batches`` on Spark: other batches and partitions, the same results, and - before +."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bundle import run
from checking import expect, in_order
from local_host import Manner
from oracle import assert_same
from test_batches import QUERIES, case

KINDS = ("istream of a join", "istream all", "last row of a key", "tumbling", "left join")
MANNERS = (Manner(1, (1 / 3, 2 / 3)), Manner(3, (1.0, 1.0)), Manner(3, (0.1, 0.5)))


@pytest.mark.spark
def test_results_depend_on_neither_batches_nor_partitions(spark: Any, tmp_path: Path) -> None:
    cases = {kind: case(QUERIES[kind], in_time=True) for kind in KINDS}
    chosen = [(kind, manner) for kind in KINDS for manner in MANNERS]
    found = run([cases[kind] for kind, _ in chosen], spark, tmp_path, [manner for _, manner in chosen])
    for (kind, manner), changes in zip(chosen, found, strict=True):
        assert_same(changes, expect(cases[kind]), f"{kind}\n{manner}")
        assert manner.partitions > 1 or in_order(changes) or kind.startswith("istream"), changes
