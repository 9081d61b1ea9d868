"""Constraints that are found while a join runs: k is tracked, results are only missed, and how many."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checking import contents, within
from local_host import Manner, run
from restless import collecting_always
from strategies import Case, Choices
from strategies.constraints import draw_tree_join
from trials import manner_of

import penstock
from penstock.constraint import Within
from penstock.engine.joins import monitored
from penstock.engine.joins.archive import Archive
from penstock.engine.joins.closing import Clusters, Maxima
from penstock.engine.joins.monitored_join import MonitoredJoin
from penstock.engine.joins.safe import SafeKMon
from penstock.engine.kernels import bloom, membership
from penstock.engine.snapshot import decode, encode
from penstock.engine.synopses.store import Kept
from penstock.streamon.k_mon import Adherence
from penstock.streamon.missed_share import MissedShare
from penstock.streamon.settings import AdherenceThresholds

QUERY = "SELECT A.k, B.w FROM A, B WHERE A.k = B.k"


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are short here."""
    monkeypatch.setattr(monitored, "MONITORED_ROWS", 1024)


def adherence(window: int = 100, slack: float = 1.0) -> Adherence:
    return Adherence(AdherenceThresholds(slack, sample=0.0, window=window, evidence=1))


def seen(found: Adherence, at: int, far: int) -> int | None:
    """One row at a place, with its distance."""
    found.see(np.array([at]), np.array([far]), 1)
    found.settle(at)
    return found.k_u


def test_decreases_count_after_w_arrivals_and_increases_at_once() -> None:
    found = adherence(window=100)
    assert seen(found, 50, 7) is None  # fewer than W arrivals
    assert seen(found, 100, 3) == 7
    assert seen(found, 140, 5) == 7  # the 7 is among the last 100
    assert seen(found, 160, 2) == 5  # it no longer is
    assert seen(found, 170, 9) is None and found.increases == 1
    assert seen(found, 240, 1) is None  # W arrivals after the increase
    assert seen(found, 270, 4) == 4 and found.k_e == 4


def test_k_e_is_c_times_k_u() -> None:
    found = adherence(window=10, slack=1.2)
    assert seen(found, 10, 6) == 6 and found.k_e == 8


def test_without_evidence_nothing_is_used() -> None:
    found = adherence(window=10)
    found.settle(1000)
    assert found.k_u is None


def scrambling(values: list[int]) -> list[int]:
    """The definition (6.2): how far each row is behind the first with a larger value."""
    return [max((n - m for m in range(n) if values[m] > v), default=0) for n, v in enumerate(values)]


def clustering(values: list[int]) -> list[int]:
    found = []
    for n, v in enumerate(values):
        first = values.index(v)
        found.append(sum(w != v for w in values[first:n]))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_distances_are_those_of_the_definitions(seed: int) -> None:
    """However the rows are cut into steps."""
    die = Random(seed)
    values = [die.randrange(12) for _ in range(60)]
    maxima, clusters = Maxima(), Clusters(Within(0, by_rows=True))
    far: tuple[list[int], list[int]] = ([], [])
    at = 0
    while at < len(values):
        some = values[at : at + die.randrange(1, 9)]
        places, keys = np.arange(at + 1, at + 1 + len(some)), np.array(some)
        far[0].extend(maxima.see(places, keys).tolist())
        far[1].extend(clusters.see(places, keys).tolist())
        at += len(some)
    assert far[0] == scrambling(values) and far[1] == clustering(values)


def test_least_agrees_with_python() -> None:
    random = np.random.default_rng(7)
    for count in (0, 20, 60):
        held, keys = random.integers(0, 5, (50, 2)), random.integers(0, 5, (count, 2))
        values = random.integers(0, 99, 50)
        every = list(zip(held.tolist(), values.tolist(), strict=True))
        expected = [min((v for h, v in every if h == k), default=membership.NONE) for k in keys.tolist()]
        assert membership.least(held, values, keys).tolist() == expected
        assert membership.least.py_func(held, values, keys).tolist() == expected


