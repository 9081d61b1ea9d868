"""Figures 6.11, 6.13 and 6.15: k found while it varies, and the results that are missed by that.

Nothing is declared. k changes in five ways: not at all, slowly up, slowly down, quickly up, quickly down. All
constraints of all streams are monitored at a time, of which the one of the figure is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.k_constraints import (
    MULTIPLICITY,
    Experiment,
    host_of,
    rids,
    spread,
    two_parents,
)
from penstock.engine.stage import TS
from penstock.in_process import InProcessRun
from penstock.measurement import Property, measured

BLOCK = 4_000
"""Input tuples for which false negatives are told (6.6.4)."""
PHASES = ("no change", "slowly up", "slowly down", "quickly up", "quickly down")
QUICK = 0.1
"""Part of a phase in which k changes quickly."""


class Generated(NamedTuple):
    """Streams, and of each row of S1 its distance and the round in which that is known."""

    experiment: Experiment
    distances: np.ndarray
    known: np.ndarray


def schedule(places: int, low: int, high: int) -> np.ndarray:
    """k by place, a fifth of them for each kind of change."""
    each = places // 5
    slow, quick = np.linspace(0, 1, each), np.minimum(np.linspace(0, 1 / QUICK, each), 1)
    shares = [np.zeros(each), slow, 1 - slow, quick, 1 - np.r_[quick, np.ones(places - 5 * each)]]
    return (low + (high - low) * np.concatenate(shares)).astype(np.int64)


def _references(rounds: int, high: int) -> Generated:
    experiment = rids(schedule(rounds, high // 4, high), rounds)
    keys = experiment.streams["S1"].columns["a"]
    # A distance is known when the child comes.
    return Generated(experiment, keys - np.arange(len(keys)) // MULTIPLICITY, keys)


def _arrivals(of: Callable[[np.ndarray], np.ndarray], rounds: int, high: int) -> Generated:
    random = np.random.default_rng(11)
    order = np.repeat(np.arange(rounds), MULTIPLICITY)
    by = schedule(rounds, high // 4, high).astype(np.float64)
    experiment = two_parents([spread(order, random, by) for _ in range(2)], random, {})
    values = experiment.streams["S1"].columns["a"]
    return Generated(experiment, of(values), np.arange(len(values)) // MULTIPLICITY)


def since_first(values: np.ndarray) -> np.ndarray:
    """For each row the rows of other values since the first of its own."""
    order = np.argsort(values, kind="stable")
    starts = np.r_[True, np.diff(values[order]) != 0]
    first = np.flatnonzero(starts)[np.cumsum(starts) - 1]
    found = np.empty(len(values), np.int64)
    found[order] = (order - order[first]) - (np.arange(len(values)) - first)
    return found


def behind(values: np.ndarray) -> np.ndarray:
    """For each row the places since the first one with a greater value."""
    greater = np.searchsorted(np.maximum.accumulate(values), values, side="right")
    return np.maximum(np.arange(len(values)) - greater, 0)


Made = Callable[[int, int], Generated]
KINDS: dict[str, tuple[Made, str]] = {
    "RIDS": (_references, "rows of S2 come at most k after those of S1 that they join"),
    "CA": (partial(_arrivals, since_first), "S1 is clustered by a within k"),
    "OAP": (partial(_arrivals, behind), "S1 is ordered by a within k"),
}
"""How streams are made, with the distance of each row of S1; and what the join calls the constraint."""


def measure(kind: str, scale: Scale) -> list[Row]:
    made, name = KINDS[kind]
    rounds, high = (2_000, 200) if scale.quick else (20_000, 2_000)
    experiment, distances, known = made(rounds, high)
    ticks = rounds * experiment.round
    exact, _ = _run(experiment, "off", ticks, name)
    found, used = _run(experiment, "monitored", ticks, name)
    largest = np.zeros(len(used) + rounds, np.int64)
    np.maximum.at(largest, known // (BLOCK // experiment.round), distances)
    rows: list[Row] = []
    for at in range(len(used)):
        missed = 1 - found[at] / exact[at] if exact[at] else 0.0
        place = {"tuples": (at + 1) * BLOCK, "phase": PHASES[min(5 * at // len(used), 4)]}
        rows.append({**place, "algorithm": "actual", "k": int(largest[at]), "missed_percent": 100 * missed})
        rows.append(
            {**place, "algorithm": "estimated", "k": max(used[at], 0), "missed_percent": 100 * missed}
        )
    return rows


def _run(experiment: Experiment, using: str, ticks: int, name: str) -> tuple[np.ndarray, list[int]]:
    """Results by blocks of their instants, and the k in use after each block."""
    host = host_of(experiment, using)
    stamps: list[np.ndarray] = []
    used: list[int] = []
    for batches in experiment.steps(BLOCK):
        stamps += [p.column(TS).to_numpy() for p in host.step(batches)]
        used.append(_k(host, name))
    stamps += [p.column(TS).to_numpy() for p in host.end(ticks)]
    block = BLOCK // experiment.round * experiment.round
    return np.bincount(np.concatenate(stamps) // block, minlength=len(used)), used


def _k(host: InProcessRun, name: str) -> int:
    found = measured(m for stage in host.engines for e in stage for m in e.measure())
    entity = [m.entity for m in found.of(Property.DESCRIPTION) if m.text == name]
    return int(next((m.value for m in found.of(Property.ADHERENCE) if m.entity in entity), -1))


def claims(rows: list[Row], most: float | None) -> list[Claim]:
    """``most``: percent of false negatives in a block that the thesis tells; None where it is close to 0."""
    actual, estimated = ([r for r in rows if r["algorithm"] == a] for a in ("actual", "estimated"))
    pairs = [(float(a["k"]), float(e["k"])) for a, e in zip(actual, estimated, strict=True)]
    off = [abs(e - a) / a for a, e in pairs if a and e]
    said = f"median difference {np.median(off):.0%}" if off else "never in use"
    said += f", in use after {len(off) / max(len(actual), 1):.0%} of the blocks"
    tracks = Claim(
        "the estimated k tracks the actual k closely", said, bool(off) and float(np.median(off)) < 0.15
    )
    missed = {p: [float(r["missed_percent"]) for r in actual if r["phase"] == p] for p in PHASES}
    shown = ", ".join(f"{p} {max(v):.2f} %" for p, v in missed.items() if v)
    every = [v for some in missed.values() for v in some]
    said = f"{np.mean(every):.2f} % on average; of a block at most: {shown}"
    if most is None:
        return [tracks, Claim("false negatives remain close to zero", said, float(np.mean(every)) < 0.1)]
    return [tracks, Claim(f"false negatives of a block stay below {most:g} %", said, max(every) < most)]


def figure(number: str, kind: str, most: float | None) -> Figure:
    return Figure(
        number,
        f"Monitoring {kind}(k)",
        "tuples",
        ("k", "missed_percent"),
        partial(measure, kind),
        partial(claims, most=most),
    )
