"""Joins inside a budget find what the equations say, keep to it, and lose the same again."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from longer import LONG, sized

import penstock
from penstock.approx.allocation import STRATEGIES, Budget, allocate
from penstock.approx.shedding import Shedding
from penstock.budget import Within
from penstock.cost.model import Workload
from penstock.cql import bind
from penstock.engine.element import BEFORE_TIME, Chunk
from penstock.engine.operator import Clock, Operator, StartContext
from penstock.engine.operators.binary_join import BinaryJoin
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.seq_window import SeqWindow
from penstock.engine.operators.source import Source
from penstock.engine.stage import TS
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Measurements, Property, measured
from penstock.plan.budgeted import budgets
from penstock.plan.physical import PhysicalPlan
from penstock.schema import TimeDomain
from penstock.settings import CHOICES

SECOND = 1_000_000
KEYS = 100
"""Keys are even, so one pair in so many joins: the papers' sigma is 0.01."""


def join(workload: Workload, within: Within | None, strategy: str = "optimal") -> MJoin:
    rates, rows = (workload.rate_a, workload.rate_b), (workload.window_a, workload.window_b)
    lengths = [int(n / r * SECOND) for n, r in zip(rows, rates, strict=True)]
    parts = [
        SeqWindow(Source(n, pa.schema([(f"{n}.k", pa.int64())])), "range", t, (), "")
        for n, t in zip("AB", lengths, strict=True)
    ]
    node = BinaryJoin(tuple(parts), ("A", "B"), (((0, "A.k"), (1, "B.k")),), (), ("A.k",))
    if within is None:
        return node
    seconds = lengths[0] / SECOND, lengths[1] / SECOND
    return replace(node, budget=Shedding(within, strategy, seconds, SECOND))


class Feed:
    """Two streams of constant rates, in steps of a fraction of a second."""

    def __init__(self, node: MJoin, workload: Workload, a_second: int = 8) -> None:
        self.node, self.rates = node, (workload.rate_a, workload.rate_b)
        self.operator: Operator = node.start(StartContext())
        self._random, self._a_second, self._step = np.random.default_rng(7), a_second, 0
        self.most = 0

    def run(self, seconds: float) -> int:
        """Let time pass; the results."""
        found = 0
        for _ in range(int(seconds * self._a_second)):
            begin, end = (int(s * SECOND / self._a_second) for s in (self._step, self._step + 1))
            chunks = [self._chunk(i, begin, end) for i in range(2)]
            found += len(self.operator.run(chunks, Clock(begin, end, 0)))
            self._step += 1
            self.most = max(self.most, int(self.measured.of_kind(Kind.WINDOW).total(Property.ROWS)))
        return found

    def _chunk(self, i: int, begin: int, end: int) -> Chunk:
        gap, part = SECOND / self.rates[i], self.node.parts[i]
        assert isinstance(part, SeqWindow) and part.size is not None
        ts = np.arange(np.ceil(begin / gap), np.ceil(end / gap)) * gap
        stamps = ts.astype(np.int64)
        keys = pa.array(self._random.integers(0, KEYS, len(stamps)))
        return Chunk.of(
            stamps, pa.RecordBatch.from_arrays([keys], schema=part.schema), end=stamps + part.size
        )

    @property
    def measured(self) -> Measurements:
        return measured(self.operator.measure())


def lost_to(found: Measurements, cause: str) -> float:
    """Rows left out for one reason."""
    return sum(m.value for m in found.of(Property.SHED) if m.text == cause)


CPU = Workload(rate_a=800, rate_b=200, window_a=100, window_b=200)
MEMORY = Workload(rate_a=100, rate_b=500, window_a=1_000, window_b=1_000)
BOTH = Workload(rate_a=200, rate_b=200, window_a=1_000, window_b=1_000)
EARLY = Workload(rate_a=400, rate_b=200, window_a=2_000, window_b=500)