def delayed(rows: int, *delays: tuple[int, int], first: int = 0) -> dict[str, list[Any]]:
    """Half of the rows of A find a row of B, between so many ticks later; delays change in equal parts. The
    keys begin with ``first``.
    """
    die = np.random.default_rng(1)
    between = [delays[t * len(delays) // rows] for t in range(rows)]
    late = [int(die.integers(low, high + 1)) for low, high in between]
    b = [(t + late[t], {"k": first + t, "w": t % 7}) for t in range(rows) if die.random() < 0.5]
    return {"A": [(t, {"k": first + t}) for t in range(rows)], "B": sorted(b, key=lambda r: r[0])}


def watched(monkeypatch: pytest.MonkeyPatch) -> list[MonitoredJoin]:
    """The joins that start from now on."""
    made: list[MonitoredJoin] = []
    start = MonitoredJoin.__init__
    monkeypatch.setattr(MonitoredJoin, "__init__", lambda self, *a: [start(self, *a), made.append(self)][0])
    return made


def by_text(join: MonitoredJoin) -> dict[str, Adherence]:
    policy = join.retention
    return {c.text: a for c, a in zip(policy._constraints, policy._adherences.of, strict=True)}


def test_what_streams_obey_is_found_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is declared: keys, references and order are found, and few rows are kept."""
    made, inputs = watched(monkeypatch), delayed(6000, (0, 20))
    found = penstock.evaluate(f"SET penstock.constraints = 'monitored'; {QUERY}", inputs, batches=6)
    k_u = {text: a.k_u for text, a in by_text(made[0]).items()}
    assert k_u["B has one row per k"] == 0 and k_u["A is ordered by k within k"] == 0
    assert k_u["rows of A come at most k after those of B that they join"] == 0
    assert by_text(made[0])["rows of B come at most k after those of A that they join"].observed <= 20
    assert made[0].rows() < 1500 and len(found) > 0.99 * len(inputs["B"])


def missed_of(
    monkeypatch: pytest.MonkeyPatch, inputs: dict[str, list[Any]], settings: str = ""
) -> tuple[float, MissedShare]:
    """The share of missed results: the truth, and the estimate."""
    made = watched(monkeypatch)
    found = penstock.evaluate(
        f"SET penstock.constraints = 'monitored'; {settings} {QUERY}", inputs, batches=7
    )
    return 1 - len(found) / len(inputs["B"]), made[0].retention.missed


@pytest.mark.slow
def test_the_interval_covers_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delay jumps: results are missed, and the sample tells how many."""
    covered, jumps = 0, ((0, 5), (3000, 3300), (0, 5), (0, 5))
    for number in range(6):
        inputs = delayed(12_000, *jumps, first=number * 100_000)  # other keys are sampled
        truth, told = missed_of(monkeypatch, inputs, "SET penstock.constraint_sample = 0.1;")
        low, high = told.interval()
        assert 0.01 < truth < 0.5 and low < told.share < high < low + 0.2
        covered += low <= truth <= high
    assert covered >= 5


@pytest.mark.parametrize(("each", "classes"), [(1, 1), (20, 1), (6, 2)])
def test_the_interval_covers_the_truth_as_often_as_it_says(each: int, classes: int) -> None:
    """Results of a key are missed together, ``each`` on average. A fifth of 2,000 keys is sampled; with
    two classes a result has a key of each.
    """
    die, covered = np.random.default_rng(2), 0
    for _ in range(400):
        keys = [np.repeat(np.arange(2000), die.geometric(1 / each, 2000))]
        keys += [die.integers(0, 400, len(keys[0])) for _ in range(classes - 1)]
        wrong = np.logical_or.reduce([die.random(2000)[k] < 0.05 for k in keys])
        chosen = np.logical_and.reduce([(die.random(2000) < 0.2 ** (1 / classes))[k] for k in keys])
        told = MissedShare(classes, chosen.mean())
        told.see([k[chosen] for k in keys], wrong[chosen])
        low, high = told.interval()
        covered += low <= (wrong & ~chosen).mean() <= high
    assert 0.92 * 400 <= covered <= (0.99 if classes == 1 else 1) * 400


def test_where_nothing_was_missed_the_interval_says_how_little_is_known() -> None:
    few, many = MissedShare(1, 0.0), MissedShare(1, 0.0)
    few.see([np.repeat(np.arange(5), 100)], np.zeros(500, np.bool_))
    many.see([np.arange(500)], np.zeros(500, np.bool_))
    assert few.interval()[0] == many.interval()[0] == 0.0
    assert few.interval()[1] > 0.4 and many.interval()[1] < 0.02
    assert MissedShare(1, 0.0).interval() == (0.0, 1.0)


def drawn(seed: int) -> tuple[Case, Manner]:
    choices = Choices(random=Random(seed))
    case = replace(draw_tree_join(choices), constraints={})
    cql = re.sub(r"^(I|D)STREAM\((.*)\)$", r"\2", case.cql)
    return replace(case, cql=cql), replace(manner_of(choices), settings=(), heavy=(), batch_span=None)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.some(4)
def test_results_are_only_missed_and_the_same_however_steps_are_cut(seed: int) -> None:
    """Also in row windows, on partitions, after rebuilds; k comes from two arrivals, so it is often wrong."""
    case, manner = drawn(seed)
    exact = run(case, replace(manner, constraints="off"))
    with collecting_always():
        some = run(case, replace(manner, constraints="monitored"))
        other = replace(manner, cuts=(0.3, 0.5, 0.9), before=(), slice_rows=None, scheduler="fifo")
        again = run(case, replace(other, constraints="monitored"))
    assert within(some, exact), case
    assert Counter(map(str, some)) == Counter(map(str, again)), case


def test_the_state_is_the_same_after_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was found: that k grew before the last snapshot, and since when it is what it is."""
    made = watched(monkeypatch)
    inputs = delayed(6000, (0, 5), (1500, 1600), (0, 5), (0, 5))
    case = Case(QUERY, inputs, {"A": "k INT", "B": "k INT, w INT"})
    plain = Manner(1, (0.2, 0.6, 0.95), constraints="monitored")
    rebuilt = replace(plain, before=("", "rebuild", "snapshot, rebuild", "whole snapshot, rebuild"))
    found, state = run(case, plain), encode(made[-1].retention._adherences)
    again, grew = run(case, rebuilt), [a.increases for a in made[-1].retention._adherences.of]
    assert sorted(map(str, found)) == sorted(map(str, again)) and len(made) > 2
    assert encode(made[-1].retention._adherences) == state and max(grew) > 1


ADVERSARIAL = ((0, 5), (3000, 3300), (0, 5), (700, 900))


@pytest.mark.parametrize("window", ["", "[RANGE 4000]", "[RANGE 1000]"])
def test_safe_is_exact_when_k_jumps(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go to disk while k is small, and come back when it is not."""
    inputs, made = delayed(6000, *ADVERSARIAL), watched(monkeypatch)
    query = QUERY.replace("A, B", f"A {window}, B {window}")
    safe, off = (
        penstock.evaluate(f"SET penstock.constraints = '{how}'; {query}", inputs, batches=5)
        for how in ("monitored safe", "off")
    )
    assert sorted(map(str, safe)) == sorted(map(str, off))
    policy = made[0].retention
    assert isinstance(policy, SafeKMon)
    assert policy._returned > 50 and (len(policy.archives[0]) > 1000 or window)


def test_safe_keeps_little_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that wait in vain are on disk; the memory for them is a few bits each."""
    inputs, made = delayed(6000, (0, 5)), watched(monkeypatch)
    penstock.evaluate(f"SET penstock.constraints = 'monitored safe'; {QUERY}", inputs, batches=5)
    policy = made[0].retention
    assert isinstance(policy, SafeKMon)
    archived = sum(map(len, policy.archives))
    assert archived > 4000 > 4 * made[0].rows()
    assert sum(a.nbytes() for a in policy.archives) < 8 * archived < sum(a.on_disk for a in policy.archives)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.some(4)
def test_safe_is_exact_however_it_runs(seed: int) -> None:
    case, manner = drawn(100 + seed)
    exact = run(case, replace(manner, constraints="off"))
    with collecting_always():
        found = run(case, replace(manner, constraints="monitored safe"))
    assert contents(found) == contents(exact), case


def test_an_archive_returns_rows_by_their_keys_once() -> None:
    die = np.random.default_rng(3)
    empty = kept(np.empty((0, 2), np.int64), np.empty(0, np.int64))
    archive, keys, ends = Archive(2, None, empty), die.integers(0, 40, (500, 2)), die.integers(50, 100, 500)
    for at in range(0, 500, 37):
        archive.put(kept(keys[at : at + 37], ends[at : at + 37]), now=0)
    left = set(range(500))
    for key in range(0, 40, 3):
        asked = np.array([[key, other] for other in range(0, 40, 2)])
        found = archive.take((0, 1), asked, now=60)
        expected = {n for n in left if keys[n, 0] == key and keys[n, 1] % 2 == 0}
        left -= expected
        assert sorted(found.columns[0].to_pylist()) == sorted(int(ends[n]) for n in expected if ends[n] > 60)
    again = Archive(2, None, empty)
    again.restore(decode(encode(archive)))
    assert len(again) == len(archive) == len(left)
    archive.expire(100)
    assert not len(archive)


def kept(keys: np.ndarray, ends: np.ndarray) -> Kept:
    lives = np.stack([np.zeros(len(ends), np.int64), ends], axis=1)
    return Kept(lives, keys, np.zeros((len(ends), 1), np.int64), [pa.array(ends)])


def test_bloom_filters_miss_nothing_and_pass_few_others() -> None:
    keys = np.random.default_rng(5).integers(-(1 << 60), 1 << 60, 4000)
    words, plain = bloom.empty(2000), bloom.empty(50)
    bloom.add(words, keys[:2000])
    assert bloom.may_have(words, keys[:2000]).all()
    assert bloom.may_have(words, keys[2000:]).mean() < 0.03
    with np.errstate(over="ignore"):
        bloom.add.py_func(plain, keys[:50])
        assert bloom.may_have.py_func(plain, keys[:50]).all()
    assert bloom.may_have(plain, keys[:50]).all()
