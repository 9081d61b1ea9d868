"""The SVG of a plan: boxes in layers, flows as wide as their rates, frames around the stages.

Every text is escaped, and nothing else of a query gets into the SVG. What changes while a plan runs is marked
with the key of its value (``data-text``, ``data-bar``, ``data-wide``), so that a page can change it in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from penstock.server.picture.icons import ICONS
from penstock.server.picture.layout import Layout, layout, levels
from penstock.server.picture.scene import Box, Flow, Scene, folded, scene_of
from penstock.server.picture.settings import (
    BOX_HEIGHT,
    BOX_WIDTH,
    CHAR_WIDTH,
    FOLD_FROM,
    HOT,
    LAYER_GAP,
    MARGIN,
    NOTE_HEIGHT,
    ORDER_HEIGHT,
    PAD,
    PLAIN_HEIGHT,
    QUERIES_PER_ROW,
    SHOWN_LABEL,
    STORE_WIDTH,
    THINNEST,
)
from penstock.server.picture.style import STYLE
from penstock.server.picture.values import Values, flow_key, values_of
from penstock.server.views import PlanView


@dataclass(frozen=True)
class Picture:
    """A drawn plan: its SVG, the scene that is shown, and the values in it by key."""

    svg: str
    scene: Scene = field(repr=False)
    values: Values = field(repr=False)
    width: float
    height: float

    def _repr_svg_(self) -> str:
        """In notebooks it is shown as the picture."""
        return self.svg


def picture(plan: PlanView, fold: bool | None = None, shown: frozenset[str] = frozenset()) -> Picture:
    """Draw a plan.

    ``fold``: whether what only one query uses is one box, except for the queries that are ``shown``; by
    default if the picture would have many boxes.
    """
    scene = scene_of(plan)
    if fold or (fold is None and len(scene.boxes) > FOLD_FROM and len(scene.queries) > 1):
        scene = folded(scene, shown)
    values = values_of(plan, scene)
    sizes = {b.id: _size(b) for b in scene.boxes.values()}
    edges = [(f.source, f.target) for f in scene.flows]
    places = layout(sizes, edges, _levels(scene, edges), _near(scene))
    width, height = places.width + 2 * MARGIN, places.height + 2 * MARGIN
    body = "".join(_body(scene, places, sizes, values))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="Plan of the query">'
        f"<style>{STYLE}</style>{body}</svg>"
    )
    return Picture(svg, scene, values, width, height)


def _levels(scene: Scene, edges: list[tuple[str, str]]) -> dict[str, int]:
    """Layers, in which a stage is below the one before, and boxes of whole queries stand in rows."""
    boxes = scene.boxes
    inner = [(a, b) for a, b in edges if boxes[a].stage == boxes[b].stage]
    fed, read = {b for _, b in inner}, {a for a, _ in inner}
    apart = [
        (a.id, b.id)
        for a in boxes.values()
        for b in boxes.values()
        if a.stage and b.stage == a.stage + 1 and b.id not in fed and a.id not in read
    ]
    found = levels(scene.boxes, [*edges, *apart])
    queries = [b.id for b in scene.boxes.values() if b.kind == "query"]
    if len(queries) > QUERIES_PER_ROW:
        lowest = max((found[b] for b in scene.boxes if b not in set(queries)), default=0)
        feeders = {b: sorted(a for a, to in edges if to == b) for b in queries}
        for number, id in enumerate(sorted(queries, key=lambda q: (feeders[q], q))):
            found[id] = max(found[id], lowest + 1 + number // QUERIES_PER_ROW)
    return found


def _near(scene: Scene) -> frozenset[tuple[str, str]]:
    """The flows of chains: from a box that only one other reads, which reads nothing else."""
    readers = Counter(f.source for f in scene.flows)
    feeders = Counter(f.target for f in scene.flows)
    chained = (f for f in scene.flows if f.kind == "queue" and readers[f.source] == feeders[f.target] == 1)
    return frozenset((f.source, f.target) for f in chained)


def _size(box: Box) -> tuple[float, float]:
    if box.kind == "store":
        return STORE_WIDTH, BOX_HEIGHT
    if box.plain and not box.notes:
        return BOX_WIDTH, PLAIN_HEIGHT
    steps = (_slot(box) + 14) * len(box.labels) + 2 * PAD if box.labels else 0
    more = ORDER_HEIGHT * len(box.labels) + NOTE_HEIGHT * box.notes
    return max(BOX_WIDTH, steps), BOX_HEIGHT + more + (6 if more else 0)


def _slot(box: Box) -> float:
    """The width of a step in an order of probes."""
    return min(70.0, max([17.0, *(len(label) * CHAR_WIDTH + 8 for label in box.labels)]))


def _body(
    scene: Scene, places: Layout, sizes: Mapping[str, tuple[float, float]], values: Values
) -> Iterator[str]:
    yield f'<g class="whole" transform="translate({MARGIN} {MARGIN})">'
    yield from _frames(scene, places, sizes)
    for part in (_path, _mark):  # no flow runs over the words of another
        for flow in scene.flows:
            yield from _flow(flow, scene, part(flow, places.paths[flow.source, flow.target], values))
    for box in scene.boxes.values():
        (x, y), (width, height) = places.centres[box.id], sizes[box.id]
        yield from _box(box, x - width / 2, y - height / 2, width, height, values)
    yield "</g>"


def _frames(scene: Scene, places: Layout, sizes: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for stage, (name, why) in scene.stages.items():
        own = [b.id for b in scene.boxes.values() if b.stage == stage]
        if not own:
            continue
        left = min(places.centres[b][0] - sizes[b][0] / 2 for b in own) - 32
        right = max(places.centres[b][0] + sizes[b][0] / 2 for b in own) + 16
        top = min(places.centres[b][1] - sizes[b][1] / 2 for b in own) - 12
        bottom = max(places.centres[b][1] + sizes[b][1] / 2 for b in own) + 12
        because = f"<title>{_attribute(why)}</title>" if why else ""
        yield f'<g class="frame">{because}{_rect(left, top, right - left, bottom - top, 10)}'
        yield f'<g transform="translate({left + 17:.1f} {top + 12:.1f}) rotate(-90)">'
        yield f"{_text(0, 0, name, 'frame-name')}</g></g>"


def _flow(flow: Flow, scene: Scene, drawn: Iterator[str]) -> Iterator[str]:
    """A part of a flow's picture."""
    parts = list(drawn)
    if not parts:
        return
    words = f"{scene.boxes[flow.source].title} to {scene.boxes[flow.target].title}"
    yield f'<g class="flow {flow.kind}" data-from="{_attribute(flow.source)}" '
    yield f'data-to="{_attribute(flow.target)}"><title>{_attribute(words)}</title>'
    yield from parts
    yield "</g>"


