"""What holds a query back, and where its memory is, from its measurements."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from penstock.measurement import Kind, Measurements, Property
from penstock.server.backend import Batch
from penstock.server.plans import node_id
from penstock.server.settings import (
    BUSY,
    HOST_SHARE,
    HOST_WEIGHT,
    LATE_WEIGHT,
    LONG_BATCH_S,
    SILENT_S,
    STALE_S,
    UNEVEN_STEPS,
)
from penstock.server.views import Finding, Kept, PlanView
from penstock.streamon.advice import Length, held_back, in_ticks, late, skew

WAITING = node_id(1, "engine")
"""Where rows are kept that wait for their time."""


def findings(
    found: Measurements,
    plan: PlanView,
    busy: Mapping[tuple[str, int], float],
    batch: Batch | None,
    silent: Mapping[str, str],
    length: Length = in_ticks,
) -> list[Finding]:
    """What holds a query back, the most important first. ``silent``: a sentence per input that is.

    Something is always the slowest part; it is blamed only if batches take long.
    """
    every = [*_silent(silent), *_advised(found), *_late(found, length)]
    if _is_held_back(batch):
        every += [
            *_operators(plan, busy),
            *_slow_partitions(found),
            *_queues(plan, found),
            *_host(found, batch),
        ]
    if all(f.kind == "late" for f in every) and found:
        every.append(
            Finding("idle", 0.0, "Nothing holds the query back: its batches keep up with its input.")
        )
    return sorted(every, key=lambda f: -f.weight)


def _is_held_back(batch: Batch | None) -> bool:
    """Whether a query's batches take so long that one would like to know why, and one was not long ago."""
    if batch is None:
        return False
    return batch.seconds >= LONG_BATCH_S and time.time() - batch.ended < max(STALE_S, 2 * batch.seconds)


