"""What a picture of a plan shows: boxes and the flows between them, without places and numbers.

Boxes are the streams as Spark reads them, the operators and stores of every stage, and results. Caches,
indexes and budgets are lines in the box of their operator. A store has a flow to each reader's stub, so what
is shared has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.server.views import PlanNode, PlanView

_ICONS = {
    "source": "queue",
    "select": "filter",
    "mjoin": "join",
    "binary-join": "join",
    "look-up": "join",
    "w-join": "join",
    "antijoin": "join",
    "aggregate": "sum",
    "window-aggregate": "sum",
    "rank": "sum",
    "window-rank": "sum",
    "duplicate-eliminate": "set",
    "union": "set",
    "except": "set",
    "intersect": "set",
    "project": "columns",
    "expire": "clock",
    "since": "clock",
    "i-stream": "out",
    "d-stream": "out",
    "r-stream": "out",
    "changelog": "out",
}
_KINDS = {"source": "stream", "window": "window", "store": "store", "result": "result"}
PLAIN = {"source", "project", "expire", "changelog", "i-stream", "d-stream", "r-stream", "since"}
"""Operators whose boxes have one line: they keep little, and a plan has many of them."""
PARTS = ("cache", "index")
"""Kinds of nodes that are lines in the box of the operator they are part of."""


@dataclass(frozen=True)
class Box:
    """A part of a plan. ``text`` are its parameters, ``users`` the queries that it works for.

    ``labels``: the inputs of a join that each probe the others in an order. ``notes``: how many lines on
    caches, indexes and budgets it has. ``plain``: it has one line. ``folded``: the boxes that it stands for.
    """

    id: str
    kind: str
    icon: str
    title: str
    text: str = ""
    stage: int = 0
    users: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    notes: int = 0
    plain: bool = False
    folded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flow:
    """Elements from one box to another. ``kind`` is that of the edge: "queue", "exchange" or "stub".

    ``label`` says how rows are moved between machines, where they are.
    """

    source: str
    target: str
    kind: str = "queue"
    label: str = ""


@dataclass(frozen=True)
class Scene:
    """All boxes by id, the flows, and the frame of each stage: its name and why it is as it is."""

    boxes: Mapping[str, Box]
    flows: tuple[Flow, ...]
    stages: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def queries(self) -> set[str]:
        return {user for box in self.boxes.values() for user in box.users}


def scene_of(plan: PlanView) -> Scene:
    """What the picture of a plan shows."""
    parts: dict[str, int] = {}
    for node in plan.nodes:
        if node.kind in PARTS:
            parts[node.part_of] = parts.get(node.part_of, 0) + 1
    boxes = {n.id: _box(n, parts.get(n.id, 0)) for n in plan.nodes if n.kind not in PARTS}
    found = (Flow(e.source, e.target, e.kind, e.label) for e in plan.edges)
    flows = [f for f in dict.fromkeys(found) if f.source in boxes and f.target in boxes]
    labels = {n.id: _routing(n.label) for n in plan.nodes if n.kind == "source"}
    flows = [replace(f, label=f.label or labels.get(f.source, "")) for f in flows]
    many = {
        s.number: "1 partition" if s.partitions == 1 else f"{s.partitions} partitions" for s in plan.stages
    }
    frames = {s.number: (f"stage {s.number} on {many[s.number]}", s.why) for s in plan.stages}
    return Scene(boxes, tuple(flows), frames)


def _box(node: PlanNode, parts: int) -> Box:
    kind = _KINDS.get(node.kind, "operator")
    icon = kind if kind != "operator" else _ICONS.get(node.name, "operator")
    title, text = node.name, node.label
    if node.name == "source" and node.kind == "operator":
        title = "input"
    if kind == "store":
        title = "store"
    if kind == "stream":
        text = node.label.partition("; to ")[0]
    labels = tuple(o.of for o in node.orders) if node.kind == "operator" else ()
    labels = labels if len(labels) > 2 else ()
    stage = 0 if kind in ("stream", "result") else node.stage
    notes = parts + bool(node.budget)
    plain = kind == "result" or (kind == "operator" and node.name in PLAIN)
    return Box(node.id, kind, icon, title, text, stage, node.queries, labels, notes, plain)


def _routing(label: str) -> str:
    """Of what Spark does with a stream, where its rows go."""
    return next((part for part in label.split("; ") if part.startswith(("to ", "broadcast"))), "")


def folded(scene: Scene, shown: frozenset[str] = frozenset()) -> Scene:
    """The scene with the parts that only one query uses as one box, except of queries that are ``shown``."""
    own: dict[str, list[Box]] = {}
    for box in scene.boxes.values():
        if len(box.users) == 1 and box.kind != "stream" and box.users[0] not in shown:
            own.setdefault(box.users[0], []).append(box)
    to = {b.id: f"query/{user}" for user, parts in own.items() for b in parts}
    boxes = {b.id: b for b in scene.boxes.values() if b.id not in to}
    boxes |= {f"query/{user}": _query(user, parts) for user, parts in own.items()}
    return Scene(boxes, tuple(_folded_flows(scene, to)), scene.stages)


def _query(user: str, parts: list[Box]) -> Box:
    names = dict.fromkeys(b.title for b in parts if b.kind in ("operator", "window"))
    members = tuple(b.id for b in parts)
    return Box(f"query/{user}", "query", "result", user, ", ".join(names), users=(user,), folded=members)


def _folded_flows(scene: Scene, to: Mapping[str, str]) -> Iterator[Flow]:
    seen = set()
    for flow in scene.flows:
        source, target = to.get(flow.source, flow.source), to.get(flow.target, flow.target)
        if source in to.values() and target not in to.values():
            # It fills a store that others fill as well: shown as if by what the folded window reads.
            source = next(
                (f.source for f in scene.flows if f.target == flow.source and f.source not in to), target
            )
        if source != target and (source, target, flow.kind) not in seen:
            seen.add((source, target, flow.kind))
            yield Flow(source, target, flow.kind, flow.label)
