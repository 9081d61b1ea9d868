"""The texts and numbers of a picture that change while a plan runs, by key.

The key of a box's value is its id and a field, as ``1/mjoin.7|rate``; that of a flow ``source>target|width``.
A page asks for these again and again, and for a new picture only when the plan has changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from penstock.server.picture.scene import PARTS, Box, Scene
from penstock.server.picture.settings import SHOWN_BUSY, THINNEST, WIDEST
from penstock.server.views import PlanNode, PlanView

Values = dict[str, str | float]


def values_of(plan: PlanView, scene: Scene) -> Values:
    """The values of all boxes and flows of a scene."""
    nodes = {n.id: n for n in plan.nodes}
    parts: dict[str, list[PlanNode]] = {}
    for node in plan.nodes:
        if node.kind in PARTS:
            parts.setdefault(node.part_of, []).append(node)
    found: Values = {}
    for box in scene.boxes.values():
        own = [nodes[id] for id in box.folded or (box.id,)]
        found |= {f"{box.id}|{name}": value for name, value in _box(box, own, parts, plan.running)}
    return found | dict(_flows(plan, scene))


def _box(
    box: Box, own: list[PlanNode], parts: dict[str, list[PlanNode]], running: bool
) -> Iterator[tuple[str, str | float]]:
    last = own[-1]
    rate = next((n.rate for n in own if n.kind == "result"), last.rate)
    yield "rate", f"{count_of(rate)}/s" if running and box.kind != "store" else ""
    busy = sum(n.busy or 0.0 for n in own) if box.folded else last.busy or 0.0
    yield "busy", round(min(1.0, busy), 3)
    rows, size = sum(n.rows for n in own), sum(n.bytes for n in own)
    if box.kind == "store":
        yield "rows", f"{count_of(rows)} rows" if running else last.label
        yield "bytes", f"{size_of(size)} · {last.label}" if running else ""
        return
    words = [f"{count_of(rows)} rows", size_of(size)] if rows and box.kind != "window" else []
    if running and busy >= SHOWN_BUSY:
        words.insert(0, f"busy {busy:.0%}")
    yield "state", " · ".join(words)
    if box.labels:
        for order in last.orders:
            yield from ((f"order.{order.of}.{at}", step) for at, step in enumerate(order.steps))
    notes = [*(_note(p) for p in parts.get(box.id, ())), *([f"within {last.budget}"] if last.budget else [])]
    yield from ((f"note.{number}", note) for number, note in enumerate(notes))


def _note(part: PlanNode) -> str:
    """A cache or index in a line."""
    shown = {p.property: p.value for p in part.properties}
    if part.kind == "index":
        return f"{part.label.removeprefix('index on ')}: {part.method}"
    hits, misses = shown.get("hits", 0.0), shown.get("misses", 0.0)
    rate = f" {hits / (hits + misses):.0%} hits," if hits + misses else ""
    return f"cache {part.label}:{rate} {size_of(part.bytes)}"


def _flows(plan: PlanView, scene: Scene) -> Iterator[tuple[str, str | float]]:
    most = max((e.rate for e in plan.edges), default=0.0)
    to = {part: box.id for box in scene.boxes.values() for part in box.folded}
    rates: dict[str, float] = {}
    waits: dict[str, float] = {}
    for edge in plan.edges:
        key = flow_key(to.get(edge.source, edge.source), to.get(edge.target, edge.target), edge.kind)
        rates[key] = rates.get(key, 0.0) + edge.rate
        waits[key] = waits.get(key, 0.0) + edge.waiting
    for flow in scene.flows:
        key = flow_key(flow.source, flow.target, flow.kind)
        rate = rates.get(key, 0.0) if plan.running and flow.kind != "stub" else 0.0
        yield f"{key}|width", round(width_of(rate, most), 1)
        waiting = waits.get(key, 0.0)
        yield f"{key}|waits", count_of(waiting) if waiting else ""


def flow_key(source: str, target: str, kind: str) -> str:
    """The name of a flow in keys."""
    return f"{source}>{target}>{kind}"


def width_of(rate: float, most: float) -> float:
    """The width of a flow, by the logarithm of its rate: a tenth of the rows is not a tenth of the width."""
    if rate <= 0 or most <= 0:
        return THINNEST
    return THINNEST + (WIDEST - THINNEST) * math.log1p(rate) / math.log1p(most)


def count_of(value: float) -> str:
    """A number in at most five characters.

    >>> [count_of(v) for v in (0, 7.25, 980, 12_345, 2_500_000)]
    ['0', '7.2', '980', '12.3k', '2.5M']
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def size_of(value: float) -> str:
    """A number of bytes in a few characters.

    >>> [size_of(v) for v in (0, 900, 41_000, 4_100_000)]
    ['0 B', '900 B', '41.0 kB', '4.1 MB']
    """
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"