@pytest.mark.slow
@pytest.mark.share(7)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("workload", "within"),
    [
        (CPU, Within(rate=100)),
        (MEMORY, Within(rows=500)),
        (BOTH, Within(rate=100, rows=600)),
        (EARLY, Within(rate=300, before_windows=True)),
        (EARLY, Within(rate=300, rows=400, before_windows=True)),
        (CPU, Within(rate=100, least_rate=20)),
        (MEMORY, Within(rows=500, least_memory=100)),
    ],
    ids=["rate", "memory", "both", "before", "before, memory", "least rate", "least memory"],
)
def test_results_are_those_of_the_equations(workload: Workload, within: Within, strategy: str) -> None:
    feed = Feed(join(workload, within, strategy), workload)
    feed.run(15)
    seconds = 60 if within.rows else 120
    got = feed.run(seconds) / seconds
    least = within.least_rate, within.least_memory, within.before_windows
    expected = allocate(workload, Budget(within.rate, within.rows, *least), strategy).output_rate(1 / KEYS)
    assert got == pytest.approx(expected, rel=0.05, abs=1.0)
    found = feed.measured
    full = feed.rates[0] * workload.window_b + feed.rates[1] * workload.window_a
    assert found.value(Property.EXPECTED_RECALL) == pytest.approx(expected * KEYS / full, rel=0.05, abs=0.01)


@pytest.mark.slow
def test_the_papers_figure_5() -> None:
    """Rates 800 and 200, windows 100 and 200, 100 probes a second: all to A gives 200 a second."""
    feed = Feed(join(CPU, Within(rate=100)), CPU)
    feed.run(10)
    assert feed.run(100) / 100 == pytest.approx(200, rel=0.05)
    found = feed.measured
    assert found.by_name(Property.EFFECTIVE_RATE) == pytest.approx({"A": 100, "B": 0}, abs=1e-6)
    assert found.texts(Property.SHORT_OF) == ["rate"]
    assert lost_to(found, "memory") == 0


def test_never_more_rows_than_it_may_keep() -> None:
    feed = Feed(join(MEMORY, Within(rows=500)), MEMORY)
    feed.run(30)
    assert 450 <= feed.most <= 500
    found = feed.measured
    assert found.of_kind(Kind.WINDOW).total(Property.ROWS) <= 500
    assert lost_to(found, "memory") > 0


def test_never_more_probes_than_it_may_make() -> None:
    feed = Feed(join(CPU, Within(rate=100)), CPU)
    feed.run(30)
    assert feed.measured.value(Property.PROBES) <= 100 * 31


def test_memory_in_bytes() -> None:
    feed = Feed(join(MEMORY, Within(bytes=100_000)), MEMORY)
    feed.run(20)
    found = feed.measured
    assert found.texts(Property.SHORT_OF) == ["memory"]
    assert 0 < found.of_kind(Kind.WINDOW).total(Property.ROWS) < 2_000


@pytest.mark.parametrize("within", [Within(rate=10_000), Within(rows=1_000_000), Within(10_000, 1_000_000)])
def test_a_budget_larger_than_the_need_loses_nothing_and_says_so(within: Within) -> None:
    feeds = [Feed(join(CPU, w), CPU) for w in (within, None)]
    assert feeds[0].run(5) == feeds[1].run(5)
    found = feeds[0].measured
    assert not found.has(Property.SHORT_OF)
    assert found.value(Property.EXPECTED_RECALL) == 1.0
    assert found.value(Property.MEASURED_RECALL) == 1.0


@pytest.mark.slow
def test_the_measured_share_is_that_of_all_results() -> None:
    feed = Feed(join(BOTH, Within(rows=600)), BOTH)
    feed.run(60)
    found = feed.measured
    expected = found.value(Property.EXPECTED_RECALL)
    assert found.value(Property.MEASURED_RECALL) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("within", [Within(rate=100), Within(rows=60)])
def test_the_same_rows_are_lost_again(within: Within) -> None:
    once, again = (Feed(join(CPU, within), CPU) for _ in range(2))
    assert once.run(3) == again.run(3)
    again.operator = pickle.loads(pickle.dumps(again.operator))
    assert once.run(3) == again.run(3)
    assert list(once.measured) == list(again.measured)
    assert once.operator.horizon() == BEFORE_TIME