def _path(flow: Flow, points: list[tuple[float, float]], values: Values) -> Iterator[str]:
    key = flow_key(flow.source, flow.target, flow.kind)
    wide, live = values.get(f"{key}|width", THINNEST), _attribute(key)
    yield f'<path d="{_curve(points)}" stroke-width="{wide}" data-wide="{live}|width"/>'


def _mark(flow: Flow, points: list[tuple[float, float]], values: Values) -> Iterator[str]:
    """The queue of a flow, or the words on how rows are moved."""
    key = flow_key(flow.source, flow.target, flow.kind)
    live = _attribute(key)
    (x1, y1), (x2, y2) = points[:2]
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    if flow.kind == "exchange":  # just above its target, where no other flow ends
        x, y = points[-1][0], points[-1][1] - LAYER_GAP / 2
    if flow.kind == "queue":
        waits = values.get(f"{key}|waits", "")
        full = " full" if waits else ""
        yield f'<g class="ladder{full}" data-full="{live}|waits" data-queue="{live}" tabindex="0" '
        yield f'role="button" aria-label="queue from {_attribute(flow.source)} to {_attribute(flow.target)}" '
        yield f'transform="translate({x - 6:.1f} {y - 7:.1f})">'
        yield f'{_rect(0, 0, 12, 14, 2)}<path d="M3 1V13M9 1V13M3 3.5H9M3 7H9M3 10.5H9"/></g>'
        yield _text(x + 11, y + 4, str(waits), "waits", f"{key}|waits")
    elif flow.kind == "exchange":
        shown = _short(flow.label, SHOWN_LABEL * CHAR_WIDTH)
        width = len(shown) * 5.6 + 14
        yield f'<g class="chip"><title>{_attribute(flow.label)}</title>'
        yield _rect(x - width / 2, y - 9, width, 17, 8)
        yield f"{_text(x, y + 3.5, shown, 'chip-words')}</g>"


def _curve(points: list[tuple[float, float]]) -> str:
    """Through all points, leaving and entering each vertically."""
    (x, y), *more = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in more:
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(path)


def _box(box: Box, x: float, y: float, width: float, height: float, values: Values) -> Iterator[str]:
    shared = len(box.users) > 1
    kind = f"{box.kind} {box.icon}" + (" shared" if shared else "")
    users = f"; used by {', '.join(box.users)}" if shared else ""
    name = _attribute(f"{box.title} {box.text}{users}".strip())
    yield f'<g class="box {kind}" data-box="{_attribute(box.id)}" tabindex="0" role="button" '
    yield f'aria-label="{name}" transform="translate({x:.1f} {y:.1f})"><title>{name}</title>'
    if shared and box.kind != "store":
        yield _rect(4, 4, width, height, 7).replace("<rect", '<rect class="behind"')
    yield _rect(0, 0, width, height, 7).replace("<rect", '<rect class="face"')
    yield from _content(box)(box, width, height, values)
    yield "</g>"


