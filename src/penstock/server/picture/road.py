"""An expressway as a map: both directions, segments coloured by velocity, with tolls and accidents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from penstock.server.picture.settings import (
    FREE_MPH,
    KEY_WIDTH,
    ROAD_BETWEEN,
    ROAD_FOOT,
    ROAD_LEFT,
    ROAD_TOP,
    SEGMENT_HEIGHT,
    SEGMENT_WIDTH,
    SLOW_MPH,
    TALLEST_TOLL,
)
from penstock.workloads.linear_road.layout import SEGMENTS

if TYPE_CHECKING:
    from penstock.server.road import Place, RoadMap

_STYLE = (
    ".road text{fill:var(--ps-ink);font:11px Inter,'Segoe UI',sans-serif}.road .quiet{fill:var(--ps-quiet)}"
    ".road .empty{fill:var(--ps-shade)}.road .edge{stroke:var(--ps-line);fill:none}"
    ".road .crash{stroke:var(--ps-ink);stroke-width:2.2;stroke-linecap:round}"
    ".road .toll{fill:var(--ps-accent)}.road .mid{text-anchor:middle}.road .end{text-anchor:end}"
)


def road_svg(road: RoadMap, xway: int) -> str:
    """The picture of one expressway."""
    width = ROAD_LEFT + SEGMENTS * SEGMENT_WIDTH + 10
    height = ROAD_TOP + 2 * SEGMENT_HEIGHT + ROAD_BETWEEN + ROAD_FOOT
    parts = [
        *_direction(road, xway, 0, ROAD_TOP),
        *_direction(road, xway, 1, ROAD_TOP + SEGMENT_HEIGHT + ROAD_BETWEEN),
        *_key(height),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="road" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Expressway {xway}"><style>{_STYLE}</style>{"".join(parts)}</svg>'
    )


def _direction(road: RoadMap, xway: int, direction: int, top: int) -> Iterator[str]:
    arrow = "east →" if direction == 0 else "← west"
    yield f'<text class="end" x="{ROAD_LEFT - 6}" y="{top + SEGMENT_HEIGHT / 2 + 4}">{arrow}</text>'
    dearest = max((toll for _, toll in road.tolls.values()), default=0)
    for segment in range(SEGMENTS):
        place = (xway, direction, segment)
        yield from _segment(road, place, ROAD_LEFT + segment * SEGMENT_WIDTH, top, dearest)
    yield f'<rect class="edge" x="{ROAD_LEFT}" y="{top}" {_size(SEGMENTS)}/>'
    for segment in range(0, SEGMENTS, 10):
        at = ROAD_LEFT + (segment + 0.5) * SEGMENT_WIDTH
        yield f'<text class="quiet mid" x="{at}" y="{top + SEGMENT_HEIGHT + 14}">{segment}</text>'


def _segment(road: RoadMap, place: Place, x: int, top: int, dearest: int) -> Iterator[str]:
    lav, toll = road.tolls.get(place, (None, 0))
    title = escape(_words(road.cars, place, lav, toll, place in road.accidents))
    face = 'class="empty"' if lav is None else f'fill="{colour(lav)}"'
    yield f'<rect x="{x}" y="{top}" {_size(1)} {face}><title>{title}</title></rect>'
    if toll:
        high = max(2.0, TALLEST_TOLL * toll / dearest)
        where = f'x="{x + 2}" y="{top - 2 - high:.1f}" width="{SEGMENT_WIDTH - 4}" height="{high:.1f}"'
        yield f'<rect class="toll" {where}/>'
    if place in road.accidents:
        a, b, c, d = x + 1, x + SEGMENT_WIDTH - 1, top + SEGMENT_HEIGHT / 2 - 4, top + SEGMENT_HEIGHT / 2 + 4
        yield f'<path class="crash" d="M{a} {c}L{b} {d}M{a} {d}L{b} {c}"/>'


def _size(segments: int) -> str:
    return f'width="{segments * SEGMENT_WIDTH}" height="{SEGMENT_HEIGHT}"'


def _words(cars: Mapping[Place, int], place: Place, lav: int | None, toll: int, accident: bool) -> str:
    found = [f"segment {place[2]}", f"{cars.get(place, 0)} cars"]
    found += [] if lav is None else [f"{lav} mph", f"toll {toll}"]
    return ", ".join(found + (["accident"] if accident else []))


def _key(height: int) -> Iterator[str]:
    y = height - 22
    for n, speed in enumerate(range(SLOW_MPH, FREE_MPH + 1, 10)):
        x = ROAD_LEFT + n * KEY_WIDTH
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour(speed)}"/>'
        yield f'<text x="{x + 16}" y="{y + 10}">{speed} mph</text>'
    x = ROAD_LEFT + 6 * KEY_WIDTH + 12
    yield f'<rect class="toll" x="{x}" y="{y}" width="6" height="12"/>'
    yield f'<text x="{x + 12}" y="{y + 10}">toll</text>'
    yield f'<path class="crash" d="M{x + 50} {y + 2}l8 8m0 -8l-8 8"/>'
    yield f'<text x="{x + 64}" y="{y + 10}">accident</text>'


def colour(speed: float) -> str:
    """From red, slow, over yellow to green, free."""
    share = min(1.0, max(0.0, (speed - SLOW_MPH) / (FREE_MPH - SLOW_MPH)))
    return f"hsl({120 * share:.0f} 62% 52%)"