@pytest.mark.slow
def test_what_is_found_does_not_depend_on_steps() -> None:
    """With memory to spare and shares that do not change, the choices alone count."""
    seconds = sized(30, 60)
    counts = [Feed(join(CPU, Within(rate=100)), CPU, a_second=n).run(seconds) for n in (1, 5, sized(20, 40))]
    assert max(counts) <= 1.05 * min(counts)


def test_in_cql() -> None:
    rows = {n: [(t // 20, {"k": t % 5, "n": t}) for t in range(2_000)] for n in "AB"}
    text = "SELECT ISTREAM(A.n, B.n AS m) FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k"
    whole = len(penstock.evaluate(text, rows))
    for clause in ("RATE 10 PER SECOND", "MEMORY 100 ROWS", "RATE 10 PER SECOND WITHIN MEMORY 100 ROWS"):
        some = len(penstock.evaluate(f"{text} WITHIN {clause}", rows))
        assert 0 < some < whole
    assert len(penstock.evaluate(f"{text} WITHIN RATE 60000 PER MINUTE AND MEMORY 1 GB", rows)) == whole


@pytest.mark.parametrize(
    ("clause", "within"),
    [
        ("RATE 600 PER MINUTE AT LEAST 120 EACH", Within(rate=10, least_rate=2)),
        ("RATE 10 PER SECOND DROP BEFORE WINDOWS", Within(rate=10, before_windows=True)),
        ("RATE 10 PER SECOND AT LEAST 2 EACH DROP BEFORE WINDOWS AND MEMORY 9 ROWS AT LEAST 3 EACH",
         Within(10, 9, None, 2, 3, True)),
        ("MEMORY 4 KB AT LEAST 1 EACH", Within(bytes=4096, least_memory=1024)),
    ],
)  # fmt: skip
def test_what_a_budget_says(clause: str, within: Within) -> None:
    finite = read_inputs({n: [(1, {"k": 1})] for n in "AB"}, {}, TimeDomain("integer", "seconds"))
    text = f"SELECT ISTREAM(A.k) FROM A [RANGE 5], B [RANGE 5] WHERE A.k = B.k WITHIN {clause}"
    assert [b.within for b in budgets(bind(text, finite.catalog()).root)] == [within]


def test_dropped_before_the_windows_a_row_is_nowhere() -> None:
    feed = Feed(join(EARLY, Within(rate=300, before_windows=True)), EARLY)
    feed.run(20)
    found = feed.measured
    assert found.by_name(Property.EFFECTIVE_RATE) == pytest.approx({"A": 150, "B": 150}, rel=0.01)
    assert found.by_name(Property.ROWS_ALLOTTED) == pytest.approx({"A": 750, "B": 375}, rel=0.01)
    assert found.of_kind(Kind.WINDOW).by_name(Property.ROWS) == pytest.approx({"A": 750, "B": 375}, rel=0.1)
    assert found.text(Property.BUDGET) == "rate 300 per second drop before windows"


ROW_WINDOWS = "FROM A [ROWS 50], B [{}] WHERE A.k = B.k"


@pytest.mark.parametrize("other", ["ROWS 100", "RANGE 5"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_rate_over_row_windows(other: str, partitions: int) -> None:
    """Nothing is taken back that was not shown; what is shown is there in the whole join at that instant."""
    random = np.random.default_rng(1)
    rows = {n: [(t // 20, {"k": int(k), "n": t}) for t, k in enumerate(random.integers(0, 10, 400))]
            for n in "AB"}  # fmt: skip
    text = "SELECT A.n, B.n AS m " + ROW_WINDOWS.format(other)
    whole = penstock.evaluate(text, rows)
    plenty = penstock.evaluate(f"{text} WITHIN RATE 1000 PER SECOND", rows, partitions=partitions)
    assert Counter(map(str, plenty)) == Counter(map(str, whole))
    for clause in ("RATE 9 PER SECOND", "RATE 9 PER SECOND DROP BEFORE WINDOWS"):
        some = penstock.evaluate(f"{text} WITHIN {clause}", rows, partitions=partitions)
        assert 0 < len(some) < 0.6 * len(whole)
        assert not Counter(map(str, some)) - Counter(map(str, whole))
        there: Counter[str] = Counter()
        for _, sign, row in some:
            there[str(row)] += 1 if sign == "+" else -1
            assert there[str(row)] >= 0


def test_a_rate_over_row_windows_finds_what_the_equations_say() -> None:
    """The papers' windows of rows: 100 and 200, 800 and 200 rows a second, of which 100 probe."""
    random, found = np.random.default_rng(1), 0
    finite = read_inputs({n: [(0, {"k": 0})] for n in "AB"}, {}, TimeDomain("integer", "milliseconds"))
    text = "SELECT ISTREAM(A.k) FROM A [ROWS 100], B [ROWS 200] WHERE A.k = B.k WITHIN RATE 100 PER SECOND"
    run = InProcessRun(plan_of(text, finite.catalog(), [], 1), {})
    for second in range(60):
        batches = {}
        for name, count in (("A", 800), ("B", 200)):
            ts = second * 1_000 + np.arange(count) * 1_000 // count
            batches[name] = pa.record_batch({TS: ts, "k": random.integers(0, KEYS, count)})
        got = sum(b.num_rows for b in run.step(batches))
        found += got if second >= 10 else 0
    assert found / 50 == pytest.approx(200, rel=0.05)


def test_the_settings_are_the_strategies() -> None:
    assert CHOICES["allocation"] == tuple(STRATEGIES)


def spread(clause: str, partitions: int, most: float) -> tuple[int, list[Measurements], PhysicalPlan]:
    """The results of a join of two streams of 20 rows a second, and what its partitions say of themselves."""
    random = np.random.default_rng(3)
    keys = random.integers(0, 40, sized(1_500, 3_000))
    rows = {n: [(t // 20, {"k": int(k), "n": t}) for t, k in enumerate(keys)]
            for n in "AB"}  # fmt: skip
    finite = read_inputs(rows, {}, TimeDomain("integer", "seconds"))
    # Lazily freed rows would be counted, too: a rate is no promise on memory.
    script = (
        "SET penstock.invalidation = 'active'; SELECT ISTREAM(A.n, B.n AS m) "
        f"FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k WITHIN {clause}"
    )
    plan = plan_of(script, finite.catalog(), [], partitions)
    run, found = InProcessRun(plan, {}), 0
    for part in finite.slices(sized(75, 150)):
        batches = {n: t.combine_chunks().to_batches()[0] for n, t in part.items() if t.num_rows}
        found += sum(batch.num_rows for batch in run.step(batches))
        joins = [measured(e.measure()) for e in run.engines[0]]
        assert sum(j.of_kind(Kind.WINDOW).total(Property.ROWS) for j in joins) <= most
    return found, joins, plan


@pytest.mark.slow
@pytest.mark.parametrize(("clause", "most"), [("RATE 12 PER SECOND", 440), ("MEMORY 120 ROWS", 120)])
def test_a_budget_is_shared_out_to_partitions_by_their_rows(clause: str, most: float) -> None:
    alone, _, _ = spread(clause, 1, most)
    for partitions in (2, 4) if LONG else (4,):
        found, joins, plan = spread(clause, partitions, most)
        assert plan.stages[0].partitions == partitions
        assert sum(j.value(Property.BUDGET_SHARE) for j in joins) == pytest.approx(1)
        assert found == pytest.approx(alone, rel=0.1)


@pytest.mark.slow
def test_a_budget_larger_than_the_need_loses_nothing_on_any_number_of_partitions() -> None:
    clause = "MEMORY 10000 ROWS AND RATE 500 PER SECOND"
    assert len({spread(clause, p, 440)[0] for p in ((1, 2, 3) if LONG else (1, 3))}) == 1