def _content(box: Box) -> Callable[[Box, float, float, Values], Iterator[str]]:
    if box.kind == "store":
        return _store
    return _line if box.plain and not box.notes else _lines


def _icon(name: str, x: float, y: float) -> str:
    return f'<path class="icon" transform="translate({x} {y})" d="{ICONS.get(name, ICONS["operator"])}"/>'


def _store(box: Box, width: float, height: float, values: Values) -> Iterator[str]:
    key = f"{box.id}|"
    yield _icon("store", PAD, PAD - 1)
    title = f"store ×{len(box.users)}" if len(box.users) > 1 else "store"
    yield _text(PAD + 23, 22, title, "title")
    yield _text(
        PAD, 39, str(values.get(f"{key}rows", "")) or _short(box.text, width - 2 * PAD), "stat", f"{key}rows"
    )
    yield _text(PAD, 53, str(values.get(f"{key}bytes", "")), "stat", f"{key}bytes")


def _line(box: Box, width: float, height: float, values: Values) -> Iterator[str]:
    """A box with one line: its name, then its parameters."""
    key = f"{box.id}|"
    yield _icon(box.icon, PAD, 7)
    name = len(box.title) * 7.2 + PAD + 30
    yield _text(PAD + 23, 19.5, _short(box.title, width - 90, 6.8), "title")
    yield _text(name, 19.5, _short(box.text, width - name - 56), "words")
    yield _text(width - PAD, 19.5, str(values.get(f"{key}rate", "")), "rate", f"{key}rate")
    yield from _bar(box, width, height, values)


def _lines(box: Box, width: float, height: float, values: Values) -> Iterator[str]:
    key, inner = f"{box.id}|", width - 2 * PAD
    yield _icon(box.icon, PAD, PAD - 2)
    yield _text(PAD + 23, 21, _short(box.title, inner - 80, 6.8), "title")
    yield _text(width - PAD, 21, str(values.get(f"{key}rate", "")), "rate", f"{key}rate")
    users = f"{len(box.users)} queries · " if len(box.users) > 1 and box.kind != "query" else ""
    yield _text(PAD, 37, _short(users + box.text, inner), "words")
    yield _text(PAD, 51, _short(str(values.get(f"{key}state", "")), inner), "stat", f"{key}state")
    top = BOX_HEIGHT
    if len(box.labels) > 2:
        for label in box.labels:
            yield from _order(box, label, top, values)
            top += ORDER_HEIGHT
    number = 0
    while (note := values.get(f"{key}note.{number}")) is not None:
        yield _text(PAD, top + 10, _short(str(note), inner), "note", f"{key}note.{number}")
        number, top = number + 1, top + NOTE_HEIGHT
    yield from _bar(box, width, height, values)


def _bar(box: Box, width: float, height: float, values: Values) -> Iterator[str]:
    """How busy an operator is."""
    busy, hot = float(values.get(f"{box.id}|busy", 0.0)), ""
    if busy >= HOT:
        hot = " hot"
    yield f'<rect class="bar{hot}" x="1" y="{height - 3.5:.1f}" height="2.5" rx="1.2" '
    yield f'width="{busy * (width - 2):.1f}" data-bar="{_attribute(box.id)}|busy" data-of="{width - 2:.0f}"/>'


def _order(box: Box, label: str, top: float, values: Values) -> Iterator[str]:
    """The steps in which rows of an input probe the others, from left to right."""
    slot, key = _slot(box), f"{box.id}|order.{label}."
    yield _text(PAD + slot / 2, top + 13, _short(label, slot), "from")
    for at in range(len(box.labels) - 1):
        x, step = PAD + (slot + 14) * (at + 1), str(values.get(f"{key}{at}", ""))
        yield f'<path class="then" d="M{x - 10:.1f} {top + 9:.1f}h6m-3 -3l3 3l-3 3"/>'
        yield _rect(x, top + 1, slot, 16, 8).replace("<rect", '<rect class="step"')
        yield _text(x + slot / 2, top + 13, _short(step, slot), "step-name", f"{key}{at}")


def _rect(x: float, y: float, width: float, height: float, round: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round:g}"/>'


def _text(x: float, y: float, text: str, style: str, key: str = "") -> str:
    live = f' data-text="{_attribute(key)}"' if key else ""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{live}>{escape(_printable(text))}</text>'


def _short(text: str, width: float, char: float = CHAR_WIDTH) -> str:
    """As much of a text as fits."""
    text = " ".join(text.split())
    fits = int(width / char)
    return text if len(text) <= fits else f"{text[: max(1, fits - 1)].rstrip()}…"


def _attribute(text: str) -> str:
    return escape(_printable(text), quote=True)


def _printable(text: str) -> str:
    """XML has no place for control characters."""
    return "".join(c if c.isprintable() else " " for c in text)