class Silence:
    """Inputs that hold a query back and have not moved for some seconds."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], tuple[float, float]] = {}

    def observe(self, found: Measurements) -> None:
        """Take in the latest measurements of all queries."""
        now, before = time.monotonic(), self._since
        self._since = {}
        for place, (at, _) in held_back(found).items():
            known = before.get(place)
            self._since[place] = known if known is not None and known[0] == at else (at, now)

    def of(self, run: str, found: Measurements, batch: Batch | None) -> dict[str, str]:
        """By silent input of a query, what to say of it; while a long batch runs nothing is seen to move."""
        now, least = time.monotonic(), max(SILENT_S, 2 * batch.seconds if batch else 0.0)
        sentences = {name: text for (own, name), (_, text) in held_back(found).items() if own == run}
        since = {name: then for (own, name), (_, then) in self._since.items() if own == run}
        return {name: text for name, text in sentences.items() if now - since.get(name, now) >= least}


def _silent(silent: Mapping[str, str]) -> Iterator[Finding]:
    for name, sentence in silent.items():
        yield Finding("source", 1.0, _sentence(sentence), node=node_id(1, f"input/{name}"))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _operators(plan: PlanView, busy: Mapping[tuple[str, int], float]) -> Iterator[Finding]:
    """The operator that runs most of all, if it runs most of the time."""
    if not busy:
        return
    (id, partition), share = max(busy.items(), key=lambda item: item[1])
    node = next((n for n in plan.nodes if n.id == id), None)
    if share >= BUSY and node is not None:
        yield Finding(
            "operator",
            share,
            f"{node.name} {node.label} runs {share:.0%} of the time in partition {partition}.",
            "More partitions divide its work; see also the order of its probes and its access methods.",
            id,
        )


def _advised(found: Measurements) -> Iterator[Finding]:
    """A partition that gets most rows, for a key that can be declared."""
    for s in skew(found):
        if s.advice:
            yield Finding("partition", min(1.0, s.busiest / len(s.rows)), _sentence(s.advice),
                          f"Declare {s.declare} for {s.input}." if s.declare else "",
                          node_id(s.stage, f"input/{s.input}"))  # fmt: skip


def _slow_partitions(found: Measurements) -> Iterator[Finding]:
    """A partition whose steps take longest."""
    seconds: dict[int, dict[int, float]] = {}
    for m in found.of(Property.STEP_SECONDS):
        seconds.setdefault(m.stage, {})[m.partition] = m.value
    for stage, by_partition in seconds.items():
        mean = sum(by_partition.values()) / len(by_partition)
        slowest = max(by_partition, key=by_partition.__getitem__)
        if len(by_partition) > 1 and mean and by_partition[slowest] > UNEVEN_STEPS * mean:
            yield Finding(
                "partition",
                1 - mean / by_partition[slowest],
                f"Partition {slowest} of stage {stage} took {by_partition[slowest]:.2f} s for its last step, "
                f"the mean is {mean:.2f} s; the others wait for it.",
                "See which keys it has: ps.skew() lists those with many rows.",
            )


def _queues(plan: PlanView, found: Measurements) -> Iterator[Finding]:
    """Rows that wait in the input manager, and a queue that is longer than a slice."""
    for edge in plan.edges:
        if edge.kind == "queue" and edge.waiting:
            yield Finding(
                "queue", 0.5, f"{edge.waiting:,.0f} elements wait between {edge.source} and {edge.target}.",
                "A smaller slice_rows or the scheduler chain keeps queues short.", edge.target,
            )  # fmt: skip


def _host(found: Measurements, batch: Batch | None) -> Iterator[Finding]:
    """Spark's own share of a batch."""
    steps: dict[int, float] = {}
    for m in found.of(Property.STEP_SECONDS):
        steps[m.stage] = max(m.value, steps.get(m.stage, 0.0))
    if batch is None or not batch.seconds or not steps:
        return
    outside = 1 - min(1.0, sum(steps.values()) / batch.seconds)
    if outside >= HOST_SHARE:
        yield Finding(
            "spark",
            outside * HOST_WEIGHT,
            f"{outside:.0%} of the last batch ({batch.seconds:.2f} s) passed outside the engines: scanning, "
            "shuffling, committing and writing.",
            "Larger batches (a longer trigger) share this cost; fewer shuffle partitions reduce it.",
        )


def _late(found: Measurements, length: Length) -> Iterator[Finding]:
    for (_, name), sentence in late(found, length).items():
        yield Finding("late", LATE_WEIGHT, _sentence(sentence), node=node_id(1, f"input/{name}"))


def memory(found: Measurements, plan: PlanView) -> list[Kept]:
    """Where the memory is: each store once, then operators' own state, the largest first."""
    stores = [n for n in plan.nodes if n.kind == "store" and n.writers]  # others: in their operator
    counted = {w for n in stores for w in n.writers}
    kept = [Kept(n.id, _store_name(n.id, plan), n.rows, n.bytes, n.queries, n.parts) for n in stores]
    for n in plan.nodes:
        own = n.kind in ("operator", "window") and n.id not in counted
        if (own or n.kind == "cache") and (n.bytes or n.rows):
            kept.append(Kept(n.id, f"{n.name} {n.label}".strip(), n.rows, n.bytes, n.queries, n.parts))
    waiting = sum(m.value for m in found.of_kind(Kind.ENGINE).of(Property.WAITING))
    if waiting:
        kept.append(Kept(WAITING, "rows that wait for their time", waiting, 0.0))
    return sorted(kept, key=lambda k: -k.bytes)


def _store_name(id: str, plan: PlanView) -> str:
    """A store is named by the windows that fill it."""
    node = plan.node(id)
    windows = [plan.node(w) for w in node.writers if any(n.id == w for n in plan.nodes)]
    below = {e.target: e.source for e in plan.edges if e.kind == "queue"}
    named = []
    for w in windows:
        source = below.get(w.id, "")
        origin = next((n.label or n.name for n in plan.nodes if n.id == source), "")
        named.append(f"{origin} {w.label}".strip())
    return ", ".join(dict.fromkeys(named)) or node.name
