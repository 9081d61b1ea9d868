"""Joins that run inside a budget on generated streams: results a second, beside what the equations say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bench.paper.figure import Claim, Row
from penstock.approx.allocation import Allocation, Budget, allocate
from penstock.approx.shedding import Shedding
from penstock.budget import Within
from penstock.cost.model import Workload
from penstock.engine.element import Chunk
from penstock.engine.operator import Clock, StartContext
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source

SECOND = 1_000_000
MEASURED, EQUATION = "measured", "by the equation"
NEAR = 0.05


@dataclass(frozen=True)
class Budgeted:
    """Two streams of constant rates with ``keys`` keys: one pair in so many joins (the papers' sigma)."""

    workload: Workload
    within: Within
    keys: int

    @property
    def seconds(self) -> tuple[float, float]:
        """How long rows stay in the windows."""
        w = self.workload
        return w.window_a / w.rate_a, w.window_b / w.rate_b

    def expected(self, strategy: str) -> Allocation:
        """What each side gets."""
        w = self.within
        budget = Budget(w.rate, w.rows, w.least_rate, w.least_memory, w.before_windows)
        return allocate(self.workload, budget, strategy)

    def join(self, strategy: str) -> BinaryJoin:
        """The operator as a query has it."""
        parts = tuple(
            SeqWindow(Source(n, pa.schema([(f"{n}.k", pa.int64())])), "range", int(s * SECOND), (), "")
            for n, s in zip("AB", self.seconds, strict=True)
        )
        shedding = Shedding(self.within, strategy, self.seconds, SECOND)
        equal = (((0, "A.k"), (1, "B.k")),)
        return BinaryJoin(parts, ("A", "B"), equal, (), ("A.k",), budget=shedding)

    def measured(self, strategy: str, seconds: int) -> float:
        """Results a second, over so many seconds of stream time after windows and rates have settled."""
        node = self.join(strategy)
        operator, random = node.start(StartContext()), np.random.default_rng(7)
        settled, found = int(max(*self.seconds, 10)) + 5, 0
        for step in range(settled + seconds):
            begin, end = step * SECOND, (step + 1) * SECOND
            chunks = [self._chunk(node, i, begin, end, random) for i in range(2)]
            got = len(operator.run(chunks, Clock(begin, end, 0)))
            found += got if step >= settled else 0
        return found / seconds

    def _chunk(
        self, node: BinaryJoin, i: int, begin: int, end: int, random: np.random.Generator
    ) -> Chunk:  # fmt: skip
        gap = SECOND / (self.workload.rate_a, self.workload.rate_b)[i]
        stamps = (np.arange(np.ceil(begin / gap), np.ceil(end / gap)) * gap).astype(np.int64)
        keys = pa.array(random.integers(0, self.keys, len(stamps)))
        columns = pa.RecordBatch.from_arrays([keys], schema=node.parts[i].schema)
        return Chunk.of(stamps, columns, end=stamps + int(self.seconds[i] * SECOND))


def rows_of(joins: dict[str, tuple[Budgeted, str]], seconds: int) -> list[Row]:
    """For each named join under a strategy the results a second, by the equation and measured."""
    rows: list[Row] = []
    for name, (join, strategy) in joins.items():
        expected = join.expected(strategy).output_rate(1 / join.keys)
        both = ((EQUATION, expected), (MEASURED, join.measured(strategy, seconds)))
        rows += [{"strategy": name, "results_a_second": value, "found": how} for how, value in both]
    return rows


def rates(rows: list[Row], how: str) -> dict[str, float]:
    """Results a second by strategy."""
    return {str(r["strategy"]): float(r["results_a_second"]) for r in rows if r["found"] == how}


def near_the_equations(rows: list[Row]) -> Claim:
    """The issue of every figure: what is measured is what the equations say."""
    expected, measured = rates(rows, EQUATION), rates(rows, MEASURED)
    most = max(expected.values())
    off = {n: abs(measured[n] - e) / (e or most) for n, e in expected.items()}
    worst = max(off, key=off.__getitem__)
    says = f"results conform to the analysis (ours: within {NEAR:.0%} of the equations)"
    return Claim(says, f"farthest: {worst}, {off[worst]:.1%}", off[worst] <= NEAR)


def order(rows: list[Row], says: str, *groups: set[str]) -> Claim:
    """Each group of strategies finds more than the next."""
    measured = rates(rows, MEASURED)
    told = ", ".join(f"{n} {r:.4g}" for n, r in sorted(measured.items(), key=lambda x: -x[1]))
    pairs = zip(groups, groups[1:], strict=False)
    return Claim(says, told, all(min(measured[n] for n in a) > max(measured[n] for n in b) for a, b in pairs))


def gain(rows: list[Row], best: str, says: str, least: float) -> Claim:
    """How much more the best finds than the equal distribution."""
    measured = rates(rows, MEASURED)
    more = measured[best] / measured["equal"] - 1
    return Claim(says, f"{more:.0%} more", more >= least)
